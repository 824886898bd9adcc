"""How far the stages of a folder of runs are: done, running where, waiting, stopped, lost or failed."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from ..report.results import read_record
from ..system.lease import LeaseRecord, lease_records
from ..system.store import FolderStore
from ..training.stage_folder import Folder
from .detached import plans

STATES = ("done", "running", "waiting", "stopped", "lost", "failed")
Standing = Literal["done", "running", "waiting", "stopped", "lost", "failed"]


@dataclass(frozen=True)
class StageStatus:
    """How far a stage is."""

    stage: str
    standing: Standing
    attempts: int  # owners that it has had
    told: str  # who works on it, why it failed
    seconds: float  # of training that count
    lost: float  # seconds that owners held it and that count for nothing


def statuses(runs: Path) -> list[StageStatus]:
    """Every stage that a plan or a study asks for, and every other that has been begun.

    Raises:
        StoreError: if there is no such folder, or a plan or study cannot be read.
    """
    names = dict.fromkeys(job.stage for plan in plans(runs) for job in plan.jobs)
    names |= dict.fromkeys(sorted(asked_for(runs) | {path.name for path in runs.glob("stages/*")}))
    return [_status(Folder(runs / "stages" / name)) for name in names]


def asked_for(runs: Path) -> set[str]:
    """The stages that the studies in a folder of runs refer to."""
    records = [read_record(path.parent) for path in runs.glob("*/study.json")]
    cells = (cell for record in records for task in record.tasks for cell in task.cells)
    return {stage.rpartition("/")[2] for cell in cells for stage in cell.stages}


def seconds_left(runs: Path, found: list[StageStatus]) -> float | None:
    """How long the plans will take still, at the speed of what has finished; None if that is not known."""
    costs = {job.stage: job.flops for plan in plans(runs) for job in plan.jobs}
    done = [status for status in found if status.standing == "done" and status.stage in costs]
    spent = sum(costs[status.stage] for status in done)
    left = sum(costs.get(status.stage, 0.0) for status in found if status.standing not in ("done", "failed"))
    at_once = sum(status.standing == "running" for status in found)
    if not (spent and at_once):
        return None
    return left * sum(status.seconds for status in done) / spent / at_once


def _status(folder: Folder) -> StageStatus:
    records = lease_records(FolderStore(folder.path))  # of a bucket, those that were just fetched
    cost = folder.remembered("result.json").get("cost", {})
    standing, told = _standing(folder, records)
    seconds = float(cost.get("seconds", 0.0))
    held = sum(_held(record) for record in records)
    over = max(0.0, held - seconds) if len(records) > 1 and standing == "done" else 0.0
    return StageStatus(folder.name, standing, len(records), told, seconds, over)


def _standing(folder: Folder, records: list[LeaseRecord]) -> tuple[Standing, str]:
    last = records[-1] if records else None
    if folder.finished and not (last and last.how == "failed"):
        return "done", ""
    if last is None:
        return "waiting", ""
    if last.how == "failed":
        return "failed", last.error
    if last.how == "stopped":
        return "stopped", ""
    if last.alive(FolderStore(folder.path)):
        return "running", last.who
    return "lost", f"{last.who}, was lost"


def _held(record: LeaseRecord) -> float:
    try:
        return max(0.0, record.renewed - datetime.fromisoformat(record.since).timestamp())
    except ValueError:
        return 0.0
