"""A limit on work whose duration is not known beforehand: its loops ask whether to stop."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("end", default=math.inf)
_stop: ContextVar[Callable[[], bool]] = ContextVar("stop", default=lambda: False)


class TimeIsUp(Exception):
    """The time of ``until`` has passed, or its ``stop`` asked to end."""


@contextmanager
def until(end: float, stop: Callable[[], bool] | None = None) -> Iterator[None]:
    """Limit the work in the block to a time of ``time.monotonic``, or to an earlier limit around it.

    Args:
        stop: whether to stop before, in place of that around the block; None: that one.
    """
    tokens = _end.set(min(end, _end.get())), _stop.set(stop or _stop.get())
    try:
        yield
    finally:
        _end.reset(tokens[0])
        _stop.reset(tokens[1])


def seconds_left() -> float:
    """Return the seconds until the limit: infinity without one, and minus infinity if asked to stop."""
    return -math.inf if _stop.get()() else _end.get() - time.monotonic()


def check_time() -> None:
    """Raise ``TimeIsUp`` if the limit has passed, or a stop was asked for."""
    if seconds_left() < 0:
        raise TimeIsUp
