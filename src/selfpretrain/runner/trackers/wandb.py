"""Learning curves and final scores for Weights & Biases; offline unless WANDB_MODE is set."""

import os
from typing import Any

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


tracker = WandB
