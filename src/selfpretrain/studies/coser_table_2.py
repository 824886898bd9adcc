"""How much pretraining is enough?

Source: Coser & Orvieto (2025), Table 2.

Protocol: pretraining of growing length, each with its own schedule drawn out over it, then the same
finetuning.

Expected: a single epoch already gives much of the gain; little is added after 50.

What differs: at the small scale text is pretrained causally, and images with the masked objective.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..recipe import Budget, Recipe
from ..shelf import spec
from ..study import Cell
from ..tasks.base import Task
from ._table import IMAGE, LISTOPS, PATHFINDER, TEXT, Table

NAMES = {IMAGE: "CIFAR10"}
EPOCHS = (0, 1, 10, 50, 100, 150, 200)
SMALL_EPOCHS = (0, 1, 5, 10, 20, 40)


@spec
class Ladder(Table):
    """One column per length of pretraining."""

    figure = "bars"
    paper = "coser2025"
    recipes = "coser"
    contrasts = (("10 epochs", "0 epochs"), ("1 epoch", "0 epochs"))

    tasks = (LISTOPS, IMAGE, PATHFINDER, TEXT)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """On two cores images and text alone."""
        if (label == TEXT) == (self.scale == "paper") or (self.scale != "paper" and label == LISTOPS):
            return
        arms = self.arms(task, Attention(), "transformer", "causal" if label == TEXT else "masked")
        for epochs in EPOCHS if self.scale == "paper" else SMALL_EPOCHS:
            pretrain = replace(arms.pretrain, budget=Budget(epochs=max(epochs, 1)))
            stages = (pretrain, arms.finetune) if epochs else (arms.finetune,)
            column = f"{epochs} epoch" if epochs == 1 else f"{epochs} epochs"
            key = ("Table 2", column, NAMES.get(label, label)) if label != TEXT else None
            yield Cell("Transformer", column, Recipe(task, arms.model, stages), printed=key)


study = Ladder
