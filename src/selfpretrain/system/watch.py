"""Long preparations say how far they are; who wants to know listens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int, int], None]
"""Hears what is being done, how much of it is done, and how much there is (0: not known)."""

_listeners: list[Listener] = []


def tell(what: str, done: int, total: int = 0) -> None:
    """Say how far something is."""
    for listener in _listeners:
        listener(what, done, total)


@contextmanager
def watching(listener: Listener) -> Iterator[None]:
    """Listen to everything that is told meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
