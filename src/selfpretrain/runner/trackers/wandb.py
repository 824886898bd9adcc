"""Curves and final scores in Weights & Biases, or offline in ``wandb`` of the folder of runs."""

import os
from typing import Any

from .base import RunTracker


class WandB(RunTracker):
    """A run per stage, whose id is its fingerprint; offline unless WANDB_MODE says otherwise."""

    library = "wandb"

    def begin(self, stage: str) -> Any:
        """A run, or the one of before."""
        here = self.workspace.runs.absolute()
        return self._library.init(
            project=here.name,
            dir=str(here),
            id=stage.rpartition("-")[2],
            name=stage,
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            reinit="create_new",
            settings=self._library.Settings(silent=True, console="off", x_disable_stats=True),
        )

    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Log every number, and the step as one."""
        run.log(numbers | {"step": step})

    def sum_up(self, run: Any, scores: dict[str, float], step: int) -> None:
        """Put the scores of the end into the summary."""
        run.summary.update(scores)

    def end(self, run: Any, finished: bool) -> None:
        """Say whether it has come to its end."""
        run.finish(exit_code=0 if finished else 1)


tracker = WandB
