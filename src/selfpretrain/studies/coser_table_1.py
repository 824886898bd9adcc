"""Does the gain of self-pretraining show again, with plain training from scratch beside it?

Source: Coser & Orvieto (2025), Table 1, which repeats Amos et al. (2024), Table 1.

Protocol: the Transformer of the small sizes; from scratch with the budget of finetuning, and self-pretrained
with the masked objective. The matched arm is ours.

Expected: 11 to 24 points over scratch.

What differs: the paper's network starts with identical Q, K, V and O and masks no padding; neither is so
here.
"""

from ..config import spec
from ..mixers.attention import Attention
from .common.table_study import IMAGE, LISTOPS, PATHFINDER, RETRIEVAL, TEXT, TableRow, TableStudy
from .recipes.arms import SCRATCH, SPT


@spec
class Replication(TableStudy):
    """Three arms per task."""

    paper = "coser2025"
    tasks = (LISTOPS, IMAGE, PATHFINDER, RETRIEVAL, TEXT)
    architectures = (TableRow("Transformer", Attention(), "transformer"),)
    table = "Table 1"
    paper_rows = {("Transformer", SCRATCH): "from scratch", ("Transformer", SPT): "SPT, reproduced"}
    names = {IMAGE: "CIFAR10"}


study = Replication
