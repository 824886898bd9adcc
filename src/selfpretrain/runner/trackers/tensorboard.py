"""Curves and final scores in ``tensorboard`` of the folder of runs, a run per stage, for TensorBoard."""

from typing import Any

from .base import RunTracker


class TensorBoard(RunTracker):
    """Writes files of events, called by stage."""

    library = "torch.utils.tensorboard"

    def begin(self, stage: str) -> Any:
        """A writer of its own."""
        return self._library.SummaryWriter(str(self.workspace.runs / "tensorboard" / stage))

    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Write down every number."""
        for name, value in numbers.items():
            run.add_scalar(name, value, step)

    def end(self, run: Any, finished: bool) -> None:
        """Close its file."""
        run.close()


tracker = TensorBoard
