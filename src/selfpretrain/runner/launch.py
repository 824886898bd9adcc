"""A stage that several processes train together, started by torch's elastic launcher.

A process that is killed takes the others with it, and all start again from the checkpoint. One that fails is
not tried again.
"""

import contextlib
import logging
import multiprocessing
import queue
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from ..errors import Interrupted, SelfPretrainError, SpecError, StageFailed
from ..system import distributed
from ..system.events import emit, listening
from ..training.loop import Stop
from ..training.recipe import Recipe
from .workspace import Workspace, at_work, never

RESTARTS = 2
PAUSE = 0.1
"""Seconds between looks at what they tell, and at whether they are to stop."""
Run = Callable[[Recipe, Workspace, bool], None]
Outcome = tuple[float, str, str]
"""When a process ended its work, how (done, failed or stopped), and why."""


def launch(run: Run, recipe: Recipe, workspace: Workspace, tested: bool) -> None:
    """Run a stage in as many processes as the workspace says, and tell here what the first of them tells.

    Raises:
        Interrupted: if asked to stop; it goes on from its checkpoint next time.
        StageFailed: if it failed, or its processes were killed again and again.
        SpecError: if there are not as many GPUs.
    """
    count, name = workspace.together, workspace.stage(recipe).name
    if workspace.device.startswith("cuda") and torch.cuda.device_count() < count:
        raise SpecError(f"{count} GPUs per stage: there are only {torch.cuda.device_count()} here")
    context = multiprocessing.get_context("spawn")
    told, asked = context.Queue(), context.Event()
    plain = replace(workspace, stop=never, trackers=(), together=1, device=workspace.device.partition(":")[0])
    found = _launched(
        (run, recipe, plain, tested, told, asked), count, lambda: _attend(told, asked, workspace.stop)
    )
    if isinstance(found, BaseException):
        raise StageFailed(
            f"{name}: one of its {count} processes was killed each time; out of memory?"
        ) from found
    worst = min((each for each in found if each[1] != "done"), default=None)
    if worst and worst[1] == "stopped":
        raise Interrupted(worst[2])
    if worst:
        raise StageFailed(worst[2])


def _launched(
    args: tuple[Any, ...], count: int, attend: Callable[[], bool]
) -> list[Outcome] | ChildFailedError:
    """What every process returns, or that they did not; meanwhile, this one attends to them."""
    config = LaunchConfig(
        1, 1, count, run_id=uuid.uuid4().hex, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
        local_addr="127.0.0.1", max_restarts=RESTARTS,
    )  # fmt: skip
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # what happens is told here
    box: list[Any] = []

    def start() -> None:
        try:
            box.append(list(elastic_launch(config, _work)(*args).values()))
        except Exception as error:
            box.append(error)

    thread = threading.Thread(target=start)  # the launcher would take the signals of a main thread
    thread.start()
    while attend() or thread.is_alive():
        pass
    (found,) = box
    if isinstance(found, Exception) and not isinstance(found, ChildFailedError):
        raise found
    return found


def _attend(told: Any, asked: Any, stop: Stop) -> bool:
    """Ask them to stop, if so, and pass on what they tell next, if they soon do."""
    if stop():
        asked.set()
    try:
        emit(told.get(timeout=PAUSE))
    except queue.Empty:
        return False
    return True


def _work(run: Run, recipe: Recipe, workspace: Workspace, tested: bool, told: Any, asked: Any) -> Outcome:
    """One of them."""
    how, reason = "done", ""
    with at_work(workspace) as here, contextlib.ExitStack() as stack:
        if distributed.is_main():
            stack.enter_context(listening(told.put))
        try:
            run(recipe, replace(here, stop=lambda: here.stop() or asked.is_set()), tested)
        except Interrupted as error:
            how, reason = "stopped", str(error)
        except SelfPretrainError as error:
            how, reason = "failed", str(error)
    return time.monotonic(), how, reason
