"""Stages on the nodes of a Ray cluster: Ray hands them out, and does nothing else.

Settings: ``address`` (auto, or of the head node; default: a cluster of this machine alone), ``cpus`` and
``gpus`` of a stage, which may be shares. All nodes see the folder of runs at the same path.
"""

import os
from typing import Any, ClassVar

from ...errors import SpecError
from ...system import extras
from ...training.stage_folder import Folder
from ..detached import DetachedJob
from ..plan import Job
from ..workspace import Workspace
from ._remote import Mark, carry_out, ended, number, portable
from .base import Ended, Executor


class Ray(Executor):
    """One task per stage; what is lost with its process or node is begun again by the scheduler.

    Raises:
        SpecError: if Ray is not installed, or no cluster is at the address.
    """

    attempts: ClassVar[int] = 3

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray: Any = extras.load("ray", "--executor ray", "ray")
        self._need = {"CPU": number(workspace, "cpus", 1.0), "GPU": number(workspace, "gpus", 0.0)}
        self._began, self._mark = not self._ray.is_initialized(), Mark.new()
        if self._began:
            address = workspace.executor_settings.get("address")
            try:
                self._ray.init(address=address, log_to_driver=False, logging_level="error")
            except (ConnectionError, RuntimeError, ValueError) as error:
                reason = " ".join(str(error).split())[:200]
                raise SpecError(f"no Ray cluster at {address or 'this machine'}: {reason}") from error
        # one process per stage, so that its memory is given back; retries are the scheduler's
        self._task = self._ray.remote(
            num_cpus=self._need["CPU"], num_gpus=self._need["GPU"], max_retries=0, max_calls=1
        )(carry_out)
        self._running: dict[Any, Job] = {}

    @property
    def slots(self) -> int:
        """As many as the nodes that are there now have room for."""
        there = self._ray.cluster_resources()
        return max(1, min(int(there.get(kind, 0) / need) for kind, need in self._need.items() if need))

    def start(self, job: Job) -> None:
        """Hand it to Ray."""
        task = self._task.remote(DetachedJob.of(job), portable(self.workspace), self._mark)
        self._running[task] = job

    def ended(self, timeout: float) -> list[Ended]:
        """What has ended; a process or node that died has lost its stage."""
        if not self._running:
            return []
        finished, _ = self._ray.wait(list(self._running), timeout=timeout)
        return [self._how(self._running.pop(task), task) for task in finished]

    def _how(self, job: Job, task: Any) -> Ended:
        try:
            outcome = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            outcome = ("failed", f"{job.name}: {str(error).strip().splitlines()[-1]}")
        except self._ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[:200]
            outcome = ("lost", f"{job.name} was lost: {reason}; run the same command again")
        return ended(job, outcome, self.workspace)

    def stop(self) -> None:
        """Leave a mark in the folder of runs, which every stage looks for."""
        Folder.make(self.workspace.runs).write(self._mark.name, {})

    def close(self) -> None:
        """Give up what is still running, and leave the cluster as it was."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        Folder(self.workspace.runs).drop(self._mark.name)
        if self._began:
            self._ray.shutdown()


executor = Ray
