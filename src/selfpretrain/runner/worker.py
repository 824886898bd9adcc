"""A worker without an engine: it takes ready stages of the plans in a folder of runs until none is left."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import Interrupted, LeaseLost, SelfPretrainError, Taken
from ..system.events import Event, emit
from ..system.lease import LeaseRecord, lease_records
from ..system.progress import showing_stages
from ..system.store import Store
from ..training.stage_folder import Folder
from .detached import PLANS, DetachedPlan, accepted, plans
from .plan import Job, chains, estimate
from .stage import complete, run_stage
from .survey import Surveys
from .workspace import Workspace

PAUSE, LONGEST = 0.5, 30.0
"""Seconds between looks at what others have finished: at first, and after many in vain."""
CANCELLED = 5.0
"""Seconds between looks at whether a plan still stands."""
ATTEMPTS = 3
"""How often a stage is begun that is lost with its worker."""
MISSES = 3
"""Stages that others were found at before the survey is looked at again."""

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
            stages, shared = (Folder.make(workspace.runs / name).store for name in ("stages", PLANS))
            take_all(jobs, costs, Surveys(stages, shared), shift.take, shift.standing)
    return done


def take_all(
    jobs: list[Job],
    costs: dict[str, float],
    surveys: Surveys,
    take: Callable[[Job], Taking],
    standing: Callable[[], bool],
) -> None:
    """Take ready stages until none is left that could become ready.

    They are drawn: long chains of stages come early, and workers that look at once take different ones.

    Args:
        take: runs a stage, and tells what came of it.
    """
    tested, known = {job.name for job in jobs if job.tested}, {None, *(job.name for job in jobs)}
    done, failed, missed = set[str | None](), set[str | None](), set[str]()
    idle, when, longest = 0, 0.0, chains(jobs, costs)
    while standing():
        survey = surveys.latest()
        if survey.when != when:
            when, missed, done = survey.when, set(), done | survey.done(tested)
        jobs = [job for job in jobs if job.name not in done]
        left = {job.name for job in jobs}
        ready = [job for job in jobs if job.name not in failed and job.after not in left]
        ready = [job for job in ready if job.after in done or job.after in known]
        if not ready:
            return
        ready.sort(key=lambda job: random.expovariate(1 + longest[job.name] ** 2))
        busy = missed.union(survey.busy)
        free = [job for job in ready if job.name not in busy]
        idle += 1
        for job in free[:MISSES] or (ready[:1] if idle <= MISSES else []):  # one may be free again, too
            if (how := take(job)) != "busy":
                {"done": done, "failed": failed}.get(how, set()).add(job.name)
                idle = 0
                break
            missed.add(job.name)
        if idle:
            time.sleep(min(PAUSE * 2 ** min(idle - 1, 9), LONGEST))


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
