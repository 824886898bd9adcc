"""Stages one after another, in this process."""

from typing import ClassVar

from ...errors import Interrupted, SelfPretrainError
from ..plan import PlannedStage
from ..stage import run_stage
from .base import Ended, Executor


class Serial(Executor):
    """Runs each stage inside ``poll``, so only one at a time."""

    settings: ClassVar = ()
    slots = 1
    _next: PlannedStage | None = None

    def start(self, stage: PlannedStage) -> None:
        """Remember the stage for the next call of ``poll``."""
        self._next = stage

    def poll(self, timeout: float) -> list[Ended]:
        """Run the stage to its end; the timeout is ignored."""
        stage = self._next
        self._next = None
        if stage is None:
            return []
        try:
            run_stage(stage, self.workspace)
        except Interrupted as error:
            return [Ended(stage, "stopped", error)]
        except SelfPretrainError as error:
            return [Ended(stage, "failed", error)]
        return [Ended(stage, "done")]

    def stop(self) -> None:
        """Do nothing: stages check the stop condition of the workspace themselves."""

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


executor = Serial
