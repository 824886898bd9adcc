"""Curves and final scores in ``tensorboard`` of the folder of runs, a run per stage, for TensorBoard."""

import importlib
from typing import Any

from ...errors import SpecError
from ...system.events import Event
from ..workspace import Workspace
from .base import Tracker, scalars


class TensorBoard(Tracker):
    """Writes files of events, called by stage.

    Raises:
        SpecError: if TensorBoard is not installed.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        try:
            self._writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        except ImportError as error:
            need = 'pip install "selfpretrain[tensorboard]"'
            raise SpecError(f"tracker tensorboard needs TensorBoard: {need}") from error
        self._open: dict[str, Any] = {}
        self._step: dict[str, int] = {}

    def hear(self, event: Event) -> None:
        """Write down every number, at its step; the scores of the end at the last one."""
        if event.kind not in ("train", "val", "end") or event.numbers.get("reused"):
            return
        if event.name not in self._open:
            self._open[event.name] = self._writer(str(self.workspace.runs / "tensorboard" / event.name))
        step = int(event.numbers.get("step", self._step.get(event.name, 0)))
        self._step[event.name] = step
        for name, value in scalars(event).items():
            self._open[event.name].add_scalar(name, value, step)
        if event.kind == "end":
            self._open.pop(event.name).close()

    def close(self) -> None:
        """Let go of stages that have not ended."""
        for writer in self._open.values():
            writer.close()


tracker = TensorBoard
