"""Working through the stages of a study: here, or in several processes at once."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait as wait_for
from typing import Any

from ...errors import Interrupted, SelfPretrainError
from ...system.startup import keep_memory
from ..plan import Job
from ..stage import run_stage
from ..workspace import Bench, never, silent

PAUSE = 0.1
"""Seconds between looks at the workers' messages."""


def work(jobs: list[Job], bench: Bench, workers: int) -> None:
    """Run every stage, each after the one it starts from.

    Raises:
        Interrupted: when ``bench.stop`` asked for it and every stage at work has saved a checkpoint.
        SelfPretrainError: if a stage failed or a worker was killed; what was finished stays.
    """
    if workers == 1:
        for job in jobs:
            run_stage(job.recipe, bench, job.tested)
    else:
        _Crew(jobs, bench, workers).work()


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets, so that work can be saved; the second one ends the program."""
    event, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: Any) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


class _Crew:
    """Processes that share the stages among them.

    Args:
        workers: how many run at once.
    """

    def __init__(self, jobs: list[Job], bench: Bench, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.lines, self.stop = context.Queue(), context.Event()
        self.pool = ProcessPoolExecutor(workers, context, _prepare, (self.lines, self.stop))
        self.bench, self.workers = bench, workers
        self.waiting, self.names = list(jobs), {job.name for job in jobs}
        self.running: dict[Future[None], Job] = {}
        self.done: set[str] = set()
        self.failures: list[SelfPretrainError] = []

    def work(self) -> None:
        """Run all stages, or as many as can be."""
        try:
            while self.running or (self.waiting and self._willing()):
                if self._willing():
                    self._start()
                self._collect()
                if self.bench.stop():
                    self.stop.set()
        finally:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self._pass_on()
        if self.failures:
            raise self.failures[0]
        if self.waiting:
            raise Interrupted("stopped; the same command goes on from here")

    def _willing(self) -> bool:
        return not self.failures and not self.stop.is_set()

    def _start(self) -> None:
        ready = [job for job in self.waiting if job.after not in self.names - self.done]
        plain = replace(self.bench, tell=silent, stop=never)
        for job in ready[: self.workers - len(self.running)]:
            try:
                with _deaf():
                    self.running[self.pool.submit(_work, job, plain)] = job
            except BrokenProcessPool as error:
                self._note(error)
                return
            self.waiting.remove(job)

    def _collect(self) -> None:
        finished, _ = wait(self.running, timeout=PAUSE, return_when=FIRST_COMPLETED)
        for future in finished:
            self.done.add(self.running.pop(future).name)
            self._note(future.exception())
        self._pass_on()

    def _note(self, error: BaseException | None) -> None:
        if isinstance(error, SelfPretrainError):
            self.failures.append(error)
        elif isinstance(error, BrokenProcessPool):
            said = "a worker process was killed (out of memory? then use --jobs 1); finished stages are kept"
            self.failures.append(SelfPretrainError(f"{said}, run the same command again"))
        elif error is not None:
            raise error

    def _pass_on(self) -> None:
        while True:
            try:
                self.bench.tell(self.lines.get_nowait())
            except queue.Empty:
                return


@contextmanager
def _deaf() -> Iterator[None]:
    """Workers that start now never hear of Ctrl-C, not even while they import; ours waits until the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# What follows runs in a worker. Queue and event can only be handed over when the process starts.
_lines: Any = None
_stop: Any = None


def _prepare(lines: Any, stop: Any) -> None:
    global _lines, _stop
    _lines, _stop = lines, stop
    keep_memory()
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _work(job: Job, bench: Bench) -> None:
    run_stage(job.recipe, replace(bench, tell=_lines.put, stop=_stop.is_set), job.tested)
