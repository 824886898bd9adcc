"""State of every stage in a runs folder, and the stages that no study refers to."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import StoreError, Taken
from ..report.results import read_record
from ..system.files import lock_holder
from ..training.run_dir import CHECKPOINT, ERROR, RunDir

STATES = ("done", "running", "stopped", "failed", "waiting")
State = Literal["done", "running", "stopped", "failed", "waiting"]


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
