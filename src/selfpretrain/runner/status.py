"""State of every stage in a runs folder, and the stages that no study refers to."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import StoreError, Taken
from ..report.results import read_record
from ..system.files import holder
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
    if not runs.is_dir():
        raise StoreError(f"there is no directory {runs}; give a directory of runs")
    begun = {RunDir(path).name for path in (runs / "stages").glob("*")}
    return [_status(RunDir(runs / "stages" / name)) for name in sorted(asked_for(runs) | begun)]


def asked_for(runs: Path) -> set[str]:
    """Return the names of the stages that the studies in a runs folder refer to."""
    records = [read_record(path.parent) for path in runs.glob("*/study.json")]
    cells = (cell for record in records for task in record.tasks for cell in task.cells)
    return {stage.rpartition("/")[2] for cell in cells for stage in cell.stages}


def unused(runs: Path) -> list[tuple[RunDir, int]]:
    """Return stages and attempts that no study refers to and no process is running, with their size in bytes.

    Raises:
        StoreError: if a study cannot be read, so that its stages are unknown.
    """
    used = asked_for(runs)
    found = (RunDir(path) for path in sorted((runs / "stages").glob("*")))
    free = (each for each in found if each.name not in used and not each.stage.held)
    return [(each, sum(path.stat().st_size for path in each.path.iterdir())) for each in free]


def delete(found: Iterable[tuple[RunDir, int]]) -> Iterator[tuple[RunDir, int]]:
    """Delete stages, and yield those deleted; stages that a process has started since are skipped."""
    for each, size in found:
        try:
            with each.stage.alone():
                each.remove()
            yield each, size
        except Taken:
            continue


def _status(stage: RunDir) -> StageStatus:
    if stage.finished and not stage.held:
        return StageStatus(stage.name, "done", "")
    if stage.held:
        return StageStatus(stage.name, "running", holder(stage.lock) if stage.lock.exists() else "")
    attempts = stage.attempts
    if not attempts:
        return StageStatus(stage.name, "waiting", "")
    if attempts[0].has(ERROR):
        lines = (attempts[0].path / ERROR).read_text(encoding="utf-8").strip().splitlines()
        return StageStatus(stage.name, "failed", lines[-1] if lines else "")
    resumes = "resumes from its checkpoint" if attempts[0].has(CHECKPOINT) else "starts again"
    return StageStatus(stage.name, "stopped", resumes)
