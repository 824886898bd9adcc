"""A study is a table, cell by cell, of recipes whose results fill it."""

import abc
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from ..runner.plan import Cell, Finished
from ..system.files import Json
from ..training.recipe import Budget, Stage

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")


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


def toy(stage: Stage) -> Stage:
    """The same stage with four steps of a small batch: it runs, and proves nothing."""
    return replace(stage, budget=Budget(steps=4), batch=min(stage.batch, 8), evals=1)
