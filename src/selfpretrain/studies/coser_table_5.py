"""Does the gain grow with depth, and does it matter on which data a network was pretrained?

Source: Coser & Orvieto (2025), Table 5 and Figure 2.

Protocol: one to three layers; from scratch, self-pretrained on the task's own sequences, and pretrained on
those of the other task. Where the two have different symbols the embedding starts afresh.

Expected: gains at every depth and more in deeper networks; other data give part of the gain.

What differs: the paper swaps CIFAR-10 and Pathfinder, whose pixels are alike. At the small scale ListOps and
text are swapped, whose vocabularies differ, with the causal objective.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..mixers.attention import Attention
from ..runner.experiment import Cell
from ..spec import spec
from ..tasks.base import Task
from ..training.recipe import Recipe
from ..training.transfer import EVERYTHING_BUT_THE_HEAD, Transfer
from ._table_study import IMAGE, LISTOPS, PATHFINDER, SCRATCH, TEXT, TIED, Table, usual_arms, with_model
from .recipes.printed import Denoising

OWN, OTHER = "SPT, own data", "SPT, other data"
DEPTHS = (1, 2, 3)
NAMES = {IMAGE: "CIFAR10", PATHFINDER: "Pathfinder"}
SWAP = {LISTOPS: TEXT, TEXT: LISTOPS, IMAGE: PATHFINDER, PATHFINDER: IMAGE}
BODY = Transfer(fresh=("head.*", "embed.*"))


@spec
class DepthAndSource(Table):
    """Four arms per depth."""

    contrasts = ((OWN, TIED), (OTHER, TIED), (OWN, OTHER), (OWN, SCRATCH))
    figure = "lines"
    paper = "coser2025"
    recipes = "coser"
    tasks = (LISTOPS, TEXT, IMAGE, PATHFINDER)

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """Images at the paper's scale; on two cores token tasks."""
        at_hand = self.at_hand()
        if (label in (IMAGE, PATHFINDER)) != (self.scale == "paper") or SWAP[label] not in at_hand:
            return
        other = at_hand[SWAP[label]]
        objective: Denoising = "masked" if self.scale == "paper" else "causal"
        arms, theirs = (self.arms(t, Attention(), "transformer", objective) for t in (task, other))
        rule = EVERYTHING_BUT_THE_HEAD if task.form.signal == other.form.signal else BODY
        for depth in DEPTHS:
            mine = with_model(arms, replace(arms.model, depth=depth))
            made = usual_arms(task, mine)
            swapped = replace(theirs.pretrain, source=other)
            finetune = replace(mine.finetune, transfer=rule)
            columns = {
                SCRATCH: made[SCRATCH],
                TIED: made[TIED],
                OWN: made["SPT"],
                OTHER: Recipe(task, mine.model, (swapped, finetune)),
            }
            layers = f"{depth} layer{'s' * (depth > 1)}"
            for column, recipe in columns.items():
                yield Cell(f"Transformer · {layers}", column, recipe, printed=_printed(label, column, layers))


def _printed(label: str, column: str, layers: str) -> tuple[str, str, str] | None:
    mine, other = NAMES.get(label, ""), NAMES.get(SWAP[label], "")
    said = {SCRATCH: "from scratch", OWN: "SPT", OTHER: f"pretrained on {other}"}
    there = mine and column in said and (label, layers) != (PATHFINDER, "3 layers")
    return ("Table 5", f"{mine}, {said[column]}, test", layers) if there else None


study = DepthAndSource
