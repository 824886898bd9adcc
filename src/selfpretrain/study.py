"""A study is a table, cell by cell, of recipes whose results fill it."""

import abc
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from .recipe import Budget, Recipe, Stage, fingerprint
from .run import Bench
from .shelf import name_of
from .store import Folder
from .tasks.base import Task

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")


@dataclass(frozen=True)
class Cell:
    """Where a recipe's result goes; recipes that share a cell (seeds, as a rule) are averaged."""

    row: str
    column: str
    recipe: Recipe


@dataclass(frozen=True)
class Job:
    """One stage to run: the last of its recipe."""

    recipe: Recipe
    name: str  # of its folder
    after: str | None  # name of the stage that it starts from
    tested: bool  # whether a cell reports it


class Study(abc.ABC):
    """A spec that yields the cells of one table; its module's docstring says question, source and cost."""

    contrasts: ClassVar[tuple[tuple[str, str], ...]] = ()  # (treatment, control) columns; the headline first

    task: Task

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


def home(study: Study, cells: list[Cell], bench: Bench) -> Folder:
    """Where a study leaves its table; the same cells have the same folder."""
    prints = "\n".join(f"{cell.row}|{cell.column}|{fingerprint(cell.recipe)}" for cell in cells)
    digest = hashlib.sha256(prints.encode()).hexdigest()[:10]
    return Folder.make(bench.runs / f"{name_of(study)}-{name_of(study.task)}-{digest}")


def toy(stage: Stage) -> Stage:
    """The same stage with four steps of a small batch: it runs, and proves nothing."""
    return replace(stage, budget=Budget(steps=4), batch=min(stage.batch, 8), evals=1)
