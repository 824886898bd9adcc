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

from .errors import Interrupted, SelfPretrainError
from .run import Bench, never, run_stage, silent
from .study import Job

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
        _share_out(jobs, bench, workers)


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


def _share_out(jobs: list[Job], bench: Bench, workers: int) -> None:
    context = multiprocessing.get_context("spawn")
    lines, stop = context.Queue(), context.Event()
    plain = replace(bench, tell=silent, stop=never)
    pool = ProcessPoolExecutor(workers, context, _prepare, (lines, stop))
    running: dict[Future[None], Job] = {}
    waiting, done, failures = list(jobs), set[str](), list[SelfPretrainError]()
    names = {job.name for job in jobs}
    try:
        while running or (waiting and not failures and not stop.is_set()):
            ready = [j for j in waiting if j.after is None or j.after in done or j.after not in names]
            for job in ready[: workers - len(running)] if not failures and not stop.is_set() else []:
                waiting.remove(job)
                with _deaf():
                    running[pool.submit(_work, job, plain)] = job
            finished, _ = wait(running, timeout=PAUSE, return_when=FIRST_COMPLETED)
            for future in finished:
                job = running.pop(future)
                failures += _failure(future)
                done.add(job.name)
            _pass_on(lines, bench)
            if bench.stop():
                stop.set()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _pass_on(lines, bench)
    if failures:
        raise failures[0]
    if waiting:
        raise Interrupted("stopped; the same command goes on from here")


@contextmanager
def _deaf() -> Iterator[None]:
    """Workers that start now never hear of Ctrl-C, not even while they import; ours waits until the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _failure(future: Future[None]) -> list[SelfPretrainError]:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        said = (
            "a worker process was killed (out of memory?); run the same command again, with --jobs 1 if it is"
        )
        return [SelfPretrainError(f"{said}; finished stages are kept")]
    if isinstance(error, SelfPretrainError):
        return [error]
    if error is not None:
        raise error
    return []


def _pass_on(lines: Any, bench: Bench) -> None:
    while True:
        try:
            bench.tell(lines.get_nowait())
        except queue.Empty:
            return


# What follows runs in a worker. Queue and event can only be handed over when the process starts.
_lines: Any = None
_stop: Any = None


def _prepare(lines: Any, stop: Any) -> None:
    global _lines, _stop
    _lines, _stop = lines, stop
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _work(job: Job, bench: Bench) -> None:
    run_stage(job.recipe, replace(bench, tell=_lines.put, stop=_stop.is_set), job.tested)
