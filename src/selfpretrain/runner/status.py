"""State of a runs folder: its stages, those that no study refers to, and whether every file is intact."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ..errors import ForeignRun, SelfPretrainError, StoreError, Taken
from ..report import results
from ..report.integrity import MEND
from ..report.render import csv_long
from ..report.results import read_record
from ..system.files import LEFTOVER, explain_errors, lock_holder, read_json
from ..training.run_dir import CHECKPOINT, ERROR, WEIGHTS, RunDir

STATES = ("done", "running", "stopped", "failed", "waiting")
State = Literal["done", "running", "stopped", "failed", "waiting"]
Level = Literal["wrong", "note"]
CACHES = ("costs.json", "time-limits.json", "baselines/*.json", "manifests/*.json")
"""Files that are recomputed automatically."""


@dataclass(frozen=True)
class StageStatus:
    """State of one stage."""

    stage: str
    state: State
    detail: str  # which process runs it, where it resumes, or why it failed


def statuses(runs: Path) -> list[StageStatus]:
    """Return the status of every stage that a study refers to, and of every other stage on disk.

    Raises:
        StoreError: if there is no such folder, or a study cannot be read.
    """
    _check_folder(runs)
    begun = {RunDir(path).name for path in (runs / "stages").glob("*")}
    return [_status(RunDir(runs / "stages" / name)) for name in sorted(referenced_stages(runs) | begun)]


def referenced_stages(runs: Path) -> set[str]:
    """Return the names of the stages that the studies in a runs folder refer to."""
    records = [read_record(path.parent) for path in runs.glob("*/study.json")]
    cells = (cell for record in records for task in record.tasks for cell in task.cells)
    return {stage.rpartition("/")[2] for cell in cells for stage in cell.stages}


def unused_stages(runs: Path) -> list[tuple[RunDir, int]]:
    """Return stages and attempts that no study refers to and no process is running, with their size in bytes.

    Raises:
        StoreError: if there is no such folder, or a study cannot be read, so that its stages are unknown.
    """
    _check_folder(runs)
    referenced = referenced_stages(runs)
    stages = (RunDir(path) for path in sorted((runs / "stages").glob("*")))
    unreferenced = (stage for stage in stages if stage.name not in referenced and not stage.stage.is_running)
    return [(stage, sum(path.stat().st_size for path in stage.path.iterdir())) for stage in unreferenced]


def _check_folder(runs: Path) -> None:
    if not runs.is_dir():
        raise StoreError(f"there is no directory {runs}; give a directory of runs")


def delete(stages: Iterable[tuple[RunDir, int]]) -> Iterator[tuple[RunDir, int]]:
    """Delete stages, and yield those deleted; stages that a process has started since are skipped."""
    for stage, size in stages:
        try:
            with stage.stage.exclusive():
                stage.remove()
            yield stage, size
        except Taken:
            continue


def _status(stage: RunDir) -> StageStatus:
    if stage.finished and not stage.is_running:
        return StageStatus(stage.name, "done", "")
    if stage.is_running:
        return StageStatus(stage.name, "running", lock_holder(stage.lock) if stage.lock.exists() else "")
    attempts = stage.attempts
    if not attempts:
        return StageStatus(stage.name, "waiting", "")
    if attempts[0].has(ERROR):
        lines = (attempts[0].path / ERROR).read_text(encoding="utf-8").strip().splitlines()
        return StageStatus(stage.name, "failed", lines[-1] if lines else "")
    detail = "resumes from its checkpoint" if attempts[0].has(CHECKPOINT) else "starts again"
    return StageStatus(stage.name, "stopped", detail)


@dataclass(frozen=True)
class Flaw:
    """A problem with a file in a runs folder."""

    level: Level
    said: str  # which file, what is wrong with it, and how to repair it


def verify(runs: Path) -> Iterator[tuple[str, list[Flaw]]]:
    """Yield every stage, experiment and cache of a runs folder with its problems; nothing is changed.

    Raises:
        StoreError: if there is no such folder, or no stage and no study in it.
    """
    stages = sorted(path for path in runs.glob("stages/*") if path.is_dir())
    experiments = sorted({path.parent for path in runs.glob("*/study.json")})
    if not stages and not experiments:
        raise StoreError(f"there are no stages and no studies in {runs}; give a folder of runs")
    sound = True
    for path in stages:
        flaws = list(_check_stage(RunDir(path)))
        sound = sound and all(flaw.level == "note" for flaw in flaws)
        yield path.name, flaws
    for path in experiments:
        yield path.name, list(_check_experiment(path, sound))
    caches = [path for pattern in CACHES for path in sorted(runs.glob(pattern))]
    yield "caches", [flaws for path in caches for flaws in _check(partial(read_json, path), " made again")]


def _check_stage(folder: RunDir) -> Iterator[Flaw]:
    for path in folder.path.iterdir():
        if LEFTOVER.fullmatch(path.name):
            yield Flaw("note", f"{path} was left by a killed process; it goes when the stage is next run")
    if folder.has(CHECKPOINT):
        yield from _check(lambda: folder.load(CHECKPOINT))
    if folder.is_attempt or not folder.finished:
        yield Flaw("note", f"{folder.path} is unfinished; the command that started it resumes it")
        return
    try:
        _, wrong = results.examined(folder.path)
    except StoreError as error:
        yield _flaw(error)
        return
    yield from map(_flaw, wrong)
    if folder.has(WEIGHTS):
        yield from _check(lambda: folder.load(WEIGHTS, folder.read("result.json").get("weights", "")))
    elif not folder.has("restored.json"):
        yield Flaw("note", f"{folder.path / WEIGHTS} is gone; it is trained again if a stage needs it")


def _check_experiment(folder: Path, sound: bool) -> Iterator[Flaw]:
    """Yield the problems of an experiment; its table can be checked only if all stages are sound."""
    wrong = [*_check(lambda: results.read_record(folder))]
    for path in sorted(folder.glob("measures-*.json")):
        wrong += _check(partial(read_json, path, advice=MEND.format(path.name)))
    if sound and not wrong:
        wrong = [*_check(lambda: _check_table(folder))]
    yield from wrong


def _check_table(folder: Path) -> None:
    """Compare ``results.csv`` with the results of the stages."""
    path = folder / "results.csv"
    experiment = results.read(folder)
    if experiment.missing or not path.exists():  # written once the experiment is complete
        return
    with explain_errors(path, "read"):
        content = path.read_bytes()
    if content != csv_long.document(experiment).encode():
        raise StoreError(f"{path} is not what its stages give; spt report {folder} makes it again")


def _check(check: Callable[[], object], remedy: str = "") -> Iterator[Flaw]:
    """Yield a problem if ``check`` fails; only a note if ``remedy`` says that the file is recomputed."""
    try:
        check()
    except SelfPretrainError as error:
        yield Flaw("note", f"{error}; it is{remedy} when it is next needed") if remedy else _flaw(error)


def _flaw(error: SelfPretrainError) -> Flaw:
    """Return an error as a flaw; files of another version are only a note."""
    return Flaw("note" if isinstance(error, ForeignRun) else "wrong", str(error))
