"""Sets of the UCR archive by a rule, chosen settings, and steps, of studies on them; see ``s4d_or_mamba``."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import ClassVar, cast

from ...config import spec
from ...mixers.attention import Attention
from ...mixers.mamba import Mamba
from ...mixers.ms4 import MS4
from ...mixers.s4d import S4D
from ...tasks.base import Task
from ...tasks.ucr import SETS, Ucr
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..arms.base import recipes_by_column
from ..recipes.arms import MATCHED, SCRATCH, SPT
from ..recipes.defaults import BATCH
from ..recipes.tables import Denoising, read_table
from .table_study import TableRow, TableStudy

MIN_SERIES = 200
"""Smallest number of training series of a set."""
LENGTHS = (128, 1_100)
"""Least and greatest length of a set, in positions."""
USUAL_WIDTH = 64
WIDTHS = {"MS4": 56, "Mamba": 52}
"""Other widths, multiples of 4, with which networks that look back have nearly as many parameters."""
RATES = ("3e-3", "1e-3", "1e-2")
"""Learning rates to try, the first with both directions."""
DIRECTIONS: tuple[Denoising, ...] = ("masked", "causal")
"""Directions to try: both ways, or back alone."""
TRIED_ON = 6
"""Settings are chosen on every sixth set, from the first."""
SMOKE_SETS = 3
"""Sets of a smoke run."""
POSITIONS = 1_200_000
"""Positions that a stage sees, within ``STEPS``."""
STEPS = (100, 400)
"""Fewest and most steps of a stage."""
LARGE = 1_000
"""Training series from which a stage has twice as many steps."""


def chosen_sets() -> tuple[str, ...]:
    """Return the sets of the study: of each family the first that is neither too small, short nor long."""
    found: dict[str, str] = {}
    for name, row in SETS.items():
        if int(row["train"]) >= MIN_SERIES and LENGTHS[0] <= int(row["length"]) <= LENGTHS[1]:
            found.setdefault(row["family"], name)
    return tuple(found.values())


def steps(name: str) -> int:
    """Return the steps of a stage on a set, by length and size; pretraining, finetuning and scratch alike."""
    series, length = (int(SETS[name][key]) for key in ("train", "length"))
    by_length = min(STEPS[1], round(POSITIONS / length / BATCH))
    return max(STEPS[0], by_length * (2 if series >= LARGE else 1))


Option = tuple[Denoising, str]
"""Direction, by its objective, and learning rate."""
CHOSEN: dict[tuple[str, str], Option] = {
    (line["row"], line["column"]): (cast(Denoising, line["objective"]), line["lr"])
    for line in read_table("s4d_or_mamba")
}
"""Row and column -> what was best on validation."""
UNTRIED: Option = ("masked", RATES[0])
"""Settings of what was not tried."""


@spec
class TimeSeriesStudy(TableStudy):
    """Three arms per architecture on every set."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH), (MATCHED, SCRATCH))
    times: ClassVar[int] = 1  # times the steps
    tasks = chosen_sets()
    stand_ins: ClassVar[dict[str, Task]] = {name: Ucr(set=name) for name in chosen_sets()}
    unprinted = "the sets of the paper (arXiv 2605.27406) are not to be had"
    architectures = tuple(
        TableRow(name, mixer, "")
        for name, mixer in (("Transformer", Attention()), ("S4D", S4D()), ("MS4", MS4()), ("Mamba", Mamba()))
    )

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return the arms with the settings that were chosen for each."""
        chosen = {column: CHOSEN.get((architecture.row, column), UNTRIED) for column in self.columns}
        return self.recipes_with(chosen, label, task, architecture, planner)

    def recipes_with(
        self, chosen: Mapping[str, Option], label: str, task: Task, architecture: TableRow, planner: Planner
    ) -> dict[str, Recipe]:
        """Return the arms with some settings by column; the matched one has the FLOPs of self-pretraining."""
        arms = {}
        for column, (objective, lr) in chosen.items():
            rate = f"stage.optim.lr={lr}", f"stage.budget.steps={self.times * steps(label)}"
            width = f"model.width={WIDTHS.get(architecture.row, USUAL_WIDTH)}"
            settings = (*rate, width) if self.scale == "small" else ()
            row = replace(architecture, objective=objective, settings=settings)
            arms[column] = self.arms(label, task, row)
        scratch = arms[SCRATCH]
        matched = arms[MATCHED]
        both = replace(arms[SPT], scratch=matched.scratch, scratch_model=matched.scratch_model)
        return {
            **recipes_by_column(task, scratch, planner=planner, chosen=("scratch",)),
            **recipes_by_column(task, both, planner=planner, chosen=("matched", "spt")),
        }

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return the settings of every arm, and the sets that are left out."""
        available = self.available_tasks(planner)
        sets = [f"{name}: {self.times * steps(name)} steps per stage" for name in available]
        absent = [f"{name} is left out: selfpretrain data get ucr --from pypi" for name in self.all_tasks()]
        return [
            *(
                f"{row}, {column}: {objective}, rate {lr}"
                for (row, column), (objective, lr) in CHOSEN.items()
            ),
            *([] if CHOSEN else [f"nothing was tried yet: {UNTRIED[0]}, rate {UNTRIED[1]} for all"]),
            "; ".join(sets),
            *(note for note in absent if note.partition(" ")[0] not in available),
        ]

    def all_tasks(self) -> dict[str, Task]:
        """Return the sets of the study by name; at smoke scale a few."""
        tasks = super().all_tasks()
        return dict(islice(tasks.items(), SMOKE_SETS)) if self.scale == "smoke" else tasks
