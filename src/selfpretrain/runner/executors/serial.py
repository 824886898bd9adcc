"""One stage after another, in this process."""

from ...errors import Interrupted, SelfPretrainError
from ..plan import Job
from ..stage import run_stage
from .base import Ended, Executor


class Serial(Executor):
    """A stage runs while its end is waited for."""

    slots = 1
    _next: Job | None = None

    def start(self, job: Job) -> None:
        """Keep it in mind."""
        self._next = job

    def ended(self, timeout: float) -> list[Ended]:
        """Run it, however long it takes."""
        job, self._next = self._next, None
        if job is None:
            return []
        try:
            run_stage(job.recipe, self.workspace, job.tested)
        except Interrupted as error:
            return [Ended(job, "stopped", error)]
        except SelfPretrainError as error:
            return [Ended(job, "failed", error)]
        return [Ended(job, "done")]

    def stop(self) -> None:
        """Nothing: a stage asks the workspace itself whether to stop."""

    def close(self) -> None:
        """Nothing is held."""


executor = Serial
