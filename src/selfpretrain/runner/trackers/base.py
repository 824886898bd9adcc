"""Base classes of experiment trackers (loggers), which forward the events of training to another program."""

import abc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar

from ... import registry
from ...registry import find
from ...system.events import Event, listen
from ..workspace import Workspace


class Tracker(abc.ABC):
    """Receives every event while stages run, in the process that started them.

    Runs are named like their stages, which end with the fingerprint.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @abc.abstractmethod
    def log_event(self, event: Event) -> None:
        """Handle one event."""

    def close(self) -> None:  # noqa: B027  # optional
        """Close the tracker after all stages have ended."""


class RunTracker(Tracker):
    """A tracker with one run per stage, in a library that the extra ``tracking`` installs.

    Raises:
        SpecError: if the library is not installed.
    """

    library: ClassVar[str]  # module to import

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._library = registry.import_extra(self.library, f"tracker {type(self).__name__}", "tracking")
        self._open: dict[str, Any] = {}
        self._step: dict[str, int] = {}

    @abc.abstractmethod
    def begin(self, stage: str) -> Any:
        """Open the run of a stage; an existing one is replaced or continued."""

    @abc.abstractmethod
    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Log numbers at a step."""

    def sum_up(self, run: Any, scores: dict[str, float], step: int) -> None:
        """Log the final scores."""
        self.log(run, scores, step)

    @abc.abstractmethod
    def end(self, run: Any, finished: bool) -> None:
        """Close a run."""

    def log_event(self, event: Event) -> None:
        """Log the numbers of an event at its step; skip reused stages; log final scores at the last step."""
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
        """Close the runs of stages that have not ended as unfinished."""
        for run in self._open.values():
            self.end(run, finished=False)


_TRACKING: ContextVar[bool] = ContextVar("tracking", default=False)


@contextmanager
def tracking(workspace: Workspace) -> Iterator[None]:
    """Send events to every tracker of the workspace within the block, unless one around it does."""
    if _TRACKING.get():
        yield
        return
    trackers: list[Tracker] = [find("trackers", name)(workspace) for name in workspace.trackers]
    with ExitStack() as stack:
        for tracker in trackers:
            call = _harmless(tracker)
            stack.callback(call, tracker.close)
            stack.enter_context(listen(partial(call, tracker.log_event)))
        before = _TRACKING.set(True)
        stack.callback(_TRACKING.reset, before)
        yield


def scalars(event: Event) -> dict[str, float]:
    """Return the numbers of an event by name: ``train/loss`` or, at the end, ``final/test/accuracy``."""
    found: dict[str, float] = {}
    for name, value in event.numbers.items():
        if isinstance(value, Mapping):
            found |= {f"final/{name}/{inner}": float(number) for inner, number in value.items()}
        elif not isinstance(value, bool | str) and name != "step":
            found[f"{event.kind}/{name}"] = float(value)
    return found


def _harmless(tracker: Tracker) -> Callable[..., None]:
    """Return what calls methods of a tracker: the first failure is a warning; it is only closed then."""
    failed = False

    def call(method: Callable[..., None], *event: Event) -> None:
        nonlocal failed
        if failed and event:
            return
        try:
            method(*event)
        except Exception as error:  # a broken tracker must not stop training
            if not failed:
                name = type(tracker).__name__
                reason = " ".join(str(error).split())[:200]
                warnings.warn(f"tracker {name} failed and stops logging: {reason}", stacklevel=2)
            failed = True

    return call
