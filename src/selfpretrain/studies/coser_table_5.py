"""Does the gain grow with depth, and does it matter on which data a network was pretrained?

Source: Coser & Orvieto (2025), Table 5 and Figure 2.

Protocol: one to three layers, of Pathfinder one, two and four; from scratch, self-pretrained on the task's
own sequences, and pretrained on those of the other task. Where the two have different symbols the embedding
starts afresh.

Expected: gains at every depth and more in deeper networks; other data give part of the gain.

What differs: the paper swaps CIFAR-10 and Pathfinder, whose pixels are alike. At the small scale ListOps and
text are swapped, whose vocabularies differ, with the causal objective; and paths are pretrained on pictures
of shorter curves and more of them, made of the same symbols.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..report.paper_numbers import look_up
from ..runner.experiment import Finished
from ..system.files import Json
from ..tasks.base import Task
from ..tasks.paths import Paths
from ..training.cost import Planner
from ..training.recipe import Recipe
from ..training.transfer import EVERYTHING_BUT_THE_HEAD, Transfer
from .arms.base import recipes_by_column
from .common.plots import Points, append_point, mean_score, panel
from .common.table_study import IMAGE, LISTOPS, PATHFINDER, TEXT, PaperCell, TableRow, TableStudy
from .recipes.arms import MATCHED, SCRATCH, SPT

OWN = "SPT, own data"
OTHER = "SPT, other data"
DEPTHS = {PATHFINDER: (1, 2, 4)}
SWAP = {LISTOPS: TEXT, TEXT: LISTOPS, IMAGE: PATHFINDER, PATHFINDER: IMAGE}
BODY = Transfer(fresh=("head.*", "embed.*"))
TRANSFORMER = TableRow("Transformer", Attention(), "transformer")


@spec
class DepthAndSource(TableStudy):
    """Four arms per depth."""

    contrasts = ((OWN, MATCHED), (OTHER, MATCHED), (OWN, OTHER), (OWN, SCRATCH))
    figure = "lines"
    paper = "coser2025"
    tasks = (IMAGE, PATHFINDER)
    small_tasks = (LISTOPS, TEXT, PATHFINDER)
    small_objective = {LISTOPS: "causal", TEXT: "causal"}
    names = {IMAGE: "CIFAR10"}

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield one row per depth."""
        for depth in DEPTHS.get(label, (1, 2, 3)):
            variant = f" · {depth} layer{'s' * (depth > 1)}"
            yield replace(TRANSFORMER, variant=variant, settings=(f"model.depth={depth}",))

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return scratch, matched scratch, and SPT on the task's own data and on those of another task."""
        arms = self.arms(label, task, architecture)
        other = self.other_task(label, task, planner)
        if other is None:
            return {}
        recipes = recipes_by_column(task, arms, planner=planner)
        pretrain_elsewhere = replace(self.arms(label, other, architecture).pretrain, source=other)
        rule = EVERYTHING_BUT_THE_HEAD if task.form.signal == other.form.signal else BODY
        swapped = Recipe(task, arms.model, (pretrain_elsewhere, replace(arms.finetune, transfer=rule)))
        return {
            SCRATCH: recipes[SCRATCH],
            MATCHED: recipes[MATCHED],
            OWN: recipes[SPT],
            OTHER: swapped,
        }

    def other_task(self, label: str, task: Task, planner: Planner) -> Task | None:
        """Return the other task to pretrain on (for paths, other curves), or None if it is not prepared."""
        curves = replace(task, shortest=4, longest=5, distractors=2) if isinstance(task, Paths) else None
        return curves or self.available_tasks(planner).get(SWAP[label])

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return the place in the paper, where depths are columns and arms are rows."""
        own_name, other = (self.names.get(name, name) for name in (label, SWAP[label]))
        printed_arms = {SCRATCH: "from scratch", OWN: "SPT", OTHER: f"pretrained on {other}"}
        layers = architecture.variant.removeprefix(" · ")
        is_printed = self.scale == "paper" and column in printed_arms
        return ("Table 5", f"{own_name}, {printed_arms[column]}, test", layers) if is_printed else None

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of training accuracy by depth for every arm, with the published values."""
        plots = []
        for label, cells in self.own_cells().items():
            curves: dict[str, Points] = {}
            for cell in cells:
                layers = cell.row.partition(" · ")[2]
                append_point(
                    curves, cell.column, layers, mean_score(finished, cell.recipe, self.seeds, "train")
                )
                if found := cell.reported:
                    place = (found.table, found.row.replace(", test", ", train"), found.column)
                    value = 100 * (look_up(self.paper, place).value or 0.0)
                    append_point(curves, f"{cell.column}, printed", layers, value)
            plots.append(panel(f"{label}: accuracy on training data", "", "%", curves))
        return plots


study = DepthAndSource
