"""Base class of executors: start stages somewhere, and report how they ended."""

import abc
import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import DoesNotFit, Interrupted, SelfPretrainError
from ..plan import PlannedStage
from ..stage import Outcome, replay
from ..workspace import Workspace

VISIBLE_AFTER = 60.0
"""Seconds that what another machine has written may take to show on a shared disk."""


@dataclass(frozen=True)
class Ended:
    """How a stage ended: done, failed (reproducibly), lost with its worker, or stopped with a checkpoint."""

    stage: PlannedStage
    how: Literal["done", "failed", "lost", "stopped"]
    error: SelfPretrainError | None = None  # the reason, if it failed or was lost


class Executor(abc.ABC):
    """Runs stages somewhere; order and retries are up to the queue."""

    attempts: ClassVar[int] = 1  # maximum number of tries of a stage that is lost
    elsewhere: ClassVar[bool] = False  # whether stages run on other machines
    settings: ClassVar[tuple[str, ...] | None] = None  # what --with may set; None: anything
    submits_all: ClassVar[bool] = False  # whether a scheduler has all stages from the beginning, for --detach

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @classmethod
    def detach(cls, stages: list[PlannedStage], workspace: Workspace) -> str:
        """Submit all stages to a scheduler that outlives this process, and return how to find them.

        Only called where ``submits_all``.
        """
        raise NotImplementedError

    def ended(self, stage: PlannedStage, outcome: Outcome) -> Ended:
        """Return how a stage has ended in another process; replay its events in this one if it is done."""
        how, reason = outcome
        if how == "done":
            folder = self.workspace.folder(stage.id)
            end = time.monotonic() + VISIBLE_AFTER
            while not folder.finished and time.monotonic() < end:
                time.sleep(0.5)
            replay(folder)
            return Ended(stage, "done")
        if how == "stopped":
            return Ended(stage, "stopped", Interrupted(reason))
        if how == "unfit":
            return Ended(stage, "failed", DoesNotFit(reason))
        return Ended(stage, "lost" if how == "lost" else "failed", SelfPretrainError(reason))

    def announce(self, stages: list[PlannedStage]) -> None:  # noqa: B027  # optional
        """Announce all stages that will be started, each after the one that it starts from."""

    @property
    @abc.abstractmethod
    def slots(self) -> int:
        """Return the number of stages that can run in parallel."""

    @abc.abstractmethod
    def start(self, stage: PlannedStage) -> None:
        """Start a stage; there is a free slot, and the stage that it starts from is done."""

    @abc.abstractmethod
    def poll(self, timeout: float) -> list[Ended]:
        """Return the stages that have ended since the last call; wait up to ``timeout`` seconds for one."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ask every running stage to save a checkpoint and end; they are still returned by ``poll``."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release all resources; stages that are still running are abandoned."""
