"""Being asked to stop: by Ctrl-C, by a scheduler that takes the machine back, by a terminal that closes."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in dir(signal))
AT_ONCE = 130
"""Exit code after being asked twice."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether somebody has asked to stop, so that work can be saved; asked twice, the program ends at once.

    A handler may run between any two instructions, also inside a lock: it sets a flag and nothing else.
    """
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        if asked:
            os.write(2, b"stopped at once; the same command goes on from the last checkpoint\n")
            os._exit(AT_ONCE)
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    kept = {getattr(signal, "SIGHUP", None)}  # nohup has it ignored, and it stays so
    heard = [n for n in SIGNALS if n not in kept or before[n] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number in heard:
            signal.signal(number, before[number])
