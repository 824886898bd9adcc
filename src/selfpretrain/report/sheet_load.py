"""Reading the folder of a study over one or more tasks: its sheet.json and the study.json of every task."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..errors import StoreError
from .analysis import Analysis, analyse
from .figures.charts import Measure
from .old_results import Printed, json_object, parsed, study
from .paper_numbers import PAPERS


@dataclass(frozen=True)
class Shared:
    """How much work was not done twice."""

    asked: int  # stages that the cells ask for
    run: int  # different ones among them


@dataclass(frozen=True)
class SheetPlan:
    """What sheet.json says."""

    name: str
    title: str
    scale: Literal["smoke", "small", "paper"]
    parts: tuple[str, ...]  # folders beside this one, one per task
    about: dict[str, str] = field(default_factory=dict)  # title of a section -> Markdown, in order
    reading: str = ""  # what a person makes of the numbers
    figure: Literal["none", "bars", "lines"] = "none"
    labels: dict[str, str] = field(default_factory=dict)  # folder -> the paper's name of the task
    measures: tuple[Measure, ...] = ()
    shared: Shared | None = None


@dataclass(frozen=True)
class Part:
    """One task of a study."""

    label: str  # the paper's name of the task, and in brackets what stands in for it
    analysis: Analysis


@dataclass(frozen=True)
class Sheet:
    """A study over all of its tasks, and what has come of it so far."""

    folder: Path
    plan: SheetPlan
    parts: tuple[Part, ...]
    absent: tuple[str, ...]  # labels of tasks that nothing has been planned for yet

    @property
    def cells(self) -> int:
        """How many cells are planned."""
        return sum(len(part.analysis.study.cells) for part in self.parts)

    @property
    def missing(self) -> int:
        """How many of them have not finished."""
        return sum(part.analysis.study.missing for part in self.parts)

    @property
    def seeds(self) -> int:
        """The most seeds that any mean is over."""
        return max((found.n for part in self.parts for found in part.analysis.means.values()), default=0)

    @property
    def state(self) -> str:
        """How far it is, in a few words."""
        if self.missing == self.cells:
            return "not run"
        if self.missing or self.absent:
            return f"unfinished, {self.cells - self.missing} of {self.cells} cells"
        return "measured"

    @property
    def printed(self) -> list[Printed]:
        """The paper's numbers that stand beside ours, each once."""
        cells = (cell for part in self.parts for cell in part.analysis.study.cells)
        return list(dict.fromkeys(cell.printed for cell in cells if cell.printed))

    @property
    def tables(self) -> list[str]:
        """The papers' tables that those numbers stand in."""
        return list(dict.fromkeys(f"{PAPERS.get(p.paper, p.paper)}, {p.table}" for p in self.printed))


def read(folder: Path) -> Sheet:
    """Read the folder of a study.

    Raises:
        StoreError: if sheet.json, or the study.json or result.json of a task, is broken or misses a field.
        ForeignRun: if one of them was written in another format.
    """
    path = folder / "sheet.json"
    if not path.is_file():
        raise StoreError(f"{folder} holds no sheet.json; give the folder that spt study left below --runs")
    plan = parsed(SheetPlan, json_object(path), path)
    if not plan.parts:
        raise StoreError(f"{path}: a study needs at least one part; run the study again")
    if any(len(series.x) != len(series.y) for measure in plan.measures for series in measure.series):
        raise StoreError(f"{path}: a measured curve has not as many x as y; run the study again")
    runs = folder.resolve().parent
    there = [part for part in plan.parts if (runs / part / "study.json").is_file()]
    found = {part: analyse(study(runs / part)) for part in there}
    parts = tuple(Part(_label(plan, part, analysis), analysis) for part, analysis in found.items())
    absent = tuple(plan.labels.get(part, part) for part in plan.parts if part not in found)
    return Sheet(folder, plan, parts, absent)


def _label(plan: SheetPlan, part: str, analysis: Analysis) -> str:
    task = analysis.study.plan.task.name
    label = plan.labels.get(part) or task
    return label if label.lower() == task.lower() else f"{label} ({task})"
