"""Learning curves and final scores for Weights & Biases, or for Trackio, which has the same interface.

Weights & Biases is offline unless WANDB_MODE is set; its runs are in ``wandb`` of the runs folder. Those of
Trackio are in TRACKIO_DIR, or in ``trackio`` of the runs folder.
"""

import contextlib
import io
import os
from typing import Any

from ..workspace import Workspace
from .base import RunTracker


class WandB(RunTracker):
    """One run per stage, with the fingerprint as its id, in a project named after the runs folder."""

    library = "wandb"

    def begin(self, stage: str) -> Any:
        """Open the run of a stage, or resume it."""
        runs = self.workspace.runs.absolute()
        return self._library.init(
            project=runs.name,
            dir=str(runs),
            id=stage.rpartition("-")[2],
            name=stage,
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            reinit="create_new",
            settings=self._library.Settings(silent=True, console="off", x_disable_stats=True),
        )

    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Log every number, and the step."""
        run.log(numbers | {"step": step})

    def sum_up(self, run: Any, scores: dict[str, float], step: int) -> None:
        """Write the final scores to the summary."""
        run.summary.update(scores)

    def end(self, run: Any, finished: bool) -> None:
        """Finish the run, with exit code 1 if the stage has not ended."""
        run.finish(exit_code=0 if finished else 1)


class Trackio(RunTracker):
    """One run per stage, in a project named after the runs folder."""

    library = "trackio"

    def __init__(self, workspace: Workspace) -> None:
        runs = workspace.runs.absolute()
        os.environ.setdefault("TRACKIO_DIR", str(runs / "trackio"))  # read when Trackio is imported
        super().__init__(workspace)
        self._project = runs.name

    def begin(self, stage: str) -> Any:
        """Open the run of a stage, or resume it."""
        with contextlib.redirect_stdout(io.StringIO()):  # init prints instructions every time
            return self._library.init(
                self._project, name=stage, resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False
            )

    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Log every number."""
        run.log(numbers, step=step)

    def end(self, run: Any, finished: bool) -> None:
        """Finish the run, and wait until everything is written."""
        with contextlib.redirect_stdout(io.StringIO()):
            run.finish()


trackio = Trackio
tracker = WandB
