"""Stages one after another, in this process."""

from ...errors import Interrupted, SelfPretrainError
from ..plan import Job
from ..stage import run_stage
from .base import Ended, Executor


class Serial(Executor):
    """Runs each stage inside ``poll``, so only one at a time."""

    slots = 1
    _next: Job | None = None

    def start(self, job: Job) -> None:
        """Remember the stage for the next call of ``poll``."""
        self._next = job

    def poll(self, timeout: float) -> list[Ended]:
        """Run the stage to its end; the timeout is ignored."""
        job = self._next
        self._next = None
        if job is None:
            return []
        try:
            run_stage(job.recipe, self.workspace, job.tested, job.starts)
        except Interrupted as error:
            return [Ended(job, "stopped", error)]
        except SelfPretrainError as error:
            return [Ended(job, "failed", error)]
        return [Ended(job, "done")]

    def stop(self) -> None:
        """Do nothing: stages check the stop condition of the workspace themselves."""

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


executor = Serial
