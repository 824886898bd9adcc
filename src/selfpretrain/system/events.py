"""Events of training and preparation, sent to all listeners: progress display, log and trackers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """The start, a measurement or the end of a stage, or progress of other work.

    ``kind`` is "start", "memory", "train", "val", "end" or "lost" for a stage; "memory" says how it saves
    memory on a GPU, or why nobody knows what it takes. It is "interim" for the rows of a comparison that are
    not decided after ``done`` of at most ``total`` seeds, "restored" for the bundled results that are
    taken, and "progress" for anything else.
    """

    kind: str
    name: str  # name of the stage, or of the work in progress
    done: float | int = 0.0
    total: float | int = 1.0  # 0: unknown
    numbers: Mapping[str, Any] = field(default_factory=dict)  # step, epoch, loss, score, ...


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


def emit(event: Event) -> None:
    """Send an event to all listeners."""
    for listener in list(_listeners):  # a copy: another thread may remove a listener
        listener(event)


def report_progress(name: str, done: int, total: int = 0) -> None:
    """Emit a "progress" event."""
    emit(Event("progress", name, done, total))


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Register a listener for the duration of the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def format_duration(seconds: float) -> str:
    """Format a duration with its two largest units: ``3.2 s``, ``3 min 20 s``, ``2 h 4 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"
