"""Stages as jobs of Slurm, handed in by submitit; with ``cluster=local`` as processes of this machine.

Settings: ``partition``, ``minutes`` of a job, ``cpus`` and ``gpus`` of a stage, ``slots`` (jobs at once), and
``cluster`` (slurm or local). All nodes see the folder of runs at the same path. A job that Slurm takes back
is handed in again and goes on from its checkpoint.
"""

import importlib
import time
from typing import Any, ClassVar

from ...errors import SpecError
from ..detached import DetachedJob
from ..plan import Job
from ..workspace import Workspace
from ._remote import Outcome, carry_out, ended, new_mark, number, portable
from .base import Ended, Executor

DAY = 24 * 60.0
LOGS = "slurm"


def _submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError as error:
        raise SpecError('--executor slurm needs submitit: pip install "selfpretrain[slurm]"') from error


class _Requeued:
    """A stage that can be handed in again as it is: its checkpoint is in its folder."""

    def __init__(self, *stage: Any) -> None:
        self.stage = stage

    def __call__(self) -> Outcome:
        return carry_out(*self.stage)

    def checkpoint(self) -> Any:
        return _submitit().helpers.DelayedSubmission(self)


class Slurm(Executor):
    """One job per stage; what is lost is handed in again by the scheduler.

    Raises:
        SpecError: if submitit is not installed, or there is no Slurm here.
    """

    attempts: ClassVar[int] = 3

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        submitit, settings = _submitit(), workspace.executor_settings
        self._lost = submitit.core.utils.UncompletedJobError
        self._failed = submitit.core.utils.FailedJobError
        self._mark, self._running = new_mark(workspace), dict[str, tuple[Any, Job]]()
        needs: dict[str, Any] = {
            "timeout_min": int(number(workspace, "minutes", DAY)),
            "cpus_per_task": int(number(workspace, "cpus", 1.0)),
            "gpus_per_node": int(number(workspace, "gpus", 0.0)),
        }
        if "partition" in settings:
            needs["slurm_partition"] = settings["partition"]
        try:
            self._queue = submitit.AutoExecutor(
                folder=workspace.runs.absolute() / LOGS, cluster=settings.get("cluster", "slurm")
            )
        except (RuntimeError, ValueError) as error:
            raise SpecError(f"{error}; --with cluster=local runs stages on this machine") from error
        self._queue.update_parameters(**needs)

    @property
    def slots(self) -> int:
        """Slurm has a queue of its own, so many, unless the user says otherwise."""
        return int(number(self.workspace, "slots", 1000.0))

    def start(self, job: Job) -> None:
        """Hand it in."""
        stage = _Requeued(DetachedJob.of(job), portable(self.workspace), self._mark)
        self._running[job.name] = (self._queue.submit(stage), job)

    def ended(self, timeout: float) -> list[Ended]:
        """What has ended; what Slurm has nothing of is lost."""
        over = [name for name, (task, _) in self._running.items() if task.done()]
        if not over:
            time.sleep(timeout)
        return [self._how(*self._running.pop(name)) for name in over]

    def _how(self, task: Any, job: Job) -> Ended:
        try:
            outcome = task.result()
        except self._failed as error:
            outcome = ("failed", f"{job.name}: {str(error).strip().splitlines()[-1]}")
        except self._lost:
            reason = f"{job.name} was lost with job {task.job_id}; what it said: {task.paths.stderr}"
            outcome = ("lost", f"{reason}; run the same command again")
        return ended(job, outcome, self.workspace)

    def stop(self) -> None:
        """Leave a mark in the folder of runs, which every stage looks for."""
        self._mark.touch()

    def close(self) -> None:
        """Take back what is still queued or running."""
        for task, _ in self._running.values():
            task.cancel()
        self._mark.unlink(missing_ok=True)


executor = Slurm
