"""Learning curves and final scores for TensorBoard, in ``tensorboard`` of the runs folder."""

from typing import Any

from .base import RunTracker


class TensorBoard(RunTracker):
    """One run with event files per stage."""

    library = "torch.utils.tensorboard"

    def begin(self, stage: str) -> Any:
        """Open a writer for a stage."""
        return self._library.SummaryWriter(str(self.workspace.runs / "tensorboard" / stage))

    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Write every number as a scalar."""
        for name, value in numbers.items():
            run.add_scalar(name, value, step)

    def end(self, run: Any, finished: bool) -> None:
        """Close the writer."""
        run.close()


tracker = TensorBoard
