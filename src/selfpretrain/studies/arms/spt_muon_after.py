"""Self-pretraining with AdamW, then finetuning with the optimizer Muon."""

from ...config import spec
from ..recipes.arms import MATCHED, SPT
from .base import MuonStages


@spec
class MuonAfter(MuonStages):
    """AdamW pretrains and Muon finetunes: the other half of a mismatch of optimizers.

    Source: arXiv 2605.10468, of pretraining on other data.
    """

    column = "SPT, Muon in finetuning"
    against = ("SPT, Muon", SPT, MATCHED)
    before = False


arm = MuonAfter
