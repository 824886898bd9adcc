"""A study is a table, cell by cell, of recipes whose results fill it."""

import abc
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import ClassVar, Literal

from .errors import SpecError
from .model import Network
from .recipe import Budget, Recipe, Stage, fingerprint
from .run import Bench
from .shelf import name_of, nearest
from .store import Folder, Json
from .tasks.base import Task

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")


@dataclass(frozen=True)
class Cell:
    """Where a recipe's result goes; recipes that share a cell (seeds, as a rule) are averaged."""

    row: str
    column: str
    recipe: Recipe
    label: str = ""  # what a paper calls the task, where another one stands in for it
    printed: tuple[str, str, str] | None = None  # the paper's number: table, row and column of its CSV


class Finished(abc.ABC):
    """What recipes that have been run left.

    Raises:
        StoreError: from its methods, where a recipe has not been run, or its weights are gone.
    """

    @abc.abstractmethod
    def network(self, recipe: Recipe) -> Network:
        """Trained."""

    @abc.abstractmethod
    def result(self, recipe: Recipe) -> Json:
        """Scores, steps and cost of the last stage."""

    @abc.abstractmethod
    def log(self, recipe: Recipe) -> list[Json]:
        """The lines that the last stage told while it was trained."""


@dataclass(frozen=True)
class Job:
    """One stage to run: the last of its recipe."""

    recipe: Recipe
    name: str  # of its folder
    after: str | None  # name of the stage that it starts from
    tested: bool  # whether a cell reports it


class Study(abc.ABC):
    """A spec that yields the cells of one table.

    Its module's docstring asks the question in its first line; lines such as ``Source: ...`` and
    ``Expected: ...`` below are the sections of its page.
    """

    contrasts: ClassVar[tuple[tuple[str, str], ...]] = ()  # (treatment, control) columns; the headline first
    figure: ClassVar[Literal["none", "bars", "lines"]] = "none"  # how its page draws the scores
    paper: ClassVar[str] = ""  # the CSV of printed numbers, e.g. amos2024

    @classmethod
    @abc.abstractmethod
    def at(cls, scale: Scale, seeds: int) -> "Study":
        """The study at a scale: smoke (seconds, proves nothing), small (two cores), paper (as printed).

        Raises:
            SpecError: if there is no recipe at that scale.
        """

    @abc.abstractmethod
    def cells(self) -> Iterator[Cell]:
        """What to run, and where in the table it goes."""

    def notes(self) -> list[str]:
        """What a reader of the report should know."""
        return []

    def measures(self, finished: Finished) -> list[Json]:
        """Curves measured on what finished, for the page: title, x, y and series of label, x and y."""
        return []


def jobs(cells: list[Cell], bench: Bench, tested: bool = True) -> list[Job]:
    """Every stage of a study once, each after the one it starts from.

    Args:
        tested: whether the last stages are scored on the test split; False while settings are chosen.
    """
    found: dict[str, Job] = {}
    for cell in cells:
        before = None
        for prefix in cell.recipe.prefixes():
            name = bench.folder(prefix).name
            last = tested and len(prefix.stages) == len(cell.recipe.stages)
            found[name] = Job(prefix, name, before, last or (name in found and found[name].tested))
            before = name
    return list(found.values())


def parts(cells: list[Cell]) -> list[list[Cell]]:
    """The cells of every task that is reported, in order."""
    tasks: list[Task] = []
    found: list[list[Cell]] = []
    for cell in cells:
        if cell.recipe.task not in tasks:
            tasks.append(cell.recipe.task)
            found.append([])
        found[tasks.index(cell.recipe.task)].append(cell)
    return found


def chosen(cells: list[Cell], only: str | None) -> list[Cell]:
    """The cells of ``ROW/COLUMN``, where either may hold ``*``; ``ROW`` alone means all of its columns.

    Raises:
        SpecError: if there is no such cell.
    """
    if only is None:
        return cells
    row, _, column = only.partition("/")
    found = [c for c in cells if fnmatch(c.row, row.strip()) and fnmatch(c.column, column.strip() or "*")]
    if not found:
        places = list(dict.fromkeys(f"{cell.row}/{cell.column}" for cell in cells))
        raise SpecError(f"--only {only}: there is no such row and column{nearest(only, places)}")
    return found


def home(study: Study, cells: list[Cell], bench: Bench) -> Folder:
    """Where a study leaves the table of one task; the same cells have the same folder."""
    prints = "\n".join(f"{cell.row}|{cell.column}|{fingerprint(cell.recipe)}" for cell in cells)
    digest = hashlib.sha256(prints.encode()).hexdigest()[:10]
    return Folder.make(bench.runs / f"{name_of(study)}-{name_of(cells[0].recipe.task)}-{digest}")


def toy(stage: Stage) -> Stage:
    """The same stage with four steps of a small batch: it runs, and proves nothing."""
    return replace(stage, budget=Budget(steps=4), batch=min(stage.batch, 8), evals=1)
