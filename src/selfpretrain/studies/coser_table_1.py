"""Does the gain of self-pretraining show again, with plain training from scratch beside it?

Source: Coser & Orvieto (2025), Table 1, which repeats Amos et al. (2024), Table 1.

Protocol: the Transformer of the small sizes; from scratch with the budget of finetuning, and self-pretrained
with the masked objective. The tied arm is ours.

Expected: 11 to 24 points over scratch.

What differs: the paper's network starts with identical Q, K, V and O and masks no padding; neither is so
here.
"""

from collections.abc import Iterator

from ..mixers.attention import Attention
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ._table_study import IMAGE, LISTOPS, PATHFINDER, RETRIEVAL, SCRATCH, SPT, TEXT, Table, usual_arms

NAMES = {IMAGE: "CIFAR10"}
PRINTED = {SCRATCH: "from scratch", SPT: "SPT, reproduced"}


@spec
class Replication(Table):
    """Three arms per task."""

    contrasts = ((SPT, "scratch, tied"), (SPT, SCRATCH))
    figure = "bars"
    paper = "coser2025"
    recipes = "coser"
    tasks = (LISTOPS, IMAGE, PATHFINDER, RETRIEVAL, TEXT)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """The same runs as in Table 1 of Amos et al."""
        for column, recipe in usual_arms(task, self.arms(task, Attention(), "transformer", "masked")).items():
            printed = PRINTED.get(column)
            key = ("Table 1", printed, NAMES.get(label, label)) if printed else None
            yield Cell("Transformer", column, recipe, printed=key)


study = Replication
