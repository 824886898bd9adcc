"""Are modern recurrent architectures worse than attention, or were they only trained from scratch?

Source: our question, after the one most asked about Mamba on Long Range Arena (state-spaces/mamba, issue
282). Its author answers with Amos et al. (2024). No table that we know has these architectures
self-pretrained.

Protocol: modern recurrences and convolutions beside a Transformer, S4, and two that were in front on Long
Range Arena, MEGA in print and sparse attention in our own zoo. All look back only, as most of them were
published, and have the width at which their parameters come nearest to those of the Transformer; from
scratch, from scratch with the compute of pretraining and finetuning together, and self-pretrained with the
causal objective.

Expected: the order from scratch says little of the order after self-pretraining.

What differs: one width, depth and learning rate for all, chosen with other architectures in mind: what suits
an architecture badly may lose for that reason alone (docs/windows.md tries other rates). At the small scale
pictures of paths, text, and associative recall of four pairs; networks of about 72,000 parameters. Steps of
pretraining and finetuning, fewer than in other studies, were chosen on validation for the Transformer: 1,000
and 600 on paths, 1,250 and 400 on text, 600 and 300 on recall (docs/log.md). Layers out of the library
transformers need the extra ``hf``, and are left out without it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec

from ..config import spec
from ..errors import install
from ..mixers.base import Mixer
from ..mixers.common.transformers_layer import LIBRARY, TransformersMixer
from ..runner.experiment import Finished
from ..system.files import Json
from ..tasks.recall import Recall
from ..training.cost import COUNTED, Planner
from ..training.recipe import Recipe
from .common.plots import Points, append_point, mean_score, panel
from .common.table_study import PATHFINDER, STAND_INS, TEXT, TableRow, TableStudy
from .recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes, with_model
from .recipes.tables import read_mixer, read_table

USUAL_WIDTH = 64
RECALL = "Associative recall"
STEPS = {PATHFINDER: (1_000, 600), TEXT: (1_250, 400), RECALL: (600, 300)}
"""Task -> steps of pretraining and finetuning at the small scale; scratch has those of finetuning."""


@dataclass(frozen=True)
class Architecture:
    """A row of ``tables/modern_zoo.tsv``: a mixer, and the width at which it is as large as attention of 64.

    Its state, kept from one position to the next, has ``d2 * width**2 + d * width + constant`` numbers.
    Attention, and convolutions as long as sequences, have none of constant size.
    """

    mixer: Mixer
    small: Mixer  # mixer at the small scales
    width: int
    sizes: tuple[float, ...]  # d2, d and constant; empty without a state of constant size

    @classmethod
    def of(cls, row: dict[str, str]) -> "Architecture":
        """Return the architecture of a row."""
        mixers = read_mixer(row["mixer"]), read_mixer(row["mixer"], row["small"])
        sizes = [row[column] for column in ("state_d2", "state_d", "state_const")]
        return cls(*mixers, int(row["width"]), tuple(float(size) for size in sizes if size))

    @property
    def is_installed(self) -> bool:
        """Return whether the library that the mixer takes its layer from can be imported, if it needs one."""
        return not isinstance(self.mixer, TransformersMixer) or find_spec(LIBRARY) is not None

    def state(self, width: int) -> int:
        """Return the numbers in the state of a layer; 0 if it grows with the sequence."""
        return round(sum(size * power for size, power in zip(self.sizes, (width**2, width, 1), strict=False)))


ZOO = {row["row"]: Architecture.of(row) for row in read_table("modern_zoo")}


@spec
class ModernZoo(TableStudy):
    """Three arms per architecture."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH), (MATCHED, SCRATCH))
    tasks = (PATHFINDER, TEXT)
    small_tasks = (PATHFINDER, TEXT, RECALL)
    stand_ins = STAND_INS | {RECALL: Recall(pairs=4, keys=8, values=8)}
    objective = "causal"
    small_objective = {PATHFINDER: "causal", TEXT: "causal", RECALL: "causal"}

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the architectures that can be built here; at smoke scale, each on one task only."""
        settings: tuple[str, ...] = ()
        if self.scale == "small":
            pretraining, finetuning = STEPS[label]
            steps = {"pretrain": pretraining, "finetune": finetuning, "scratch": finetuning}
            settings = tuple(f"{stage}.budget.steps={number}" for stage, number in steps.items())
        rows = list(ZOO.items())
        if self.scale == "smoke":
            rows = rows[self.small_tasks.index(label) :: len(self.small_tasks)]
        for name, each in rows:
            if each.is_installed:
                row = TableRow(name, each.mixer, "like:transformer-dagger", small=each.small)
                yield replace(row, settings=settings, change=partial(self._resize, width=each.width))

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return size and state of every architecture, and which are left out."""
        absent = [name for name, each in ZOO.items() if not each.is_installed]
        advice = f"left out: without transformers they cannot be built ({install('hf')})"
        return [
            *super().notes(planner),
            *self._sizes(planner),
            *([f"{', '.join(absent)}: {advice}"] if absent else []),
        ]

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of accuracy by size of the state, one per task with a curve per arm."""
        plots = []
        for label, cells in self.cells_by_task().items():
            ours = [cell for cell in cells if cell.row in ZOO]  # without further rows
            sized = [(ZOO[cell.row].state(cell.recipe.model.width), cell) for cell in ours]
            curves: dict[str, Points] = {}
            for size, cell in sorted(sized, key=lambda pair: pair[0]):
                if size:
                    append_point(curves, cell.column, size, mean_score(finished, cell.recipe, self.seeds))
            plots.append(panel(f"{label}: accuracy over state", "numbers in a layer's state", "%", curves))
        return plots

    def _resize(self, arms: ArmRecipes, width: int) -> ArmRecipes:
        """Return the arms with the width of an architecture, relative to that of the Transformer."""
        if self.scale == "smoke":
            return arms
        if self.scale == "paper":
            width = 16 * round(arms.model.width * width / USUAL_WIDTH / 16)
        return with_model(arms, replace(arms.model, width=width))

    def _sizes(self, planner: Planner) -> Iterator[str]:
        """Yield width, parameters on the first task, and state of every architecture."""
        label, task = next(iter(self.available_tasks(planner).items()), ("", None))
        if task is None:
            return
        for row in self.rows(label):
            arms = self.arms(label, task, row)
            parameters = planner.plan(Recipe(task, arms.scratch_model, (arms.scratch,))).parameters
            width = arms.model.width
            size = f"of {ZOO[row.name].state(width):,} numbers" if ZOO[row.name].sizes else "that grows"
            yield f"{row.name}: width {width}, {parameters:,} parameters, a state {size} per layer"


study = ModernZoo
