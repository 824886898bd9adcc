"""Does attention have to be learnt at all when training from scratch?

Source: Coser & Orvieto (2025), Table 3.

Protocol: from scratch; everything trained, attention left as it started, attention and MLP left as they
started. Embedding, norms and head are always trained.

Expected: frozen attention costs little on most tasks.

What differs: whether norms were trained there is not said; they are here. Scratch has the compute of
pretraining and finetuning together, so that nobody is stopped early.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ..training.recipe import Recipe
from ._table_study import IMAGE, LISTOPS, PATHFINDER, RETRIEVAL, TEXT, Table
from .recipes.arms import tied

TRAINED = "all trained"
FROZEN = {
    TRAINED: (),
    "attention frozen": ("blocks.*.mixer.*",),
    "attention and MLP frozen": ("blocks.*.mixer.*", "blocks.*.mlp.*"),
}

NAMES, PRINTED = {IMAGE: "CIFAR10"}, {TRAINED: "from scratch"}


@spec
class Frozen(Table):
    """Three arms per task."""

    contrasts = (("attention frozen", TRAINED), ("attention and MLP frozen", TRAINED))
    figure = "bars"
    paper = "coser2025"
    recipes = "coser"
    tasks = (LISTOPS, IMAGE, PATHFINDER, RETRIEVAL, TEXT)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """Equal steps for all three."""
        arms = self.arms(task, Attention(), "transformer", "masked")
        for column, patterns in FROZEN.items():
            stage = replace(tied(task, arms), freeze=patterns)
            key = ("Table 3", NAMES.get(label, label), PRINTED.get(column, column))
            yield Cell("Transformer", column, Recipe(task, arms.scratch_model, (stage,)), printed=key)


study = Frozen
