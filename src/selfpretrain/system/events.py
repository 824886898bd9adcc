"""One stream of events: what long work tells, and whoever listens: the display, the log, trackers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """A stage began, measured something or ended; or other work came further.

    ``kind`` is "start", "train", "val", "end" or "lost" of a stage, "progress" of anything else.
    """

    kind: str
    name: str  # of the stage; what is being done
    done: float | int = 0.0
    total: float | int = 1.0  # 0: not known
    numbers: Mapping[str, Any] = field(default_factory=dict)  # step, epoch, loss, score, ...


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


def emit(event: Event) -> None:
    """Let everybody who listens know."""
    for listener in list(_listeners):  # one may leave meanwhile, in another thread
        listener(event)


def progress(what: str, done: int, total: int = 0) -> None:
    """Say how far a long preparation is."""
    emit(Event("progress", what, done, total))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Listen to everything that is told meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def duration(seconds: float) -> str:
    """A length of time in words, with its two largest units: ``3.2 s``, ``3 min 20 s``, ``2 h 4 min``."""
    whole, minutes = round(seconds), round(seconds / 60)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{minutes // 60} h {minutes % 60} min"
