"""What is to be found out: the cells of a table, each with the recipe whose result fills it."""

import abc
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Literal

from ..errors import SpecError, nearest
from ..registry import name_of
from ..system.files import Json
from ..tasks.base import Task
from ..training.model import Network
from ..training.recipe import Recipe, fingerprint


@dataclass(frozen=True)
class Cell:
    """Where a recipe's result goes; recipes that share a cell (seeds, as a rule) are averaged."""

    row: str
    column: str
    recipe: Recipe
    label: str = ""  # what a paper calls the task, where another one stands in for it
    printed: tuple[str, str, str] | None = None  # the paper's number: table, row and column of its CSV
    fold: int = 0  # which part of the task is the test split; those of a row, column and seed are pooled


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


def nothing(finished: Finished) -> list[Json]:
    """Measure nothing besides scores."""
    return []


@dataclass(frozen=True)
class Experiment:
    """Everything that the runner knows of a study: cells, and how to report them."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    contrasts: tuple[tuple[str, str], ...]  # (treatment, control) columns; the headline first
    scale: str = "small"
    first_seed: int = 0
    about: Mapping[str, str] = field(default_factory=dict)  # sections of its page, by their titles
    notes: tuple[str, ...] = ()
    figure: Literal["none", "bars", "lines"] = "none"  # how its page draws the scores
    paper: str = ""  # the CSV of printed numbers, e.g. amos2024
    measure: Callable[[Finished], list[Json]] = nothing  # curves of what finished, for the page
    lasting: bool = False  # whether its folder is called by name and scale, whatever its cells are

    def __post_init__(self) -> None:
        if not self.cells:
            why = "; ".join(self.notes)
            raise SpecError(f"{self.name}: nothing can be run at the {self.scale} scale: {why}")

    @property
    def folder(self) -> str:
        """The name of its folder; without ``lasting``, the same cells have the same."""
        if self.lasting:
            return f"{self.name}-{self.scale}"
        prints = "\n".join(f"{cell.row}|{cell.column}|{fingerprint(cell.recipe)}" for cell in self.cells)
        tasks = dict.fromkeys(name_of(cell.recipe.task) for cell in self.cells)
        return f"{self.name}-{'+'.join(tasks)}-{hashlib.sha256(prints.encode()).hexdigest()[:10]}"

    def by_task(self) -> list[list[Cell]]:
        """The cells of every task that is reported, all folds together, in order."""
        tasks: list[Task] = []
        found: list[list[Cell]] = []
        for cell in self.cells:
            task = cell.recipe.task.parts()[0]
            if task not in tasks:
                tasks.append(task)
                found.append([])
            found[tasks.index(task)].append(cell)
        return found

    def chosen(self, only: str | None) -> list[Cell]:
        """The cells of ``ROW/COLUMN``, where either may hold ``*``; ``ROW`` alone means all of its columns.

        Raises:
            SpecError: if there is no such cell.
        """
        if only is None:
            return list(self.cells)
        row, _, column = only.partition("/")
        fits = (row.strip(), column.strip() or "*")
        found = [c for c in self.cells if fnmatch(c.row, fits[0]) and fnmatch(c.column, fits[1])]
        if not found:
            places = list(dict.fromkeys(f"{cell.row}/{cell.column}" for cell in self.cells))
            raise SpecError(f"--only {only}: there is no such row and column{nearest(only, places)}")
        return found
