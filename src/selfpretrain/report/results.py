"""The results of an experiment: its cells, each with its place in the table and the results of its stages.

The runner writes the plan of an experiment to ``study.json`` before training starts. ``read`` adds the
results of the stages that have finished. No statistics are computed here.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import StoreError
from ..system.files import Json, read_json
from .paper_numbers import PaperNumber
from .sequential import SequentialDesign
from .stage_results import RUN_AGAIN, StageResult, joined, parsed, read_stage
from .statistics import CONFIDENCE

FORMAT = 3  # format version of study.json
STUDY = "study.json"
DIGITS = 15  # largest number of decimals of a printed score


@dataclass(frozen=True)
class TaskCard:
    """Description of a task: origin of the data, size of the splits, kind of target."""

    name: str
    about: str
    source: str
    licence: str
    signal: str
    length: int
    target: str
    kind: str  # "classes", "reals", "sets" or "positions"
    train: int
    val: int
    test: int
    labelled: int  # training examples with a target
    chance: float | None = None
    overlap: dict[str, int] = field(default_factory=dict)  # identical sequences, by "split/split"


@dataclass(frozen=True)
class Metric:
    """Name and printed form of a score: ``score * factor`` with ``digits`` decimals."""

    name: str
    unit: str
    factor: float
    digits: int
    tie: float  # differences smaller than this are ties, in the unit of the stored score


@dataclass(frozen=True)
class Series:
    """One measured curve."""

    label: str
    x: tuple[float | str, ...]  # numbers or categories
    y: tuple[float, ...]


@dataclass(frozen=True)
class Measure:
    """Curves measured on trained weights, e.g. the attention distance of every block."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class CellResult:
    """One run: a row, a column, a seed, and its stages, of which there are none until all have finished."""

    row: str  # name of the model
    column: str  # name of the arm
    seed: int
    folders: tuple[str, ...]  # of its stages in order, relative to the folder of runs
    reported: PaperNumber | None = None  # the paper's number for this place
    fold: int = 0
    stages: tuple[StageResult, ...] = ()  # not in study.json

    @property
    def finished(self) -> bool:
        """Return whether every stage has finished."""
        return bool(self.stages)

    @property
    def tested(self) -> bool:
        """Return whether every stage has finished, and the last one was scored on the test split."""
        return self.finished and "test" in self.scored.scores

    @property
    def scored(self) -> StageResult:
        """Return the last stage, whose test score is the cell's."""
        return self.stages[-1]

    @cached_property
    def score(self) -> float | None:
        """Return the score on the test split; None if missing or not finite."""
        value = self.scored.scores.get("test", {}).get("score", math.nan) if self.stages else math.nan
        return value if math.isfinite(value) else None

    @property
    def undefined(self) -> bool:
        """Return whether it was tested without a finite score."""
        return self.tested and self.score is None

    @property
    def state(self) -> str:
        """Return the state in words: "finished", "missing" or "no finite score"."""
        if self.undefined:
            return "no finite score"
        return "finished" if self.finished else "missing"

    @property
    def training_score(self) -> float | None:
        """Return the score on training data; None if it was not kept or is not finite."""
        found = self.scored.scores.get("train", {}).get("score", math.nan)
        return found if math.isfinite(found) else None

    @property
    def flops(self) -> float:
        """Return the number of floating-point operations of all stages together."""
        return sum((stage.cost.flops for stage in self.stages), 0.0)

    @property
    def seconds(self) -> float:
        """Return the number of seconds of all stages together."""
        return sum((stage.cost.seconds for stage in self.stages), 0.0)


@dataclass(frozen=True)
class TaskResults:
    """One task of an experiment and the results of its cells so far."""

    name: str  # the paper's name of the task, else its own
    card: TaskCard
    metric: Metric
    contrasts: tuple[tuple[str, str], ...]  # (treatment, control); the first is the headline
    cells: tuple[CellResult, ...]
    baselines: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()  # what the checks of mixers found before training
    design: SequentialDesign | None = None  # None: the number of seeds was fixed

    @property
    def confidence(self) -> float:
        """Return the nominal confidence of every interval: that of the sequential design, else 95 %."""
        return self.design.confidence if self.design else CONFIDENCE

    @property
    def label(self) -> str:
        """Return the paper's name of the task, and in brackets that of ours if it is another."""
        ours = self.card.name
        same = self.name.lower() in (ours.lower(), ours.lower().rpartition(":")[2])
        return self.name if same else f"{self.name} ({ours})"

    @property
    def rows(self) -> list[str]:
        """Return the rows (models) in the order of the plan."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """Return the columns (arms) in the order of the plan."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @cached_property
    def places(self) -> frozenset[tuple[str, str]]:
        """Return the (row, column) pairs that have been planned."""
        return frozenset((cell.row, cell.column) for cell in self.cells)

    @cached_property
    def folds(self) -> int:
        """Return the number of cross-validation folds; 1 for a fixed test split."""
        return 1 + max(cell.fold for cell in self.cells)

    def repetition(self, cell: CellResult) -> str:
        """Return the seed of a cell as text, with its fold if there are several: ``0, fold 2``."""
        return f"{cell.seed}, fold {cell.fold + 1}" if self.folds > 1 else str(cell.seed)

    @property
    def headline(self) -> tuple[str, str]:
        """Return the (treatment, control) pair that the verdict compares."""
        return self.contrasts[0]

    @property
    def compared(self) -> list[str]:
        """Return the rows that have both columns of the headline."""
        return [row for row in self.rows if {(row, column) for column in self.headline} <= self.places]

    @property
    def finished(self) -> list[CellResult]:
        """Return the cells whose stages have all finished."""
        return [cell for cell in self.cells if cell.finished]

    @property
    def missing(self) -> int:
        """Return the number of cells that have not finished."""
        return len(self.cells) - len(self.finished)

    def at(self, row: str, column: str) -> dict[int, CellResult]:
        """Return the cells with a score, by seed; folds are pooled, and only if all of them have finished.

        There are none if one was tested without a finite score: a mean of the others would leave it out.
        """
        return {} if self.undefined(row, column) else self._placed.get((row, column), {})

    def undefined(self, row: str, column: str) -> tuple[int, ...]:
        """Return the seeds that were tested without a finite score, as runs that diverged may be.

        Folds have one score together, which there may be without those of each: R2 of equal targets is none.
        """
        return tuple(seed for seed, cell in self._placed.get((row, column), {}).items() if cell.undefined)

    def diverged(self, place: tuple[str, str]) -> tuple[int, ...]:
        """Return the seeds whose training diverged in any stage at a row and column."""
        cells = (cell for cell in self.finished if (cell.row, cell.column) == place)
        lost = (cell.seed for cell in cells if any(stage.stopped == "diverged" for stage in cell.stages))
        return tuple(dict.fromkeys(lost))  # once for all folds

    @cached_property
    def _placed(self) -> dict[tuple[str, str], dict[int, CellResult]]:
        parts: dict[tuple[str, str, int], dict[int, CellResult]] = {}
        for cell in sorted((c for c in self.cells if c.tested), key=lambda cell: cell.seed):
            parts.setdefault((cell.row, cell.column, cell.seed), {})[cell.fold] = cell
        found: dict[tuple[str, str], dict[int, CellResult]] = {}
        for (row, column, seed), folds in parts.items():
            if len(folds) == self.folds:
                found.setdefault((row, column), {})[seed] = pooled(list(folds.values()))
        return found

    def reported(self, row: str, column: str) -> PaperNumber | None:
        """Return the paper's number for a row and a column; None if it has none. Seeds share it."""
        here = (cell.reported for cell in self.cells if (cell.row, cell.column) == (row, column))
        return next((found for found in here if found is not None), None)


@dataclass(frozen=True)
class ExperimentResults:
    """An experiment with all of its tasks and their results so far."""

    name: str
    title: str
    scale: str  # smoke, small or paper; "" if unknown
    version: str
    created: str
    command: str
    tasks: tuple[TaskResults, ...]
    about: dict[str, str] = field(default_factory=dict)  # section title -> Markdown, in order
    interpretation: str = ""  # written by hand after reading the numbers
    figure: Literal["none", "bars", "lines"] = "bars"  # none: written until November 2026, drawn as bars
    measures: tuple[Measure, ...] = ()
    asked: int = 0  # number of stages of all cells
    different: int = 0  # number of distinct stages
    trials: tuple[str, ...] = ()  # folders of the stages of tuning, relative to the folder of runs
    first_seed: int = 0
    share: float = 1.0  # of every budget, to end within a time limit
    stamp: str = ""  # digest that changes whenever the page would
    folder: Path = Path()  # not in study.json
    done: tuple[StageResult, ...] = ()  # finished stages of the cells, each once; not in study.json
    tried: tuple[StageResult, ...] = ()  # the finished ones of ``trials``; not in study.json

    @property
    def design(self) -> SequentialDesign | None:
        """Return the sequential design, the same for all tasks; None if the number of seeds is fixed."""
        return self.tasks[0].design

    @property
    def cells(self) -> list[CellResult]:
        """Return the cells of all tasks."""
        return [cell for task in self.tasks for cell in task.cells]

    @property
    def missing(self) -> int:
        """Return the number of cells that have not finished."""
        return sum(task.missing for task in self.tasks)

    @property
    def state(self) -> str:
        """Return the progress in words: "not run", "unfinished, 3 of 6 cells" or "measured"."""
        cells = len(self.cells)
        if self.missing == cells:
            return "not run"
        return f"unfinished, {cells - self.missing} of {cells} cells" if self.missing else "measured"

    def to_rows(self) -> list[Json]:
        """Return one dict per cell and seed, for ``pandas.DataFrame(rows)`` or a CSV; unrounded.

        ``flops`` and ``seconds`` are sums over all stages, the rest is of the scored stage. Metrics are
        called ``test_NAME``, ``val_NAME`` and ``train_NAME``; the paper's number, if any, and its place are
        ``printed_...``. ``task`` is the name of the task, or its label where several tasks have one name.
        """
        names = [task.card.name for task in self.tasks]
        named = [task.card.name if names.count(task.card.name) == 1 else task.label for task in self.tasks]
        return [
            {"study": self.name, "task": name} | _row(task, cell)
            for name, task in zip(named, self.tasks, strict=True)
            for cell in task.cells
        ]

    def to_json(self) -> Json:
        """Return what study.json holds: everything but the results of stages, which are in their folders."""
        apart = ("folder", "stages", "done", "tried")
        kept = asdict(self, dict_factory=lambda pairs: {k: v for k, v in pairs if k not in apart})
        return {"format": FORMAT} | kept

    def with_stages(self) -> "ExperimentResults":
        """Return the experiment with the results of the stages that have finished."""
        runs = self.folder.resolve().parent
        stage = cache(lambda name: read_stage(runs / name))  # cells share stages

        def with_stages(cell: CellResult) -> CellResult:
            found = tuple(result for name in cell.folders if (result := stage(name)))
            return replace(cell, stages=found if len(found) == len(cell.folders) else ())

        tasks = (replace(task, cells=tuple(map(with_stages, task.cells))) for task in self.tasks)
        names = dict.fromkeys(name for cell in self.cells for name in cell.folders)
        done, tried = (tuple(filter(None, map(stage, each))) for each in (names, self.trials))
        return replace(self, tasks=tuple(tasks), done=done, tried=tried)


def read(folder: str | Path) -> ExperimentResults:
    """Read the folder of an experiment, and the results of its stages.

    Raises:
        StoreError: if study.json or the result of a stage is missing a field or is not JSON, or if the folder
            has a report and was moved away from its stages.
        ForeignRun: if one of them was written in another format.
    """
    found = read_plan(folder)
    runs = found.folder.resolve().parent
    stages = {name for cell in found.cells for name in cell.folders}
    if (found.folder / "report.html").exists() and not any((runs / name).exists() for name in stages):
        raise StoreError(
            f"{folder} has a report, but none of its stages is in {runs / 'stages'}; move it back beside "
            "them, or copy the whole folder of runs"
        )
    return found.with_stages()


def read_plan(folder: str | Path) -> ExperimentResults:
    """Read the study.json of an experiment: its cells, without the results of their stages.

    Raises:
        StoreError: if study.json is missing, damaged or incomplete.
        ForeignRun: if it was written in another format.
    """
    folder = Path(folder)
    path = folder / STUDY
    if not path.is_file():
        raise StoreError(f"{folder} holds no {STUDY}; give the folder that an experiment left below --runs")
    content = read_json(
        path, (FORMAT,), RUN_AGAIN.format(path.name), needs_digest=lambda it: it.get("format") == FORMAT
    )
    found = parsed(ExperimentResults, content | {"folder": folder}, path)
    if wrong := _wrong(found):
        raise StoreError(f"{path}: {wrong}; run the study again")
    return found


def experiments(folder: Path) -> list[Path]:
    """Return [folder] if it is an experiment, else the experiments directly below it, newest first.

    Raises:
        StoreError: if there is none.
    """
    if (folder / STUDY).is_file():
        return [folder]
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}; give a folder of runs, e.g. the one named by --runs")
    found = [path.parent for path in folder.glob(f"*/{STUDY}")]
    if not found:
        raise StoreError(
            f"no study in {folder}; run one first (selfpretrain compare --task TASK) or give its folder"
        )
    return sorted(found, key=lambda path: ((path / STUDY).stat().st_mtime, path.name), reverse=True)


def _wrong(found: ExperimentResults) -> str:
    """Return what is wrong with an experiment whose field types are valid; "" if nothing is."""
    if not found.tasks:
        return "a study needs at least one task"
    for task in found.tasks:
        if task.design and not task.design.known:
            return f"a design of {task.design} seeds has no level"
        if not task.cells or not task.contrasts:
            return f"{task.name}: a study needs at least one cell and one contrast"
        shown = task.metric
        if not (0 <= shown.digits <= DIGITS and math.isfinite(shown.factor) and math.isfinite(shown.tie)):
            return f"{task.name}: a score cannot be shown with {shown.digits} digits, times {shown.factor}"
        for cell in task.cells:
            paths = [Path(name) for name in cell.folders]
            if not paths or any(path.is_absolute() or ".." in path.parts for path in paths):
                where = f"{cell.row}, {cell.column}, seed {cell.seed}"
                return f"the cell {where} has no stages in its folder of runs"
    uneven = any(len(series.x) != len(series.y) for m in found.measures for series in m.series)
    return "a measured curve has not as many x as y" if uneven else ""


def pooled(folds: Sequence[CellResult]) -> CellResult:
    """Pool the folds of a cell into one result with the stages of all folds.

    Scores are means over folds, of those that all folds have: an older version may lack one. But the test
    score is computed on the predictions of all folds together if they were kept.
    """
    if len(folds) == 1:
        return folds[0]
    parts = tuple(fold.scored for fold in folds)
    answers = joined([part.predictions for part in parts])
    scores = {
        split: {
            name: float(np.mean([part.scores[split][name] for part in parts]))
            for name in known
            if all(name in part.scores.get(split, ()) for part in parts)
        }
        for split, known in parts[0].scores.items()
    }
    if answers is not None and all(part.scored_by_answers for part in parts):
        scores["test"]["score"] = answers.score()
    *before, last = (stage for fold in folds for stage in fold.stages)
    return replace(folds[0], stages=(*before, replace(last, scores=scores, folds=parts)))


def _row(task: TaskResults, cell: CellResult) -> Json:
    row: Json = {"row": cell.row, "column": cell.column, "seed": cell.seed}
    row |= {"fold": cell.fold} if task.folds > 1 else {}
    row |= {"state": cell.state, "score": cell.score}
    row |= {"stage": cell.folders[-1], "stages": " ".join(cell.folders)}
    row |= {"design": str(task.design)} if task.design else {}
    if cell.reported:
        row |= {f"printed_{name}": value for name, value in asdict(cell.reported).items()}
    if not cell.finished:
        return row
    scored = cell.scored
    row |= {"parameters": scored.cost.parameters, "flops": cell.flops, "seconds": cell.seconds}
    row |= {name: vars(scored)[name] for name in ("steps", "epochs", "best_step", "stopped")}
    scores = ((split, *item) for split, known in scored.scores.items() for item in known.items())
    return row | {f"{split}_{name}": value for split, name, value in scores}
