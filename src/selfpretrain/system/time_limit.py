"""A time limit on work whose duration is not known beforehand: its loops ask whether the time is up."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("end", default=math.inf)


class TimeIsUp(Exception):
    """The limit of ``until`` has passed."""


@contextmanager
def until(end: float) -> Iterator[None]:
    """Limit the work in the block to a time of ``time.monotonic``, or to an earlier limit around it."""
    token = _end.set(min(end, _end.get()))
    try:
        yield
    finally:
        _end.reset(token)


def seconds_left() -> float:
    """Return the seconds until the limit; infinity without one."""
    return _end.get() - time.monotonic()


def check_time() -> None:
    """Check the limit.

    Raises:
        TimeIsUp: if it has passed.
    """
    if seconds_left() < 0:
        raise TimeIsUp
