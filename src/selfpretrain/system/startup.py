"""Start and stop of a process: threads and memory, set before torch is imported, and signals.

By default torch uses one thread per core, which makes small models several times slower as soon as anything
else runs on the machine: the threads spin while they wait for each other. Processes share the work instead.

By default glibc requests every large block from the system and returns it when it is freed, so that each
large tensor of each step pays for its page faults again. With these settings freed memory is kept and reused.

Ctrl-C (SIGINT), SIGTERM from a scheduler or SIGHUP from a closing terminal stop gracefully.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

MMAP_THRESHOLD = (-3, 1 << 30)
"""Option of mallopt, as numbered in malloc.h, and bytes from which a block is mapped separately."""
TRIM_THRESHOLD = (-1, 2**31 - 1)  # option of mallopt, and how many bytes of other freed memory are kept
THREAD_VARIABLES = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
"""Variables of OpenMP: one thread per process, which does not spin while it waits."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in dir(signal))
AT_ONCE = 130  # exit code after a second signal


def limit_threads() -> None:
    """Use one OpenMP thread per process; variables that are already set are kept."""
    for variable, value in THREAD_VARIABLES.items():
        os.environ.setdefault(variable, value)


def keep_memory() -> bool:
    """Let glibc keep and reuse large blocks of memory, unless SELFPRETRAIN_MALLOC=0; return whether it does.

    This has no effect on other systems than Linux with glibc, or on memory allocated before.
    """
    if sys.platform != "linux" or os.environ.get("SELFPRETRAIN_MALLOC") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # a C library without mallopt
        return False
    return all(mallopt(option, value) for option, value in (MMAP_THRESHOLD, TRIM_THRESHOLD))


@contextmanager
def catch_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a signal asked to stop; a second signal exits at once.

    Handlers run between any two instructions, even while a lock is held, so this one only sets a flag.
    """
    received: list[int] = []

    def handle(number: int, frame: Any) -> None:
        if received:
            os.write(2, b"stopped at once; the same command resumes from the last checkpoint\n")
            os._exit(AT_ONCE)
        received.append(number)

    with _handled(handle):
        yield lambda: bool(received)


@contextmanager
def catch_interrupt(said: str) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C asked to stop; a second one raises KeyboardInterrupt.

    Other signals keep what they do: a program that calls us ends by those that are to end it.

    Args:
        said: line that is written to stderr the first time.
    """
    received: list[int] = []

    def handle(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        os.write(2, f"{said}\n".encode())

    with _handled(handle, (signal.SIGINT,)):
        yield lambda: bool(received)


@contextmanager
def others_interrupt() -> Iterator[None]:
    """Let the other signals do in this block what Ctrl-C does."""

    def handle(number: int, frame: Any) -> None:
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # Ctrl-C is ignored in the background of a shell
            raise KeyboardInterrupt
        interrupt(number, frame)

    with _handled(handle, SIGNALS[1:]):
        yield


@contextmanager
def raise_on_signal() -> Iterator[None]:
    """Let a signal raise KeyboardInterrupt in this block, also inside a block of ``catch_signals``."""

    def handle(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    with _handled(handle):
        yield


@contextmanager
def _handled(
    handle: Callable[[int, Any], None], signals: Sequence[signal.Signals] = SIGNALS
) -> Iterator[None]:
    """Handle signals in this block; in other threads than the main one, which gets them, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in signals}
    optional = {getattr(signal, "SIGHUP", None)}  # under nohup SIGHUP is ignored, and stays so
    numbers = [n for n in signals if n not in optional or previous[n] is not signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, previous[number])
