"""Stages as Ray tasks, on this machine or on the nodes of a cluster.

Settings: ``address`` (auto, or that of the head node; default: a local cluster on this machine), ``cpus`` and
``gpus`` per stage, which may be fractions. All nodes must see the runs folder at the same path. A Ray worker
keeps PyTorch imported from one stage to the next; with GPUs, Ray starts one process per stage.
"""

import os
import socket
import warnings
from typing import Any, ClassVar

from ... import registry
from ...errors import SpecError
from ..plan import PlannedStage
from ..stage import Outcome, RemoteStage, run_remote
from ..workspace import Workspace
from .base import Ended, Executor

RETRIES = 3
"""How often Ray restarts a stage whose process or node died."""
CONNECT_SECONDS = 10.0
"""Seconds to wait for an answer of the head node; Ray itself prints warnings for minutes."""


class Ray(Executor):
    """One task per stage; Ray itself restarts tasks that are lost with a process or a node.

    Raises:
        SpecError: if Ray is not installed, or there is no cluster at the address.
    """

    elsewhere: ClassVar[bool] = True
    settings: ClassVar = ("address", "cpus", "gpus")

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray: Any = registry.import_extra("ray", "--executor ray", "ray")
        self._need = {"CPU": workspace.number("cpus", 1.0), "GPU": workspace.number("gpus", 0.0)}
        if workspace.device.startswith("cuda") and not self._need["GPU"]:
            raise SpecError(
                "Ray hides GPUs from stages that ask for none: add --with gpus=1, or --device cpu"
            )
        if not any(self._need.values()):
            raise SpecError("--with cpus=0: a stage needs a share of a core or of a GPU; give e.g. cpus=0.5")
        self._began = not self._ray.is_initialized()
        if self._began:
            address = workspace.executor_settings.get("address") or os.environ.get("RAY_ADDRESS")
            try:
                _check_connection(address or "")
                self._ray.init(address=address, log_to_driver=False, logging_level="error")
            except (OSError, OverflowError, RuntimeError, ValueError) as error:
                reason = " ".join(str(error).split())[:200]
                raise SpecError(f"no Ray cluster at {address or 'this machine'}: {reason}") from error
        task = self._ray.remote(num_cpus=self._need["CPU"], num_gpus=self._need["GPU"], max_retries=RETRIES)
        self._task = task(run_remote)
        self._warn_of_shortage()
        self._running: dict[Any, PlannedStage] = {}

    @property
    def slots(self) -> int:
        """Return the number of stages that fit on the nodes now in the cluster."""
        resources = self._ray.cluster_resources()
        return max(1, min(int(resources.get(kind, 0) / need) for kind, need in self._need.items() if need))

    def start(self, stage: PlannedStage) -> None:
        """Submit a stage to Ray."""
        self._running[self._task.remote(RemoteStage.of(stage, self.workspace))] = stage

    def poll(self, timeout: float) -> list[Ended]:
        """Return the stages that have ended."""
        if not self._running:
            return []
        finished, _ = self._ray.wait(list(self._running), timeout=timeout)
        ended = [(self._running.pop(task), task) for task in finished]
        return [self.ended(stage, self._outcome(stage, task)) for stage, task in ended]

    def _warn_of_shortage(self) -> None:
        """Warn if all nodes together lack what one stage needs: Ray waits for further nodes, silently."""
        resources = self._ray.cluster_resources()
        for kind, need in self._need.items():
            if resources.get(kind, 0) < need:
                warnings.warn(
                    f"a stage needs {need:g} {kind}, and the Ray cluster has {resources.get(kind, 0):g}: "
                    "stages wait until nodes join; Ctrl-C ends this, and --with sets what a stage needs",
                    stacklevel=2,
                )

    def _outcome(self, stage: PlannedStage, task: Any) -> Outcome:
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.TaskCancelledError as error:
            return "stopped", str(error)
        except errors.RayTaskError as error:
            return "failed", f"{stage.id}: {str(error).strip().splitlines()[-1]}"
        except errors.RayError as error:
            reason = " ".join(str(error).split())[:200]
            return "failed", f"{stage.id} was lost {1 + RETRIES} times: {reason}; run the same command again"

    def stop(self) -> None:
        """Cancel every stage, which then saves a checkpoint."""
        for task in self._running:
            self._ray.cancel(task)

    def close(self) -> None:
        """Kill the stages that are still running, and shut Ray down if this executor started it."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        if self._began:
            self._ray.shutdown()


def _check_connection(address: str) -> None:
    """Check that a program listens at an address with a port.

    Raises:
        OSError: if none does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


executor = Ray
