"""What a tracker must do: hear the events of a run, and keep them somewhere else."""

import abc
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from ...registry import find
from ...system import extras
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


class RunTracker(Tracker):
    """One that keeps a run per stage, with its numbers by step, in a package that an extra installs.

    Raises:
        SpecError: if it is not installed.
    """

    library: ClassVar[str]  # the module to import; the extra is called like the tracker

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        name = type(self).__module__.rpartition(".")[2]
        self._library = extras.load(self.library, f"tracker {name}", name)
        self._open: dict[str, Any] = {}
        self._step: dict[str, int] = {}

    @abc.abstractmethod
    def begin(self, stage: str) -> Any:
        """The run of a stage, which is told from its beginning; an earlier one is replaced or goes on."""

    @abc.abstractmethod
    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Take in what was measured at a step."""

    def sum_up(self, run: Any, scores: dict[str, float], step: int) -> None:
        """Take in the scores of the end."""
        self.log(run, scores, step)

    @abc.abstractmethod
    def end(self, run: Any, finished: bool) -> None:
        """Let go of a run."""

    def hear(self, event: Event) -> None:
        """Pass on every number of what is trained now, at its step; those of the end at the last one."""
        if event.kind not in ("train", "val", "end") or event.numbers.get("reused"):
            return
        run = self._open.get(event.name)
        if run is None:
            run = self._open[event.name] = self.begin(event.name)
        step = self._step[event.name] = int(event.numbers.get("step", self._step.get(event.name, 0)))
        if event.kind == "end":
            self.sum_up(run, scalars(event), step)
            self.end(self._open.pop(event.name), finished=True)
        else:
            self.log(run, scalars(event), step)

    def close(self) -> None:
        """Say of stages that have not ended that they have not."""
        for run in self._open.values():
            self.end(run, finished=False)


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
