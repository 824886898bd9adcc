"""Stages in parallel worker processes on this machine; with GPUs, each process sees one of them."""

import ast
import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

import torch

from ...errors import Interrupted, SelfPretrainError, SpecError
from ...system.events import emit, listening
from ...system.startup import keep_memory
from ..plan import Job
from ..stage import run_stage
from ..workspace import Workspace, never
from .base import Ended, Executor

KILLED = "a worker process was killed (out of memory? then use --jobs 1); finished stages are kept"


class Processes(Executor):
    """A pool of worker processes, one per worker of the workspace.

    Raises:
        SpecError: if the main script has no main guard: workers import it and would start it again.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        _demand_main_guard()
        context = multiprocessing.get_context("spawn")
        self._events, self._stop = context.Queue(), context.Event()
        places = context.Queue()
        for place in gpu_places(workspace):
            places.put(place)
        arguments = (self._events, self._stop, places)
        self._pool = ProcessPoolExecutor(workspace.workers, context, _prepare, arguments)
        self._running: dict[Future[None], Job] = {}
        self._lost: list[Ended] = []

    @property
    def slots(self) -> int:
        """One per worker."""
        return self.workspace.workers

    def start(self, job: Job) -> None:
        """Submit a stage to the pool."""
        try:
            with _block_sigint():
                device = self.workspace.device.partition(":")[0]  # a worker sees one GPU only
                plain = replace(self.workspace, stop=never, device=device)
                self._running[self._pool.submit(_work, job, plain)] = job
        except BrokenProcessPool:
            self._lost.append(_lost(job))

    def ended(self, timeout: float) -> list[Ended]:
        """Return the stages that have ended, and emit the workers' events in this process."""
        finished, _ = wait(self._running, timeout=timeout, return_when=FIRST_COMPLETED)
        self._pass_on()
        lost, self._lost = self._lost, []
        return lost + [_how(self._running.pop(future), future.exception()) for future in finished]

    def stop(self) -> None:
        """Set the event that every worker checks after each step."""
        self._stop.set()

    def close(self) -> None:
        """Wait for the processes to end."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pass_on()

    def _pass_on(self) -> None:
        while True:
            try:
                emit(self._events.get_nowait())
            except queue.Empty:
                return


def gpu_places(workspace: Workspace) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES for each worker; "" on the CPU."""
    kind, _, index = workspace.device.partition(":")
    if kind != "cuda":
        return [""] * workspace.workers
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    gpus = [gpus[int(index)]] if index else gpus
    return [gpus[i % len(gpus)] for i in range(workspace.workers)]


def _demand_main_guard() -> None:
    """Check that the script starts workers behind a main guard, as every worker imports the script again."""
    script = Path(str(vars(sys.modules["__main__"]).get("__file__")))
    frames = [frame for frame, _ in traceback.walk_stack(None) if frame.f_code.co_name == "<module>"]
    if not script.is_file() or not frames or frames[-1].f_globals["__name__"] != "__main__":
        return  # interactive, or called from a thread
    line = frames[-1].f_lineno
    for statement in ast.parse(script.read_text(encoding="utf-8")).body:
        guarded = isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
        if statement.lineno <= line <= (statement.end_lineno or 0) and not guarded:
            raise SpecError(
                f"{script}, line {line}: stages run at once are processes, which import the script again; "
                'put the line below `if __name__ == "__main__":`, or give a workspace of one worker'
            )


def _how(job: Job, error: BaseException | None) -> Ended:
    if isinstance(error, Interrupted):
        return Ended(job, "stopped", error)
    if isinstance(error, SelfPretrainError):
        return Ended(job, "failed", error)
    if isinstance(error, BrokenProcessPool):
        return _lost(job)
    if error is not None:
        raise error
    return Ended(job, "done")


def _lost(job: Job) -> Ended:
    return Ended(job, "lost", SelfPretrainError(f"{KILLED}, run the same command again"))


@contextmanager
def _block_sigint() -> Iterator[None]:
    """Block SIGINT while workers are spawned, so that only the parent handles Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The rest runs in a worker. Queue and event can only be passed when the process starts: hence globals.
_events: Any = None
_stop: Any = None


def _prepare(events: Any, stop: Any, places: Any) -> None:
    global _events, _stop
    _events, _stop = events, stop
    if place := places.get():  # must be set before CUDA is initialized
        os.environ["CUDA_VISIBLE_DEVICES"] = place
    keep_memory()
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])  # ready when the parent has ended, even if it was killed
        os._exit(1)


def _work(job: Job, workspace: Workspace) -> None:
    with listening(_events.put):
        run_stage(job.recipe, replace(workspace, stop=_stop.is_set), job.tested)


executor = Processes
