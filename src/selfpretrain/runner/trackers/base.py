"""What a tracker must do: hear the events of a run, and keep them somewhere else."""

import abc
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from ...registry import find
from ...system.events import Event, Listener, listening
from ..workspace import Workspace


class Tracker(abc.ABC):
    """Hears every event while stages run, in the process that started them.

    Runs are called by the names of their stages, which end in the fingerprint.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @abc.abstractmethod
    def hear(self, event: Event) -> None:
        """Take in one event."""

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """All stages have ended."""


@contextmanager
def tracking(workspace: Workspace) -> Iterator[None]:
    """With every tracker that the workspace names."""
    trackers: list[Tracker] = [find("trackers", name)(workspace) for name in workspace.trackers]
    with ExitStack() as stack:
        for tracker in trackers:
            stack.callback(_harmless(tracker, _closing(tracker)), Event("close", ""))
            stack.enter_context(listening(_harmless(tracker, tracker.hear)))
        yield


def scalars(event: Event) -> dict[str, float]:
    """The numbers of an event by names such as ``train/loss`` and, at the end, ``final/test/accuracy``."""
    found: dict[str, float] = {}
    for name, value in event.numbers.items():
        if isinstance(value, Mapping):
            found |= {f"final/{name}/{inner}": float(number) for inner, number in value.items()}
        elif not isinstance(value, bool | str) and name != "step":
            found[f"{event.kind}/{name}"] = float(value)
    return found


def _closing(tracker: Tracker) -> Listener:
    return lambda event: tracker.close()


def _harmless(tracker: Tracker, hear: Listener) -> Listener:
    """What a tracker does, but for its failures: the first is told, and then it hears no more."""
    deaf = False

    def careful(event: Event) -> None:
        nonlocal deaf
        if deaf:
            return
        try:
            hear(event)
        except Exception as error:  # training does not end because of somebody who listens
            deaf = True
            name, reason = type(tracker).__name__, " ".join(str(error).split())[:200]
            warnings.warn(f"tracker {name} failed and hears no more: {reason}", stacklevel=2)

    return careful
