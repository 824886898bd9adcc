"""Base class of studies: a question, and the cells of the table that answers it."""

import abc
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..errors import SpecError, nearest
from ..mixers.base import Mixer
from ..registry import first_line, name_of
from ..runner.experiment import Cell, Experiment, Finished
from ..runner.tuning import SearchSpace
from ..system.files import Json
from ..training.cost import COUNTED, Planner
from ..training.recipe import Budget, Precision, Stage

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")


def scale_of(name: str) -> Scale:
    """Return a scale by its name.

    Raises:
        SpecError: if there is none of that name.
    """
    for scale in SCALES:
        if scale == name:
            return scale
    raise SpecError(f"scale {name}: there is no such scale{nearest(name, SCALES)}")


SHIPPED = Path(__file__).with_name("results")
"""Folder of the results shipped with the package, and their interpretations."""


class Study(abc.ABC):
    """A study: a spec that yields the cells of one table.

    The first line of its module's docstring is the question; paragraphs such as ``Source: ...`` and
    ``Expected: ...`` are the sections of its report page.
    """

    contrasts: ClassVar[tuple[tuple[str, str], ...]] = ()  # (treatment, control) columns; main contrast first
    figure: ClassVar[Literal["bars", "lines"]] = "bars"  # of scores; bars: points with their intervals
    space: ClassVar[SearchSpace] = SearchSpace()  # grid of ``--tune``, the same for every arm
    lasting: ClassVar[bool] = True  # one instance per scale, with its own folder and bundled results
    bundled_seeds: ClassVar[int] = 3  # number of seeds of its results that ship

    def chosen_contrasts(self) -> tuple[tuple[str, str], ...]:
        """Return the (treatment, control) columns of the differences to report; the main one first."""
        return self.contrasts

    def check_tuning(self) -> None:  # noqa: B027  # optional
        """Check that tuning replaces nothing that defines an arm."""

    @property
    def changed(self) -> bool:
        """Return whether settings differ from those of the named study."""
        return False

    @classmethod
    @abc.abstractmethod
    def at_scale(cls, scale: Scale, seeds: int) -> "Study":
        """Return the study at a scale: smoke (seconds, a mere test), small (two cores) or paper (as printed).

        Raises:
            SpecError: if the study has no recipe at that scale.
        """

    @abc.abstractmethod
    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells of the table: recipes with their row, column and seed.

        Args:
            planner: plans the arms whose compute is matched; for a dry run it brings stubs of data.
        """

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return remarks for the report, one sentence each."""
        return []

    def measures(self, finished: Finished) -> list[Json]:
        """Return plots of finished runs for the report: title, x, y, and series of label, x and y."""
        return []

    def with_mixers(self, mixers: tuple[Mixer, ...]) -> "Study":
        """Return the study with one more row per mixer.

        Raises:
            SpecError: if the rows of the study are not architectures.
        """
        names = ", ".join(map(name_of, mixers))
        raise SpecError(f"the rows of {name_of(self)} are not architectures: {names} cannot be added to them")

    def with_settings(self, settings: Mapping[str, Any]) -> "Study":
        """Return the study with settings of its cells changed.

        Args:
            settings: path -> value.

        Raises:
            SpecError: if the study has no settings.
        """
        raise SpecError(f"the cells of {name_of(self)} have no settings to change: {', '.join(settings)}")

    def with_precision(self, precision: Precision) -> "Study":
        """Return the study with a precision for matrix products, unless a setting changes it.

        Studies that define their own recipes ignore it.
        """
        return self

    def experiment(self, scale: Scale, first_seed: int = 0, planner: Planner = COUNTED) -> Experiment:
        """Return the experiment that the runner executes.

        Args:
            first_seed: added to the seed of every recipe.
            planner: see ``cells``.
        """
        cells = (
            replace(cell, recipe=replace(cell.recipe, seed=cell.recipe.seed + first_seed))
            for cell in self.cells(planner)
        )
        return Experiment(
            name=name_of(self),
            title=title(self),
            cells=tuple(cells),
            contrasts=self.chosen_contrasts(),
            scale=scale,
            first_seed=first_seed,
            about=about(self),
            notes=tuple(self.notes(planner)),
            figure=self.figure,
            measure=self.measures,
            lasting=self.lasting and not self.changed,
        )


def title(study: Study) -> str:
    """Return the question of a study, preceded by the table or figure that it reproduces, if any."""
    source = about(study).get("Source", "")
    table = r"(?:Table|Figure) \d+"
    reproduced = re.match(rf"(?!Our question)[^:;]*?\(\d{{4}}\), {table}(?: and {table})?", source)
    question = first_line(study)
    return f"{reproduced[0]}: {question}" if reproduced and study.lasting else question


def about(study: Study) -> dict[str, str]:
    """Return the sections of a study's docstring by name: ``Source``, ``Expected``, ..."""
    text = sys.modules[type(study).__module__].__doc__ or type(study).__doc__ or ""
    sections: dict[str, str] = {}
    for paragraph in re.split(r"\n(?=[A-Z][a-z ]+: )|\n\n", text.strip())[1:]:
        name, colon, rest = paragraph.partition(": ")
        named = colon and len(name) < 20 and "\n" not in name
        key, text = (name, rest) if named else ("Question", paragraph)
        sections[key] = f"{sections[key]}\n\n{_join_lines(text)}" if key in sections else _join_lines(text)
    return sections


def smoke_stage(stage: Stage) -> Stage:
    """Return the stage with four steps of a batch of at most 8, for smoke tests."""
    return replace(stage, budget=Budget(steps=4), batch=min(stage.batch, 8), evals=1)


def _join_lines(text: str) -> str:
    joined = " ".join(text.split())
    return joined[:1].upper() + joined[1:]
