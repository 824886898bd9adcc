"""How much pretraining is enough?

Source: Coser & Orvieto (2025), Table 2.

Protocol: pretraining of growing length, each with its own schedule drawn out over it, then the same
finetuning; from scratch with the compute of the longest of them (tied).

Expected: ten epochs give nearly all of the gain on ListOps and CIFAR-10; on Pathfinder most comes after
100.

What differs: the paper has neither a tied arm nor text. At the small scale text is pretrained with either
objective, the causal one with a causal network in both stages; images with the masked objective.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ..training.recipe import Budget, Recipe
from ._table_study import IMAGE, LISTOPS, PATHFINDER, TEXT, TIED, Table
from .recipes.arms import Arms, tied
from .recipes.printed import Denoising

NAMES = {IMAGE: "CIFAR10"}
EPOCHS = (0, 1, 10, 50, 100, 150, 200)
SMALL_EPOCHS = (0, 1, 5, 10, 20, 40)
AT_HAND: dict[str, dict[str, Denoising]] = {
    TEXT: {"Transformer, causal": "causal", "Transformer, masked": "masked"},
    IMAGE: {"Transformer, masked": "masked"},
}
"""The rows of each task on two cores."""


@spec
class Ladder(Table):
    """One column per length of pretraining."""

    figure = "bars"
    paper = "coser2025"
    recipes = "coser"
    contrasts = (
        ("10 epochs", "0 epochs"),
        ("1 epoch", "0 epochs"),
        ("40 epochs", TIED),
        ("200 epochs", TIED),
    )

    tasks = (LISTOPS, IMAGE, PATHFINDER, TEXT)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """Text only on two cores, which have neither ListOps nor Pathfinder."""
        at_hand = AT_HAND.get(label, {})
        printed: dict[str, Denoising] = {} if label == TEXT else {"Transformer": "masked"}
        for name, objective in (printed if self.scale == "paper" else at_hand).items():
            arms = self.arms(task, Attention(), "transformer", objective)
            for column, recipe in self.columns(task, arms).items():
                key = ("Table 2", column, NAMES.get(label, label))
                known = label != TEXT and column in map(_column, EPOCHS)
                yield Cell(name, column, recipe, printed=key if known else None)

    def columns(self, task: Task, arms: Arms) -> dict[str, Recipe]:
        """The lengths of pretraining, and the arm from scratch that costs as much as the longest."""
        lengths = EPOCHS if self.scale == "paper" else SMALL_EPOCHS
        found = {}
        for epochs in lengths:
            longest = replace(arms, pretrain=replace(arms.pretrain, budget=Budget(epochs=max(epochs, 1))))
            stages = (longest.pretrain, arms.finetune) if epochs else (arms.finetune,)
            found[_column(epochs)] = Recipe(task, arms.model, stages)
        return found | {TIED: Recipe(task, arms.scratch_model, (tied(task, longest),))}


def _column(epochs: int) -> str:
    return f"{epochs} epoch" + "s" * (epochs != 1)


study = Ladder
