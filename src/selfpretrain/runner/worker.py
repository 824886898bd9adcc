"""A worker without an engine: it takes ready stages of the plans in a folder of runs until none is left."""

import time
from dataclasses import dataclass, replace

from ..errors import Interrupted, LeaseLost, SelfPretrainError, Taken
from ..system.events import Event, emit
from ..system.lease import LeaseRecord, lease_records
from ..system.progress import showing_stages
from ..system.store import Store
from .detached import DetachedPlan, accepted, plans
from .plan import Job, estimate
from .stage import complete, run_stage
from .workspace import Workspace

PAUSE = 1.0
"""Seconds between looks at what others have finished."""
CANCELLED = 5.0
"""Seconds between looks at whether a plan still stands."""
ATTEMPTS = 3
"""How often a stage is begun that is lost with its worker."""


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
            _Shift(plan, workspace, attempts, done).run(jobs)
    return done


class _Shift:
    """The work on one plan."""

    def __init__(self, plan: DetachedPlan, workspace: Workspace, attempts: int, done: WorkDone) -> None:
        asked, self._looked, self._stands = workspace.stop, 0.0, True
        stop = lambda: asked() or not self._standing()  # noqa: E731
        self.workspace = replace(workspace, wait=False, stop=stop)
        self.asked, self.plan, self.attempts, self.done = asked, plan, attempts, done

    def run(self, jobs: list[Job]) -> None:
        """Take one stage after another."""
        names = {job.name for job in jobs}
        while self._standing():
            jobs = [job for job in jobs if not complete(self.workspace.named(job.name), job.tested)]
            there = {job.name for job in jobs}
            ready = [job for job in jobs if job.after not in there and self._begun(job, names)]
            ready = [job for job in ready if not self._failed(job)]
            if not ready:
                return
            if not any(self._take(job) for job in ready):
                time.sleep(PAUSE)

    def _begun(self, job: Job, names: set[str]) -> bool:
        """Whether what a stage starts from is there: it may have been refused here."""
        return job.after is None or job.after in names or self.workspace.named(job.after).finished

    def _standing(self) -> bool:
        if time.monotonic() - self._looked > CANCELLED:
            self._looked, self._stands = time.monotonic(), self.plan.stands
        return self._stands

    def _failed(self, job: Job) -> bool:
        store = self.workspace.named(job.name).store
        if reason := why_failed(store, lease_records(store), self.plan.since, self.attempts):
            self.done.failed.setdefault(job.name, reason)
        return job.name in self.done.failed

    def _take(self, job: Job) -> bool:
        """Run a stage, if nobody else does; whether anything came of it."""
        try:
            run_stage(job.recipe, self.workspace, job.tested)
            self.done.finished.append(job.name)
        except Taken:
            return False
        except Interrupted:
            if self.asked():
                raise
        except LeaseLost as error:
            emit(Event("lost", job.name, numbers={"error": str(error)}))
        except SelfPretrainError as error:
            self.done.failed[job.name] = str(error)
        return True


def why_failed(store: Store, records: list[LeaseRecord], since: float, attempts: int = ATTEMPTS) -> str:
    """Why a stage is not to be tried again, as far as its leases since then tell; "" if it may be."""
    records = [record for record in records if record.renewed >= since]
    if records and records[-1].how == "failed":
        return records[-1].error
    lost = [r for r in records if not r.how and (r is not records[-1] or not r.alive(store))]
    return f"lost {len(lost)} times with its worker; out of memory?" if len(lost) >= attempts else ""
