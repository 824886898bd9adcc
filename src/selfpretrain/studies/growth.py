"""How long may sequences be before training from scratch falls to chance, and what does each length need?

Source: our question, after Amos et al. (2024), Table 1: Pathfinder has 1,024 positions and PathX 16,384.

Protocol: the question of Pathfinder on pictures of growing size; self-pretrained for as long as usual, for a
third of that and for three times that, then finetuned alike; from scratch with the compute of the usual way
and of the longest.

Expected: scratch falls to chance as sequences grow, sooner for attention than for a state space model; longer
ones need more pretraining.

What differs: no paper asked. At the small scale pictures of paths of 8, 12 and 16 cells a side, read two by
two cells, with curves that grow with them; every size has the training steps that were chosen for the
smallest.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.s4d import S4D
from ..runner.experiment import Cell, Finished
from ..system.files import Json
from ..tasks.base import Task
from ..tasks.paths import Paths
from ..training.cost import COUNTED, Planner
from ..training.recipe import Recipe
from .arms.base import recipes_by_column
from .common.plots import Points, append_point, mean_score, panel
from .common.table_study import PATHFINDER, PATHX, TableRow, TableStudy
from .recipes.arms import MATCHED, SPT, scale_budget

SPT_THIRD = "SPT, a third"
SPT_TRIPLE = "SPT, three times"
MATCHED_TRIPLE = "scratch (matched to three times)"
SIZES = (8, 12, 16)


@spec
class Growth(TableStudy):
    """Five arms per length."""

    contrasts = ((SPT, MATCHED), (SPT_TRIPLE, MATCHED_TRIPLE), (SPT, SPT_THIRD), (SPT_TRIPLE, SPT))
    columns = (MATCHED, SPT)
    tasks = (PATHFINDER, PATHX)
    architectures = (
        TableRow("Transformer", Attention(), "transformer-rotary"),
        TableRow("S4D", S4D(), "like:transformer-rotary"),
    )

    def task_cells(self, label: str, task: Task, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells of a task at each of its lengths."""
        sizes: Iterable[Task] = (task,)
        if isinstance(task, Paths) and task.size == Paths.size:  # else -s task.size has chosen another
            sizes = (replace(task, size=size) for size in SIZES)
        for sized_task in sizes:
            name = f"{label}, {sized_task.form.length:,} positions"
            yield from (replace(cell, label=name) for cell in super().task_cells(label, sized_task, planner))

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return matched scratch and SPT, also with a third and with three times the pretraining."""
        arms = self.arms(label, task, architecture)
        recipes = super().recipes(label, task, architecture, planner)
        for factor, names in ((1 / 3, {SPT: SPT_THIRD}), (3.0, {MATCHED: MATCHED_TRIPLE, SPT: SPT_TRIPLE})):
            changed = replace(arms, pretrain=scale_budget(arms.pretrain, factor))
            others = recipes_by_column(task, changed, planner=planner)
            recipes |= {name: others[arm] for arm, name in names.items() if arm in others}
        return recipes

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of accuracy by length, one per architecture with a curve per arm."""
        curves: dict[str, dict[str, Points]] = {}
        for cells in self.cells_by_task().values():
            for cell in cells:
                length = cell.recipe.task.form.length
                mean = mean_score(finished, cell.recipe, self.seeds)
                append_point(curves.setdefault(cell.row, {}), cell.column, length, mean)
        return [panel(f"{row}: accuracy over length", "positions", "%", arms) for row, arms in curves.items()]


study = Growth
