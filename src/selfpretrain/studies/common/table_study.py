"""Base class of studies that reproduce a table of a paper: architectures by arms, on several tasks.

At the small scale, smaller tasks replace those of the papers. Most subclasses of ``TableStudy`` only set
class variables: tasks, architectures and columns. Some add plots to the scores, see ``plots``.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any, ClassVar

from ...config import Count, spec, with_setting
from ...errors import DataError, SpecError
from ...mixers.base import Mixer
from ...registry import find, name_of
from ...report.paper_numbers import look_up
from ...runner.experiment import Cell, Finished
from ...system.files import Json
from ...tasks.base import Task
from ...tasks.bidmc import Bidmc
from ...tasks.digits import Digits
from ...tasks.listops import ListOps
from ...tasks.paths import Paths
from ...tasks.pathx256 import PathX256
from ...tasks.speech import Speech
from ...tasks.spoken_digits import SpokenDigits
from ...tasks.stdlib import Stdlib
from ...training.cost import COUNTED, Planner
from ...training.recipe import Precision, Recipe
from ..arms.base import recipes_by_column
from ..base import Scale, Study
from ..recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes, distinct_names, with_mixer
from ..recipes.defaults import denoising_objective, settings_beside, small_arms, smoke_arms, with_settings
from ..recipes.reported import paper_arms, task_name
from ..recipes.tables import Denoising
from .plots import plot_averages

LISTOPS = "ListOps"
TEXT = "Text"
RETRIEVAL = "Retrieval"
IMAGE = "Image"
PATHFINDER = "Pathfinder"
PATHX = "PathX"
LRA = (LISTOPS, TEXT, RETRIEVAL, IMAGE, PATHFINDER, PATHX)
PATHX256 = "PathX-256"
SPEECH = "SC"
TEN_WORDS = "SC10 (MFCC)"
TEN_WORDS_RAW = "SC10 (raw)"
BIDMC = ("BIDMC HR", "BIDMC RR", "BIDMC SpO2")
BIDMC_APART = tuple(f"{label} (patients apart)" for label in BIDMC)
PAPER_TASKS: dict[str, Task] = {
    PATHX256: PathX256(),
    SPEECH: Speech(),
    TEN_WORDS: Speech(words=10, features="mfcc", split="papers"),
    TEN_WORDS_RAW: Speech(words=10, split="papers"),
    BIDMC[0]: Bidmc(target="HR", split="paper"),
    BIDMC[1]: Bidmc(target="RR", split="paper"),
    BIDMC[2]: Bidmc(target="SpO2", split="paper"),
    BIDMC_APART[0]: Bidmc(target="HR"),
    BIDMC_APART[1]: Bidmc(target="RR"),
    BIDMC_APART[2]: Bidmc(target="SpO2"),
}
"""Tasks of the papers whose class has another name or other default settings."""
STAND_INS: dict[str, Task] = {
    LISTOPS: ListOps(min_length=20, max_length=64, max_depth=5, max_args=5, train=2000, val=1000, test=2000),
    TEXT: Stdlib(),
    IMAGE: Digits(train=500),
    PATHFINDER: Paths(),
    SPEECH: SpokenDigits(features="mfcc"),
    TEN_WORDS: SpokenDigits(features="mfcc"),
}
"""Smaller tasks for the small scale; the other tasks have none, because their sequences are too long."""

IDENTICAL_START = "attention.mixer.start=identical"
INDEPENDENT_START = "attention.mixer.start=independent"
"""Settings of how the projections of attention start; other mixers keep theirs."""

PaperCell = tuple[str, str, str]
"""Table, row and column of a printed number."""


def keep_arms(arms: ArmRecipes) -> ArmRecipes:
    """Return the recipe unchanged."""
    return arms


@dataclass(frozen=True)
class TableRow:
    """A row of a table: a mixer and the recipe to train it with."""

    name: str
    mixer: Mixer  # at the small scales, and with ``like:``
    family: str  # of the paper's recipes; ``like:FAMILY``: that recipe with its mixer replaced
    variant: str = ""  # suffix of the row's name, e.g. " · 10 %"
    small: Mixer | None = None  # mixer at the small scales, e.g. with short windows
    objective: Denoising | None = None  # None: that of the study
    settings: tuple[str, ...] = ()  # changes of the recipe, such as ``model.depth=1``
    change: Callable[[ArmRecipes], ArmRecipes] = keep_arms  # what settings cannot say; applied before them
    ours: bool = False  # not a row of the paper's table

    @property
    def row(self) -> str:
        """Return the name of the row: ``name`` and ``variant``."""
        return f"{self.name}{self.variant}"


@spec
class TableStudy(Study):
    """A table at a scale; its arms are those of ``selfpretrain compare`` or of the paper.

    Subclasses set the class variables; for another layout they override ``rows``, ``recipes`` or
    ``paper_cell``.
    """

    contrasts: ClassVar[tuple[tuple[str, str], ...]] = ((SPT, MATCHED), (SPT, SCRATCH))
    paper: ClassVar[str] = ""  # CSV file of its numbers, e.g. amos2024
    tasks: ClassVar[tuple[str, ...]] = ()  # names and order of the paper
    small_tasks: ClassVar[tuple[str, ...] | None] = None  # None: all tasks with a stand-in
    stand_ins: ClassVar[dict[str, Task]] = STAND_INS  # name in the paper -> task at the small scales
    paper_recipes: ClassVar[str] = ""  # paper whose recipes are used at the paper scale, if not ``paper``
    architectures: ClassVar[tuple[TableRow, ...]] = ()
    columns: ClassVar[tuple[str, ...]] = (SCRATCH, MATCHED, SPT)  # subset of the usual arms
    objective: ClassVar[Denoising] = "masked"
    small_objective: ClassVar[Mapping[str, Denoising]] = {}  # by task, at the small scales
    share: ClassVar[float] = 1.0  # fraction of the default budget at the small scale
    table: ClassVar[str] = ""  # table of the paper with its numbers
    paper_rows: ClassVar[Mapping[tuple[str, str], str]] = {}  # (row, column) -> row of the paper
    names: ClassVar[Mapping[str, str]] = {}  # task -> column of the paper, if other
    averaged: ClassVar[tuple[str, ...]] = ()  # tasks of the paper's average
    unprinted: ClassVar[str] = ""  # why there is no recipe at the paper scale, if there is none

    scale: Scale = "small"
    seeds: Count = 3
    extra: tuple[Mixer, ...] = ()  # further rows, with the recipe of the first architecture
    settings: tuple[tuple[str, str], ...] = ()  # (path, value), see ``with_settings``
    precision: Precision = "fp32"  # of matrix products, unless changed by a setting

    @classmethod
    def at_scale(cls, scale: Scale, seeds: int) -> "TableStudy":
        """Return the table at a scale.

        Raises:
            SpecError: at the paper scale, if no paper has its recipes.
        """
        if scale == "paper" and cls.unprinted:
            raise SpecError(f"{cls.unprinted}; use --scale small")
        return cls(scale, seeds)

    def with_mixers(self, mixers: tuple[Mixer, ...]) -> "TableStudy":
        """Return the table with one more row per mixer, with the network and recipe of the first row."""
        return replace(self, extra=mixers)

    def with_settings(self, settings: Mapping[str, Any]) -> "TableStudy":
        """Return the table with settings changed, e.g. ``task.source`` or ``pretrain.optim.lr``.

        A setting applies to the tasks that have it, and there to every cell, or with a prefix to the cells of
        a task and row: ``Image/S4*/pretrain.optim.lr``. One of mixers must be a field of each of these.

        Raises:
            SpecError: if no cell has a setting.
        """
        texts = {path: v if isinstance(v, str) else json.dumps(v) for path, v in settings.items()}
        for path in texts:
            if not any(self._has_setting(path, label, task) for label, task in self.all_tasks().items()):
                raise SpecError(f"{path}: no cell of {name_of(self)} has this setting")
        return replace(self, settings=(*self.settings, *texts.items()))

    def with_precision(self, precision: Precision) -> "TableStudy":
        """Return the table with a precision for matrix products, unless a setting changes it."""
        return replace(self, precision=precision)

    @property
    def changed(self) -> bool:
        """Return whether any setting is changed."""
        return bool(self.settings)

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells seed by seed, so that an unfinished table already has all arms."""
        cells = [cell for of_task in self.cells_by_task(planner).values() for cell in of_task]
        for seed in range(self.seeds):
            yield from (replace(cell, recipe=replace(cell.recipe, seed=seed)) for cell in cells)

    def cells_by_task(self, planner: Planner = COUNTED) -> dict[str, list[Cell]]:
        """Return the cells of each task whose data are available, with seed 0."""
        tasks = self.available_tasks(planner)
        return {label: list(self.task_cells(label, task, planner)) for label, task in tasks.items()}

    def own_cells(self, planner: Planner = COUNTED) -> dict[str, list[Cell]]:
        """Return the cells of each task with seed 0, without further mixers: what a study measures."""
        return {
            label: [cell for cell in cells if cell.row in {row.row for row in self.rows(label)}]
            for label, cells in self.cells_by_task(planner).items()
        }

    def task_cells(self, label: str, task: Task, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells of one task with seed 0; each extra mixer has the variants of the first row."""
        rows = list(self.rows(label))
        first = [replace(row, ours=True, small=None) for row in rows if row.name == rows[0].name]
        for name, mixer in zip(distinct_names(self.extra), self.extra, strict=True):
            for row in first:
                family = f"like:{row.family.removeprefix('like:')}"
                rows.append(replace(row, name=name, mixer=mixer, family=family))
        for row in rows:
            for column, recipe in self.recipes(label, task, row, planner).items():
                place = None if row.ours else self.paper_cell(label, row, column)
                yield Cell(row.row, column, recipe, label, look_up(self.paper, place) if place else None)

    def rows(self, label: str) -> Iterator[TableRow]:
        """Yield the rows of a task."""
        yield from self.architectures

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return the recipes of a row by column, with seed 0."""
        recipes = recipes_by_column(task, self.arms(label, task, architecture), planner=planner)
        return {column: recipes[column] for column in self.columns if column in recipes}

    def paper_cell(self, label: str, architecture: TableRow, column: str) -> PaperCell | None:
        """Return table, row and column of the published number of a cell, or None if there is none."""
        row = self.paper_rows.get((architecture.row, column))
        return (self.table, row, self.names.get(label, label)) if row else None

    def arms(self, label: str, task: Task, architecture: TableRow) -> ArmRecipes:
        """Return the recipes of an architecture at this scale, with changed settings applied."""
        name = architecture.family.removeprefix("like:")
        if self.scale == "paper":
            paper = self.paper_recipes or self.paper.rstrip("0123456789") or "amos"
            arms = paper_arms(paper, task_name(task), name, architecture.objective or self.objective)
            arms = arms if name == architecture.family else with_mixer(arms, architecture.mixer)
        else:
            objective = architecture.objective or self.small_objective.get(label, self.objective)
            mixer = architecture.small or architecture.mixer
            arms = small_arms(task, mixer, denoising_objective(task, objective))
            arms = smoke_arms(arms) if self.scale == "smoke" else arms.scale_budget(self.share)
        settings = settings_beside(architecture.mixer, architecture.settings)
        arms = with_settings(architecture.change(arms), settings)
        arms = arms.with_setting("stage.precision", self.precision)
        for setting, text in self.settings:
            pattern, _, path = setting.rpartition("/")
            if not path.startswith("task.") and _matches(pattern, label, architecture.row):
                arms = arms.with_setting(path, text)
        return arms

    def all_tasks(self) -> dict[str, Task]:
        """Return the tasks at this scale by their names in the paper, with changed settings applied."""
        if self.scale == "paper":
            tasks = {label: PAPER_TASKS.get(label) or find("tasks", label.lower())() for label in self.tasks}
        else:
            labels = self.tasks if self.small_tasks is None else self.small_tasks
            tasks = {label: self.stand_ins[label] for label in labels if label in self.stand_ins}
        if self.scale == "smoke":
            tasks = {label: task.tiny() for label, task in tasks.items()}
        for setting, text in self.settings:
            kind, _, path = setting.rpartition("/")[2].partition(".")
            for label, task in tasks.items():
                if kind == "task" and self._has_setting(setting, label, task):
                    tasks[label] = with_setting(task, path, text)
        return tasks

    def available_tasks(self, planner: Planner = COUNTED) -> dict[str, Task]:
        """Return the tasks whose data are available, by their names in the paper; or with stubs."""
        found = {}
        for label, task in self.all_tasks().items():
            with suppress(DataError):
                planned = planner.task(task)
                planned.load("val")
                found[label] = planned
        return found

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return notes on the stand-ins, and on the tasks that are left out."""
        available = self.available_tasks(planner)
        all_tasks = self.all_tasks()
        advice = "is left out: its data are not prepared (selfpretrain data get, selfpretrain data make)"
        absent = [f"{label} {advice}" for label in all_tasks if label not in available]
        if self.scale == "paper":
            return absent
        without = [label for label in self.tasks if label not in all_tasks]
        others = {label: task for label, task in available.items() if not name_of(task).endswith(label)}
        return [
            *(f"{name_of(task)} stands in for {label}" for label, task in others.items()),
            *([f"left out at this scale: {', '.join(without)}"] if without else []),
            *absent,
        ]

    def measures(self, finished: Finished) -> list[Json]:
        """Return the plot of averages over tasks, if the data of all of them are prepared."""
        tasks = {label: task for label, task in self.available_tasks().items() if label in self.averaged}
        if not tasks or len(tasks) < len(self.averaged):
            return []
        return plot_averages(list(self.cells()), tasks, finished, self.paper)

    def _has_setting(self, setting: str, label: str, task: Task) -> bool:
        """Return whether a setting applies to a task or to a row of it."""
        pattern, _, path = setting.rpartition("/")
        if path.startswith("task."):
            return _matches(pattern, label, "") and path.split(".")[1] in vars(task)
        return any(_matches(pattern, label, architecture.row) for architecture in self.rows(label))


def _matches(pattern: str, label: str, row: str) -> bool:
    """Return whether a pattern ``TASK``, ``ROW`` or ``TASK/ROW`` (with ``*``) matches a row of a task."""
    return not pattern or any(fnmatch(name, pattern) for name in (label, row, f"{label}/{row}"))
