"""Read the results of an experiment: its plan (``study.json``) and the results of its finished stages.

No statistics are computed here. A cell whose stages have not all finished is kept, without a score.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from ..errors import StoreError
from ..system.files import Json, read_json
from .integrity import RUN_AGAIN, Predictions, contradiction
from .manifest import CellRecord, ExperimentRecord, TaskRecord
from .paper_numbers import PaperNumber, look_up
from .sequential import Looks
from .stage_results import CellResult, StageResult, pooled
from .statistics import CONFIDENCE

FORMAT = 2
"""Format version of study.json."""
FILE = "study.json"
RESULT = "result.json"
RESTORED = "restored.json"
DIGITS = 15
"""Largest number of decimals of a printed score."""
MEND_RESULT = RUN_AGAIN.format(f"{RESULT} beside it")

T = TypeVar("T")


@dataclass(frozen=True)
class TaskResults:
    """One task of an experiment and the results of its cells so far."""

    record: TaskRecord
    cells: tuple[CellResult, ...]
    looks: Looks | None = None

    @property
    def confidence(self) -> float:
        """Nominal confidence of every interval: that of a look, or 95 % if the number of seeds is fixed."""
        return self.looks.confidence if self.looks else CONFIDENCE

    @property
    def label(self) -> str:
        """The paper's name of the task, followed in brackets by the name of our task if it is another."""
        label = self.record.label
        name = self.record.task.name
        return label if label.lower() == name.lower() else f"{label} ({name})"

    @property
    def rows(self) -> list[str]:
        """Rows (models) in the order of the plan."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        """Columns (arms) in the order of the plan."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @cached_property
    def folds(self) -> int:
        """Number of cross-validation folds; 1 for a fixed test split."""
        return 1 + max(cell.record.fold for cell in self.cells)

    def repetition(self, cell: CellResult) -> str:
        """Return the seed of a cell as text, with its fold if there are several: ``0, fold 2``."""
        return f"{cell.seed}, fold {cell.record.fold + 1}" if self.folds > 1 else str(cell.seed)

    @property
    def headline(self) -> tuple[str, str]:
        """The (treatment, control) pair that the verdict compares."""
        return self.record.contrasts[0]

    @property
    def finished(self) -> list[CellResult]:
        """Cells whose stages have all finished."""
        return [cell for cell in self.cells if cell.finished]

    @property
    def missing(self) -> int:
        """Number of cells that have not finished."""
        return len(self.cells) - len(self.finished)

    def at(self, row: str, column: str) -> dict[int, CellResult]:
        """Return the cells with a score, by seed; folds are pooled, and only if all of them have finished.

        There are none if one was tested without a finite score: a mean of the others would leave it out.
        """
        return {} if self.undefined(row, column) else self._placed.get((row, column), {})

    def undefined(self, row: str, column: str) -> tuple[int, ...]:
        """Return the seeds that were tested without a finite score, as runs that diverged may be."""
        lost = (c for c in self.cells if (c.row, c.column) == (row, column) and c.undefined)
        return tuple(dict.fromkeys(cell.seed for cell in lost))

    @cached_property
    def _placed(self) -> dict[tuple[str, str], dict[int, CellResult]]:
        parts: dict[tuple[str, str, int], dict[int, CellResult]] = {}
        for cell in sorted((c for c in self.cells if c.score is not None), key=lambda cell: cell.seed):
            parts.setdefault((cell.row, cell.column, cell.seed), {})[cell.record.fold] = cell
        found: dict[tuple[str, str], dict[int, CellResult]] = {}
        for (row, column, seed), folds in parts.items():
            if len(folds) == self.folds:
                found.setdefault((row, column), {})[seed] = pooled(list(folds.values()))
        return found

    def printed(self, row: str, column: str) -> PaperNumber | None:
        """Return the paper's number for a row and a column; None if it has none. Seeds share it."""
        here = (cell.printed for cell in self.cells if (cell.row, cell.column) == (row, column))
        return next((found for found in here if found is not None), None)


@dataclass(frozen=True)
class ExperimentResults:
    """An experiment with all of its tasks and their results so far."""

    folder: Path
    record: ExperimentRecord
    tasks: tuple[TaskResults, ...]

    @property
    def cells(self) -> list[CellResult]:
        """The cells of all tasks."""
        return [cell for task in self.tasks for cell in task.cells]

    @property
    def missing(self) -> int:
        """Number of cells that have not finished."""
        return sum(task.missing for task in self.tasks)

    @property
    def state(self) -> str:
        """Progress in words: "not run", "unfinished, 3 of 6 cells" or "measured"."""
        cells = len(self.cells)
        if self.missing == cells:
            return "not run"
        return f"unfinished, {cells - self.missing} of {cells} cells" if self.missing else "measured"

    def to_rows(self) -> list[Json]:
        """Return one dict per cell and seed, for ``pandas.DataFrame(rows)`` or a CSV; unrounded.

        ``flops`` and ``seconds`` are sums over all stages, the rest is of the scored stage. Metrics are
        called ``test_NAME`` and ``val_NAME``; the paper's number, if any, and its place ``printed_...``.
        """
        return [{"study": self.record.name} | _row(task, cell) for task in self.tasks for cell in task.cells]


def read(folder: Path) -> ExperimentResults:
    """Read the folder of an experiment.

    Raises:
        StoreError: if study.json or the result of a stage is missing a field or is not JSON.
        ForeignRun: if one of them was written in another format.
    """
    return results_of(read_record(folder), folder)


def results_of(record: ExperimentRecord, folder: Path) -> ExperimentResults:
    """Read the results of the stages that a plan names, next to the folder of its experiment.

    Raises:
        StoreError: if the result of a stage is missing a field or is not JSON.
    """
    runs = folder.resolve().parent
    stage = cache(lambda where: read_stage(runs / where))  # cells share stages
    tasks = tuple(
        TaskResults(task, tuple(_cell(cell, record.paper, stage) for cell in task.cells), record.looks)
        for task in record.tasks
    )
    return ExperimentResults(folder, record, tasks)


def read_record(folder: Path) -> ExperimentRecord:
    """Read the plan of an experiment from its study.json.

    Raises:
        StoreError: if study.json is missing, damaged or incomplete.
        ForeignRun: if it was written in another format.
    """
    path = folder / FILE
    if not path.is_file():
        raise StoreError(f"{folder} holds no {FILE}; give the folder that an experiment left below --runs")
    content = read_json(
        path, (FORMAT,), RUN_AGAIN.format(path.name), needs_digest=lambda it: it.get("format") == FORMAT
    )
    record = parsed(ExperimentRecord, content, path)
    if wrong := _wrong(record):
        raise StoreError(f"{path}: {wrong}; run the study again")
    return record


def experiments(folder: Path) -> list[Path]:
    """Return [folder] if it is an experiment, else the experiments directly below it, newest first.

    Raises:
        StoreError: if there is none.
    """
    if (folder / FILE).is_file():
        return [folder]
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}; give a folder of runs, e.g. the one named by --runs")
    found = [path.parent for path in folder.glob(f"*/{FILE}")]
    if not found:
        raise StoreError(
            f"no study in {folder}; run one first (selfpretrain compare --task TASK) or give its folder"
        )
    return sorted(found, key=lambda path: ((path / FILE).stat().st_mtime, path.name), reverse=True)


def _wrong(record: ExperimentRecord) -> str:
    """Return what is wrong with a record whose field types are valid; "" if nothing is."""
    if not record.tasks:
        return "a study needs at least one task"
    if record.looks and not record.looks.known:
        return f"looks after {record.looks} seeds have no level"
    for task in record.tasks:
        if not task.cells or not task.contrasts:
            return f"{task.label}: a study needs at least one cell and one contrast"
        shown = task.metric
        if not (0 <= shown.digits <= DIGITS and math.isfinite(shown.factor) and math.isfinite(shown.tie)):
            return f"{task.label}: a score cannot be shown with {shown.digits} digits, times {shown.factor}"
        for cell in task.cells:
            if not cell.stages or any(Path(w).is_absolute() or ".." in Path(w).parts for w in cell.stages):
                where = f"{cell.row}, {cell.column}, seed {cell.seed}"
                return f"the cell {where} has no stages in its folder of runs"
    uneven = any(len(series.x) != len(series.y) for m in record.measures for series in m.series)
    return "a measured curve has not as many x as y" if uneven else ""


def _cell(record: CellRecord, paper: str, stage: Callable[[str], StageResult | None]) -> CellResult:
    stages = [stage(where) for where in record.stages]
    finished = tuple(found for found in stages if found is not None)
    at = record.printed
    printed = look_up(paper, (at.table, at.row, at.column)) if at else None
    return CellResult(record, finished if len(finished) == len(stages) else (), printed)


def read_stage(folder: Path) -> StageResult | None:
    """Read the result of a stage; return None if it has not finished.

    Raises:
        StoreError: if it is damaged, or another file of the stage is missing or contradicts it.
    """
    if not (folder / RESULT).exists():
        return None
    found, flaws = examined(folder)
    if flaws:
        raise flaws[0]
    return found


def examined(folder: Path) -> tuple[StageResult, list[StoreError]]:
    """Return a finished stage and the errors found in its files; used by report, compare and verify.

    Raises:
        StoreError: if result.json itself cannot be read.
    """
    path = folder / RESULT
    restored = read_json(folder / RESTORED) if (folder / RESTORED).exists() else {}
    content = read_json(
        path, advice=RUN_AGAIN.format(RESULT), needs_digest=lambda content: bool(restored) or _named(content)
    )
    files = {**_digests(restored), **_digests(content)}
    found = parsed(StageResult, {**content, "files": files, "folder": folder}, path)
    checks: list[Callable[[], object]] = [
        lambda: _check_identity(found, content, None),  # identity first, then the other files
        lambda: _check_recipe(found, content),
        lambda: _check_json(folder),
        lambda: _check_complete(found),
        lambda: found.log,
        lambda: _check_identity(found, content, found.predictions),
    ]
    flaws: list[StoreError] = []
    for check in checks:
        try:
            check()
        except StoreError as error:
            flaws.append(error)
    return found, flaws


def _named(result: Json) -> bool:
    """Return whether a result lists digests of other files; such a result carries its own digest, too."""
    return "files" in result or "weights" in result


def _digests(content: Json) -> Json:
    files = content.get("files", {})
    return files if isinstance(files, dict) else {"files": files}  # not a mapping: validation rejects it


def _check_identity(found: StageResult, content: Json, kept: Predictions | None) -> None:
    if wrong := contradiction(found.folder.name.partition(".part-")[0], content, kept):
        raise StoreError(f"{found.folder / RESULT}: {wrong}; {RUN_AGAIN.format(RESULT)}")


def _check_recipe(found: StageResult, content: Json) -> None:
    path = found.folder / "recipe.json"
    if not path.exists():
        return
    kept = read_json(path, advice=MEND_RESULT, needs_digest=lambda recipe: _named(content))
    kept.pop("format", None)
    if kept != content.get("recipe"):
        raise StoreError(f"{path} is not the recipe of the result beside it; {MEND_RESULT}")


def _check_json(folder: Path) -> None:
    for name in ("environment.json", "sources.json"):
        if (folder / name).exists():
            read_json(folder / name, advice=MEND_RESULT)


def _check_complete(found: StageResult) -> None:
    for name in ("recipe.json", "environment.json", *found.files):
        if not (found.folder / name).exists():
            raise StoreError(f"{found.folder / name} is gone; {MEND_RESULT}")


def parsed(kind: type[T], content: Mapping[str, Any], path: Path) -> T:
    """Return a dataclass of this kind from the content of a file; unknown fields are ignored.

    Raises:
        StoreError: if a field is missing or has the wrong type.
    """
    import pydantic

    try:
        return _adapter(cast(Hashable, kind)).validate_python(content)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path}: {where}: {first['msg']}; {RUN_AGAIN.format(path.name)}") from error


@cache
def _adapter(kind: Any) -> Any:
    import pydantic

    return pydantic.TypeAdapter(kind)


def _row(task: TaskResults, cell: CellResult) -> Json:
    row: Json = {
        "task": task.record.task.name,
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        **({"fold": cell.record.fold} if task.folds > 1 else {}),
        "state": cell.state,
        "score": cell.score,
        "stage": cell.record.stages[-1],
        "stages": " ".join(cell.record.stages),
        **({"looks": str(task.looks)} if task.looks else {}),
    }
    if cell.printed:
        row |= {f"printed_{name}": value for name, value in asdict(cell.printed).items()}
    if not cell.finished:
        return row
    scored = cell.scored
    row |= {
        "parameters": scored.cost.parameters,
        "flops": cell.flops,
        "seconds": cell.seconds,
        "steps": scored.steps,
        "epochs": scored.epochs,
        "best_step": scored.best_step,
        "stopped": scored.stopped,
    }
    return row | {
        f"{split}_{name}": value for split in scored.scores for name, value in scored.scores[split].items()
    }
