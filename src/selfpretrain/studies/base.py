"""What a study must do: ask one question, and yield the cells of the table that answers it."""

import abc
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..errors import SpecError
from ..mixers.base import Mixer
from ..registry import first_line, name_of
from ..runner.experiment import Cell, Experiment, Finished
from ..runner.tuning import SearchSpace
from ..system.files import Json
from ..training.recipe import Budget, Precision, Stage

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
SHIPPED = Path(__file__).with_name("results")
"""Results that come with the package, and what their authors make of them."""


class Study(abc.ABC):
    """A spec that yields the cells of one table.

    Its module's docstring asks the question in its first line; lines such as ``Source: ...`` and
    ``Expected: ...`` below are the sections of its page.
    """

    contrasts: ClassVar[tuple[tuple[str, str], ...]] = ()  # (treatment, control) columns; the headline first
    figure: ClassVar[Literal["none", "bars", "lines"]] = "none"  # how its page draws the scores
    paper: ClassVar[str] = ""  # the CSV of printed numbers, e.g. amos2024
    space: ClassVar[SearchSpace] = SearchSpace()  # what ``--tune`` tries, for every arm alike
    lasting: ClassVar[bool] = True  # whether there is one of it at a scale, with one folder and kept results

    @property
    def changed(self) -> bool:
        """Whether settings were changed, so that it is not the study that is meant by its name."""
        return False

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

    def with_mixers(self, mixers: tuple[Mixer, ...]) -> "Study":
        """The same study with further architectures as rows.

        Raises:
            SpecError: if its rows are not architectures.
        """
        names = ", ".join(map(name_of, mixers))
        raise SpecError(f"the rows of {name_of(self)} are not architectures: {names} cannot be added to them")

    def amended(self, settings: Mapping[str, Any]) -> "Study":
        """The same study with settings of its cells changed.

        Raises:
            SpecError: if it has none.
        """
        raise SpecError(f"the cells of {name_of(self)} have no settings to change: {', '.join(settings)}")

    def with_precision(self, precision: Precision) -> "Study":
        """The same study with products in a precision, where a setting does not say another one.

        Studies whose recipes are their own stay as they are.
        """
        return self

    def experiment(self, scale: Scale, first_seed: int = 0) -> Experiment:
        """All that the runner needs to know.

        Args:
            first_seed: seeds are counted from here on.
        """
        cells = (replace(c, recipe=replace(c.recipe, seed=c.recipe.seed + first_seed)) for c in self.cells())
        return Experiment(
            name=name_of(self),
            title=title(self),
            cells=tuple(cells),
            contrasts=self.contrasts,
            scale=scale,
            first_seed=first_seed,
            about=about(self),
            notes=tuple(self.notes()),
            figure=self.figure,
            paper=self.paper,
            measure=self.measures,
            lasting=self.lasting and not self.changed,
        )


def title(study: Study) -> str:
    """The question, after the table or figure of the paper that asks it."""
    source = about(study).get("Source", "")
    printed = re.match(r"[^:;]*?\(\d{4}\), (?:Table|Figure) \d+(?: and (?:Table|Figure) \d+)?", source)
    asked = first_line(study)
    return f"{printed[0]}: {asked}" if printed and study.lasting else asked


def about(study: Study) -> dict[str, str]:
    """The sections of a study's docstring, by their first words: ``Source: ...``."""
    text = sys.modules[type(study).__module__].__doc__ or type(study).__doc__ or ""
    sections: dict[str, str] = {}
    for paragraph in re.split(r"\n(?=[A-Z][a-z ]+: )|\n\n", text.strip())[1:]:
        name, colon, rest = paragraph.partition(": ")
        named = colon and len(name) < 20 and "\n" not in name
        key, said = (name, rest) if named else ("Question", paragraph)
        sections[key] = f"{sections[key]}\n\n{_joined(said)}" if key in sections else _joined(said)
    return sections


def toy(stage: Stage) -> Stage:
    """The same stage with four steps of a small batch: it runs, and proves nothing."""
    return replace(stage, budget=Budget(steps=4), batch=min(stage.batch, 8), evals=1)


def _joined(text: str) -> str:
    joined = " ".join(text.split())
    return joined[:1].upper() + joined[1:]
