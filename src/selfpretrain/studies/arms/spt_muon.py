"""Self-pretraining and finetuning with the optimizer Muon."""

from ...config import spec
from ..recipes.arms import MATCHED, SPT
from .base import MuonStages


@spec
class MuonSpt(MuonStages):
    """Both stages of SPT with Muon.

    Why: by arXiv 2605.10468, finetuning with another optimizer than that of pretraining costs accuracy; the
    arms ``spt-muon-before`` and ``spt-muon-after`` have Muon in one stage.
    """

    column = "SPT, Muon"
    against = ("scratch (matched), Muon", SPT, MATCHED)


arm = MuonSpt
