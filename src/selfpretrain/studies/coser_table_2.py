"""How much pretraining is enough?

Source: Coser & Orvieto (2025), Table 2.

Protocol: pretraining of growing length, each with its own schedule drawn out over it, then the same
finetuning; from scratch with the compute of the longest of them (matched).

Expected: ten epochs give nearly all of the gain on ListOps and CIFAR-10; on Pathfinder most comes after
100.

What differs: the paper has neither a matched arm nor text; for a single epoch it shortened the warm-up, and
does not say to what: here, to a tenth. At the small scale text is pretrained with either
objective, the causal one with a causal network in both stages; images with the masked objective.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..tasks.base import Task
from ..training.cost import Planner
from ..training.recipe import Recipe
from .common.table_study import IMAGE, LISTOPS, PATHFINDER, TEXT, PaperCell, TableRow, TableStudy
from .recipes.arms import MATCHED, matched_stage, with_epochs
from .recipes.reported import task_name
from .recipes.tables import task_constants

EPOCHS = (0, 1, 10, 50, 100, 150, 200)
SMALL_EPOCHS = (0, 1, 5, 10, 20, 40)
SMALL_EPOCHS_OF = {PATHFINDER: (0, 1, 2, 5, 10)}  # an epoch of ``paths`` has 60,000 images
SMOKE_SHARE = 0.05  # of every length, at smoke scale
TRANSFORMER = TableRow("Transformer", Attention(), "transformer")


@spec
class Ladder(TableStudy):
    """One column per length of pretraining."""

    paper = "coser2025"
    contrasts = (
        ("10 epochs", "0 epochs"),
        ("1 epoch", "0 epochs"),
        ("10 epochs", MATCHED),
        ("40 epochs", MATCHED),
        ("200 epochs", MATCHED),
    )
    tasks = (LISTOPS, IMAGE, PATHFINDER)
    small_tasks = (IMAGE, TEXT, PATHFINDER)
    names = {IMAGE: "CIFAR10"}

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield one row; at the small scale, text gets a row for each objective."""
        if self.scale == "paper":
            yield TRANSFORMER
            return
        if label == TEXT:
            yield replace(TRANSFORMER, variant=", causal", objective="causal")
        yield replace(TRANSFORMER, variant=", masked")

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return one recipe per length of pretraining, and scratch matched to the longest."""
        arms = self.arms(label, task, architecture)
        recipes = {}
        small = SMALL_EPOCHS_OF.get(label, SMALL_EPOCHS)
        share = SMOKE_SHARE if self.scale == "smoke" else 1.0
        for epochs in EPOCHS if self.scale == "paper" else small:
            pretrain = with_epochs(arms.pretrain, share * max(epochs, 1))
            if epochs == 1 and self.scale == "paper":
                # The paper shortens this warm-up, but does not say to what: here, to a tenth of the epoch.
                steps = task_constants()[task_name(task)].examples // pretrain.batch // 10
                pretrain = replace(pretrain, optim=replace(pretrain.optim, warmup_steps=steps))
            longest = replace(arms, pretrain=pretrain)
            stages = (longest.pretrain, arms.finetune) if epochs else (arms.finetune,)
            recipes[_column(epochs)] = Recipe(task, arms.model, stages)
        return recipes | {MATCHED: Recipe(task, arms.scratch_model, (matched_stage(task, longest, planner),))}

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return the place in the paper, where lengths are rows."""
        is_printed = label != TEXT and column in map(_column, EPOCHS)
        return ("Table 2", column, self.names.get(label, label)) if is_printed else None


def _column(epochs: int) -> str:
    return f"{epochs} epoch" + "s" * (epochs != 1)


study = Ladder
