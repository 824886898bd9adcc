"""What a tracker must do: hear the events of a run, and keep them somewhere else."""

import abc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ...registry import find
from ...system.events import Event, listening
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
            stack.callback(tracker.close)
            stack.enter_context(listening(tracker.hear))
        yield
