"""Does self-pretraining gain more where there are fewer training sequences?

Source: Amos et al. (2024), Figure 3 and section 3.4.

Protocol: nested parts of the training split; pretraining and finetuning see the same part, pretraining with
as many steps as on the whole; from scratch with the budget of finetuning, and with the compute of both
together.

Expected: small gains on all the data, up to 30 % on the smallest part.

What differs: the matched arm is ours. From scratch on text the paper takes the better of two learning rates
on validation: `--tune` does. At the small scale S4D stands in for S4, beside a Transformer; text is
pretrained causally there, and the smallest part holds 100 sequences.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..config import spec
from ..mixers.attention import Attention
from ..mixers.s4 import S4
from ..mixers.s4d import S4D
from ..runner.experiment import Finished
from ..runner.tuning import SearchSpace
from ..system.files import Json
from .common.plots import Points, append_point, mean_score, panel
from .common.table_study import IMAGE, PATHFINDER, TEXT, TableRow, TableStudy
from .recipes.arms import SCRATCH, SPT

PARTS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
SMALL_PARTS = (0.05, 0.2, 0.5, 1.0)
PAPER = (TableRow("S4", S4(), "s4-subsets"),)
SMALL = (
    TableRow("Transformer", Attention(), "s4-subsets"),
    TableRow("S4D", S4D(), "s4-subsets"),
)


@spec
class DataScale(TableStudy):
    """Three arms per fraction of the data."""

    space = SearchSpace(lr=(1e-3, 5e-4), batch=())
    figure = "lines"
    paper = "amos2024"
    tasks = (IMAGE, TEXT)
    small_tasks = (TEXT, PATHFINDER)
    small_objective = {TEXT: "causal"}

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield a row for every fraction of the data."""
        for architecture in PAPER if self.scale == "paper" else SMALL:
            for fraction in PARTS if self.scale == "paper" else SMALL_PARTS:
                settings = (f"stage.fraction={fraction}",)
                yield replace(architecture, variant=f" · {100 * fraction:g} %", settings=settings)

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of the gain of SPT in percent of the scratch score, by fraction of the data."""
        plots = []
        for label, cells in self.cells_by_task().items():
            means: dict[str, dict[str, float]] = {}
            for cell in cells:
                means.setdefault(cell.row, {})[cell.column] = mean_score(finished, cell.recipe, self.seeds)
            curves: dict[str, Points] = {}
            for row, by_column in means.items():
                if SPT in by_column:  # some further mixers have none
                    name, _, fraction = row.partition(" · ")
                    append_point(curves, name, fraction, 100 * (by_column[SPT] / by_column[SCRATCH] - 1))
            plots.append(panel(f"{label}: gain relative to scratch", "part of the data", "%", curves))
        return plots


study = DataScale
