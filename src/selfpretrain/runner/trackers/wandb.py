"""Curves and final scores in Weights & Biases, or offline in ``wandb`` of the folder of runs."""

import importlib
import os
from typing import Any

from ...errors import SpecError
from ...system.events import Event
from ..workspace import Workspace
from .base import Tracker, scalars


class WandB(Tracker):
    """A run per stage, whose id is its fingerprint; offline unless WANDB_MODE says otherwise.

    Raises:
        SpecError: if it is not installed.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        try:
            self._wandb: Any = importlib.import_module("wandb")
        except ImportError as error:
            raise SpecError('tracker wandb needs wandb: pip install "selfpretrain[wandb]"') from error
        self._runs: dict[str, Any] = {}
        self._step: dict[str, int] = {}

    def hear(self, event: Event) -> None:
        """Log every number, at its step; the scores of the end in the summary."""
        if event.kind not in ("train", "val", "end") or event.numbers.get("reused"):
            return
        run = self._runs.get(event.name) or self._begin(event.name)
        step = int(event.numbers.get("step", self._step.get(event.name, 0)))
        self._step[event.name] = step
        if event.kind == "end":
            run.summary.update(scalars(event))
            self._runs.pop(event.name).finish()
        else:
            run.log(scalars(event) | {"step": step})

    def _begin(self, stage: str) -> Any:
        here = self.workspace.runs.absolute()
        self._runs[stage] = self._wandb.init(
            project=here.name,
            dir=str(here),
            id=stage.rpartition("-")[2],
            name=stage,
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            reinit="create_new",
            settings=self._wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        return self._runs[stage]

    def close(self) -> None:
        """Say of stages that have not ended that they have not."""
        for run in self._runs.values():
            run.finish(exit_code=1)


tracker = WandB
