"""A worker without an engine: it takes ready stages of the plans in a folder of runs until none is left."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import Interrupted, LeaseLost, SelfPretrainError, Taken
from ..system.events import Event, emit
from ..system.lease import PREFIX, SECONDS, LeaseRecord, lease_records
from ..system.progress import showing_stages
from ..system.store import Store
from ..training.stage_folder import PREDICTIONS, RESULT, Folder
from .detached import DetachedPlan, accepted, plans
from .plan import Job, estimate
from .stage import complete, run_stage
from .workspace import Workspace

PAUSE, LONGEST = 0.5, 30.0
"""Seconds between looks at what others have finished: at first, and after many in vain."""
CANCELLED = 5.0
"""Seconds between looks at whether a plan still stands."""
ATTEMPTS = 3
"""How often a stage is begun that is lost with its worker."""
MISSES, MODEST = 3, 100.0
"""Stages that others were found at before everything is listed again; pauses, in times that this takes."""

Taking = Literal["done", "failed", "busy", "stopped"]
"""What came of taking a stage; busy: somebody else works on it."""


@dataclass(frozen=True)
class WorkDone:
    """What a worker leaves behind."""

    finished: list[str]  # stages, by this worker
    failed: dict[str, str]  # stages that failed, here or elsewhere, and why
    refused: dict[str, list[str]]  # why stages would not be the same here, and which


def work(workspace: Workspace, trusted: tuple[str, ...] = (), attempts: int = ATTEMPTS) -> WorkDone:
    """Take ready stages until none is left; what others work on is waited for, as more may become ready.

    Raises:
        Interrupted: if asked to stop; the running stage has saved a checkpoint.
    """
    done = WorkDone([], {}, {})
    for plan in plans(workspace.runs):
        jobs, refused = accepted(plan, workspace, trusted)
        done.refused.update(refused)
        costs = {job.name: estimate(job).flops for job in jobs}
        with showing_stages(costs, len(jobs), workspace.quiet):
            shift = _Shift(plan, workspace, attempts, done)
            take_all(jobs, Folder.make(workspace.runs / "stages").store, shift.take, shift.standing)
    return done


def take_all(
    jobs: list[Job], store: Store, take: Callable[[Job], Taking], standing: Callable[[], bool]
) -> None:
    """Take ready stages, every worker in another order, until none is left that could become ready.

    Args:
        store: holds the folders of stages; one listing tells what is done and where somebody works.
        take: runs a stage, and tells what came of it.
    """
    names, done, failed, idle = {job.name for job in jobs}, set[str](), set[str](), 0
    while standing():
        began = time.monotonic()
        finished, busy = _survey(jobs, store)
        took = time.monotonic() - began
        done |= finished
        jobs = [job for job in jobs if job.name not in done]
        left, starts = {job.name for job in jobs}, {job.after for job in jobs}
        ready = [job for job in jobs if job.name not in failed and job.after not in left]
        ready = [job for job in ready if job.after in done or job.after in {None} | names]
        if not ready:
            return
        random.shuffle(ready)
        ready.sort(key=lambda job: job.name not in starts)  # what others start from comes first
        free = [job for job in ready if job.name not in busy]
        misses, gained = 0, False
        for job in free or ready[:1]:  # of the others, one may be free again, too
            how = take(job)
            {"done": done, "failed": failed}.get(how, set()).add(job.name)
            misses, gained = misses + (how == "busy"), gained or how != "busy"
            if misses == MISSES or not standing():
                break
        idle = 0 if gained else idle + 1
        if idle:
            time.sleep(max(min(PAUSE * 2 ** min(idle - 1, 9), LONGEST), MODEST * took))


def _survey(jobs: list[Job], store: Store) -> tuple[set[str], set[str]]:
    """The stages that are done, and those of whose owners something was heard."""
    files: dict[str, dict[str, float]] = {}
    for entry in store.entries():
        stage, _, name = entry.name.rpartition("/")
        files.setdefault(stage, {})[name] = entry.changed
    fresh, tested = store.clock() - SECONDS, {job.name for job in jobs if job.tested}
    finished = {
        stage
        for stage, there in files.items()
        if RESULT in there and (stage not in tested or PREDICTIONS in there)
    }
    leases = (
        (stage, max((when for name, when in there.items() if name.startswith(PREFIX)), default=0.0))
        for stage, there in files.items()
    )
    return finished, {stage for stage, renewed in leases if renewed > fresh}


class _Shift:
    """The work on one plan."""

    def __init__(self, plan: DetachedPlan, workspace: Workspace, attempts: int, done: WorkDone) -> None:
        asked, self._looked, self._stands = workspace.stop, 0.0, True
        stop = lambda: asked() or not self.standing()  # noqa: E731
        self.workspace = replace(workspace, wait=False, stop=stop)
        self.asked, self.plan, self.attempts, self.done = asked, plan, attempts, done

    def standing(self) -> bool:
        """Whether the plan has not been taken back."""
        if time.monotonic() - self._looked > CANCELLED:
            self._looked, self._stands = time.monotonic(), self.plan.stands
        return self._stands

    def take(self, job: Job) -> Taking:
        """Run a stage, if nobody else does, and it may be tried again."""
        folder = self.workspace.named(job.name)
        if complete(folder, job.tested):
            return "done"
        if reason := why_failed(folder.store, lease_records(folder.store), self.plan.since, self.attempts):
            self.done.failed.setdefault(job.name, reason)
            return "failed"
        return self._run(job)

    def _run(self, job: Job) -> Taking:
        try:
            run_stage(job.recipe, self.workspace, job.tested)
        except Taken:
            return "busy"
        except Interrupted:
            if self.asked():
                raise
            return "stopped"
        except LeaseLost as error:
            emit(Event("lost", job.name, numbers={"error": str(error)}))
            return "busy"
        except SelfPretrainError as error:
            self.done.failed[job.name] = str(error)
            return "failed"
        self.done.finished.append(job.name)
        return "done"


def why_failed(store: Store, records: list[LeaseRecord], since: float, attempts: int = ATTEMPTS) -> str:
    """Why a stage is not to be tried again, as far as its leases since then tell; "" if it may be."""
    records = [record for record in records if record.renewed >= since]
    if records and records[-1].how == "failed":
        return records[-1].error
    lost = [r for r in records if not r.how and (r is not records[-1] or not r.alive(store))]
    return f"lost {len(lost)} times with its worker; out of memory?" if len(lost) >= attempts else ""
