"""Reading a study folder: what was planned, what has finished, and what it left.

Nothing is computed here. A cell whose stages have not all finished is kept, without an outcome.
"""

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from numpy.typing import NDArray

from ..errors import ForeignRun, StoreError

FORMAT = 1
"""The version of study.json and result.json that this package reads."""

T = TypeVar("T")


@dataclass(frozen=True)
class TaskCard:
    """Where the data come from and how many examples there are."""

    name: str
    about: str
    source: str
    licence: str
    signal: str
    length: int
    target: str
    kind: str  # "classes" or "reals"
    train: int
    val: int
    test: int
    labelled: int  # training examples with a target
    chance: float | None = None
    overlap: dict[str, int] = field(default_factory=dict)  # equal sequences in two splits, by "split/split"


@dataclass(frozen=True)
class Metric:
    """What a score is and how to show it: ``score * factor`` with ``digits`` decimals."""

    name: str
    unit: str
    factor: float
    digits: int
    tie: float  # differences smaller than this are ties, in the unit of the stored score


@dataclass(frozen=True)
class Cost:
    """What one stage took."""

    parameters: int
    flops: float
    seconds: float
    padding: float = 0.0  # share of positions that were padding
    examples: int = 0


@dataclass(frozen=True)
class Point:
    """A validation during training."""

    step: int
    score: float


@dataclass(frozen=True)
class Stage:
    """A finished training and the folder it left."""

    folder: Path
    objective: str
    scores: dict[str, dict[str, float]]
    steps: int
    epochs: float
    best_step: int
    stopped: str
    cost: Cost

    @cached_property
    def curve(self) -> tuple[Point, ...]:
        """Validation scores in the order of their steps."""
        path = self.folder / "log.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        points = [_point(line) for line in lines]
        return tuple(sorted({p.step: p for p in points if p is not None}.values(), key=lambda p: p.step))

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions, device and commit; empty where none was kept."""
        path = self.folder / "environment.json"
        return json_object(path) if path.exists() else {}

    @cached_property
    def predictions(self) -> "Predictions | None":
        """Answers on the test split; None where none were kept.

        Raises:
            StoreError: if the file is broken.
        """
        path = self.folder / "predictions.safetensors"
        return _predictions(path) if path.exists() else None


@dataclass(frozen=True)
class Predictions:
    """Answers on the test split, in the same order for every run of a task."""

    prediction: NDArray[Any]
    target: NDArray[Any]


@dataclass(frozen=True)
class Printed:
    """The number that a paper printed for what a cell measures, and where."""

    paper: str
    table: str
    row: str
    column: str
    value: float | None  # None: a cross or nothing; the remark says what it means
    unit: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Cell:
    """One row, column and seed; ``stages`` is empty until all of them have finished."""

    row: str
    column: str
    seed: int
    paths: tuple[str, ...]  # stage folders in order, relative to the folder of runs
    stages: tuple[Stage, ...] = ()
    printed: Printed | None = None

    @property
    def finished(self) -> bool:
        """Whether every stage has left its result."""
        return bool(self.stages)

    @property
    def scored(self) -> Stage:
        """The last stage: the one that is scored."""
        return self.stages[-1]

    @property
    def score(self) -> float | None:
        """Score on the test split; None where it is missing or not finite."""
        value = self.scored.scores.get("test", {}).get("score", math.nan) if self.stages else math.nan
        return value if math.isfinite(value) else None

    @property
    def flops(self) -> float:
        """Floating-point operations of all stages."""
        return sum(stage.cost.flops for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return sum(stage.cost.seconds for stage in self.stages)


@dataclass(frozen=True)
class Plan:
    """What study.json says, as it was written before training started."""

    study: str
    version: str
    created: str
    command: str
    title: str
    task: TaskCard
    metric: Metric
    contrasts: tuple[tuple[str, str], ...]  # (treatment, control); the first is the headline
    cells: tuple[dict[str, Any], ...]
    baselines: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A plan and what has come of it so far."""

    folder: Path
    plan: Plan
    cells: tuple[Cell, ...]

    @property
    def rows(self) -> list[str]:
        """Rows in the order of the plan."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """Columns in the order of the plan."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @property
    def headline(self) -> tuple[str, str]:
        """The treatment and the control that the verdict compares."""
        return self.plan.contrasts[0]

    @property
    def missing(self) -> int:
        """How many cells have not finished."""
        return sum(not cell.finished for cell in self.cells)

    def at(self, row: str, column: str) -> dict[int, Cell]:
        """Cells with a score, by seed."""
        here = (c for c in self.cells if c.row == row and c.column == column and c.score is not None)
        return {cell.seed: cell for cell in sorted(here, key=lambda cell: cell.seed)}


def study(folder: Path) -> Study:
    """Read a study folder.

    Raises:
        StoreError: if study.json or the result of a stage is missing a field or is not JSON.
        ForeignRun: if one of them was written in another format.
    """
    path = folder / "study.json"
    if not path.is_file():
        raise StoreError(f"{folder} holds no study.json; give the folder that a study left below --runs")
    plan = parsed(Plan, json_object(path), path)
    if not plan.cells or not plan.contrasts:
        raise StoreError(f"{path}: a study needs at least one cell and one contrast; run the study again")
    runs = folder.resolve().parent
    return Study(folder, plan, tuple(_cell(entry, runs, path) for entry in plan.cells))


def studies(folder: Path) -> list[Path]:
    """The folder itself if it is a study's, else the study folders directly below it, newest first.

    Raises:
        StoreError: if there is none.
    """
    if (folder / "study.json").is_file():
        return [folder]
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}; give a folder of runs, e.g. the one named by --runs")
    found = [path.parent for path in folder.glob("*/study.json")]
    if not found:
        raise StoreError(f"no study in {folder}; run one first (spt compare TASK) or give its folder")
    return sorted(found, key=lambda path: ((path / "study.json").stat().st_mtime, path.name), reverse=True)


def _cell(entry: Mapping[str, Any], runs: Path, path: Path) -> Cell:
    plain = parsed(Cell, {**entry, "paths": entry.get("stages"), "stages": ()}, path)
    if not plain.paths:
        raise StoreError(f"{path}: the cell {plain.row}, {plain.column}, seed {plain.seed} has no stages")
    stages = [_stage(runs / where) for where in plain.paths]
    finished = tuple(stage for stage in stages if stage is not None)
    return replace(plain, stages=finished if len(finished) == len(stages) else ())


def _stage(folder: Path) -> Stage | None:
    path = folder / "result.json"
    return parsed(Stage, {**json_object(path), "folder": folder}, path) if path.is_file() else None


def json_object(path: Path) -> dict[str, Any]:
    """The content of a JSON file.

    Raises:
        StoreError: if it cannot be read or holds no JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path} is broken ({error}); delete it and run the study again") from error
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(content, dict):
        raise StoreError(f"{path} is broken (not a JSON object); delete it and run the study again")
    return content


def parsed(kind: type[T], content: Mapping[str, Any], path: Path) -> T:
    """A dataclass from the content of a file; fields that it does not know are left out.

    Raises:
        StoreError: if a field is missing or not what it should be.
        ForeignRun: if the content was written in another format.
    """
    import pydantic

    if content.get("format", FORMAT) != FORMAT:
        raise ForeignRun(
            f"{path} has format {content['format']}, this version reads {FORMAT}; "
            f"use the version of selfpretrain that wrote it, or run the study again"
        )
    try:
        return _adapter(cast(Hashable, kind)).validate_python(content)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path}: {where}: {first['msg']}; delete it and run the study again") from error


@cache
def _adapter(kind: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(kind)


def _point(line: str) -> Point | None:
    try:
        entry = json.loads(line)
    except ValueError:  # a line cut short by a kill: its step is logged again after resuming
        return None
    if entry.get("kind") != "val" or not math.isfinite(entry.get("score", math.nan)):
        return None
    return Point(int(entry["step"]), float(entry["score"]))


def _predictions(path: Path) -> Predictions:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
        found = Predictions(arrays["prediction"], arrays["target"])
    except (SafetensorError, KeyError, OSError) as error:
        raise StoreError(f"{path} is broken ({error}); delete its folder and run the study again") from error
    if found.prediction.shape != found.target.shape or found.target.ndim != 1:
        raise StoreError(f"{path}: predictions and targets differ in shape; delete its folder and run again")
    return found
