"""Self-pretraining with the optimizer Muon, then finetuning with AdamW."""

from ...config import spec
from ..recipes.arms import MATCHED, SPT
from .base import MuonStages


@spec
class MuonBefore(MuonStages):
    """Muon pretrains and AdamW finetunes: the first half of a mismatch of optimizers.

    Source: arXiv 2605.10468, of pretraining on other data.
    """

    column = "SPT, Muon in pretraining"
    against = ("SPT, Muon", SPT, MATCHED)
    after = False


arm = MuonBefore
