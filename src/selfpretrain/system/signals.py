"""Graceful stop on Ctrl-C (SIGINT), SIGTERM from a scheduler, or SIGHUP from a closing terminal."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in dir(signal))
AT_ONCE = 130
"""Exit code after a second signal."""


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

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    optional = {getattr(signal, "SIGHUP", None)}  # under nohup SIGHUP is ignored, and stays so
    numbers = [n for n in SIGNALS if n not in optional or previous[n] is not signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, handle)
    try:
        yield lambda: bool(received)
    finally:
        for number in numbers:
            signal.signal(number, previous[number])
