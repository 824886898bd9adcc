"""Stages in parallel worker processes on this machine; with GPUs, each process sees one of them."""

import ast
import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, ClassVar

import torch

from ...errors import Interrupted, SelfPretrainError, SpecError
from ...system.events import emit, listen
from ...system.hardware import share_gpu
from ...system.startup import keep_memory
from ...training.train import never
from ..plan import PlannedStage
from ..stage import run_stage
from ..workspace import Workspace
from .base import Ended, Executor

KILLED_MESSAGE = (
    "a worker process was killed (out of memory? then use --jobs 1); finished stages are kept, "
    "run the same command again"
)
STOPPED_MESSAGE = "stopped; the same command resumes from the last checkpoint"


class Processes(Executor):
    """A pool of worker processes, one per worker of the workspace.

    Raises:
        SpecError: if the main script has no main guard: workers import it and would start it again.
    """

    settings: ClassVar = ()

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        _check_main_guard()
        context = multiprocessing.get_context("spawn")
        self._events = context.Queue()
        self._stop = context.Event()
        devices = context.Queue()
        gpus = visible_devices(workspace)
        for device in gpus:
            devices.put(device)
        arguments = (self._events, self._stop, devices, max(map(gpus.count, gpus)))
        self._pool = ProcessPoolExecutor(workspace.workers, context, _start_worker, arguments)
        self._running: dict[Future[None], PlannedStage] = {}
        self._lost: list[Ended] = []

    @property
    def slots(self) -> int:
        """Return the number of workers."""
        return self.workspace.workers

    def start(self, stage: PlannedStage) -> None:
        """Submit a stage to the pool."""
        device = self.workspace.device.partition(":")[0]  # a worker sees one GPU only
        workspace = replace(self.workspace, stop=never, device=device)
        # Workers that are spawned now inherit the mask, so that only the parent handles Ctrl-C and the end of
        # a terminal. The pool itself ends workers by SIGTERM.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        try:
            self._running[self._pool.submit(_run_in_worker, stage, workspace)] = stage
        except BrokenProcessPool:
            self._lost.append(self._broken_off(stage))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def poll(self, timeout: float) -> list[Ended]:
        """Return the stages that have ended, and emit the workers' events in this process."""
        finished, _ = wait(self._running, timeout=timeout, return_when=FIRST_COMPLETED)
        self._forward_events()
        ended = self._lost
        self._lost = []
        for future in finished:
            stage = self._running.pop(future)
            error = future.exception()
            if isinstance(error, Interrupted):
                ended.append(Ended(stage, "stopped", error))
            elif isinstance(error, SelfPretrainError):
                ended.append(Ended(stage, "failed", error))
            elif isinstance(error, BrokenProcessPool):
                ended.append(self._broken_off(stage))
            elif error is not None:
                raise error
            else:
                ended.append(Ended(stage, "done"))
        return ended

    def stop(self) -> None:
        """Set the event that every worker checks after each step."""
        self._stop.set()

    def close(self) -> None:
        """Wait for the processes to end; what still runs then saves a checkpoint."""
        self._stop.set()
        self._forward_events()  # a worker that cannot write its events does not end
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._forward_events()

    def _broken_off(self, stage: PlannedStage) -> Ended:
        """Return how a stage ended whose worker was killed: by what asked this process to stop, or lost."""
        if self.workspace.stop():  # schedulers, and `timeout`, send SIGTERM to all processes of a command
            return Ended(stage, "stopped", Interrupted(STOPPED_MESSAGE))
        return Ended(stage, "lost", SelfPretrainError(KILLED_MESSAGE))

    def _forward_events(self) -> None:
        while True:
            try:
                emit(self._events.get_nowait())
            except queue.Empty:
                return


def visible_devices(workspace: Workspace) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES for each worker; "" on the CPU."""
    kind, _, index = workspace.device.partition(":")
    if kind != "cuda":
        return [""] * workspace.workers
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    gpus = [gpus[int(index)]] if index else gpus
    return [gpus[i % len(gpus)] for i in range(workspace.workers)]


def _check_main_guard() -> None:
    """Check that the script starts workers behind a main guard, as every worker imports the script again."""
    script = Path(str(vars(sys.modules["__main__"]).get("__file__")))
    frames = [frame for frame, _ in traceback.walk_stack(None) if frame.f_code.co_name == "<module>"]
    if not script.is_file() or not frames or frames[-1].f_globals["__name__"] != "__main__":
        return  # interactive, or called from a thread
    line = frames[-1].f_lineno
    for statement in ast.parse(script.read_text(encoding="utf-8")).body:
        is_guarded = isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
        if statement.lineno <= line <= (statement.end_lineno or 0) and not is_guarded:
            raise SpecError(
                f"{script}, line {line}: stages run at once are processes, which import the script again; "
                'put the line below `if __name__ == "__main__":`, or give a workspace of one worker'
            )


# The rest runs in a worker process.
_worker: dict[str, Any] = {}
"""Queue of events and stop event of this process: they can be passed only when it starts."""


def _start_worker(events: Any, stop: Any, devices: Any, stages_per_gpu: int = 1) -> None:
    sys.stdout = sys.stderr  # layers of one's own may print, and standard output may be for JSON alone
    _worker["events"] = events
    _worker["stop"] = stop
    if device := devices.get():  # must be set before CUDA is initialized
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    share_gpu(stages_per_gpu)
    keep_memory()
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])  # ready when the parent has ended, even if it was killed
        os._exit(1)


def _run_in_worker(stage: PlannedStage, workspace: Workspace) -> None:
    with listen(_worker["events"].put):
        run_stage(stage, replace(workspace, stop=_worker["stop"].is_set))


executor = Processes
