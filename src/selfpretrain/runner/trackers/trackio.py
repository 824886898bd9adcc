"""Learning curves and final scores for Trackio, in TRACKIO_DIR or ``trackio`` of the runs folder."""

import contextlib
import io
import os
from typing import Any

from ..workspace import Workspace
from .base import RunTracker


class Trackio(RunTracker):
    """One run per stage, in a project named after the runs folder."""

    library = "trackio"

    def __init__(self, workspace: Workspace) -> None:
        here = workspace.runs.absolute()
        os.environ.setdefault("TRACKIO_DIR", str(here / "trackio"))  # read when Trackio is imported
        super().__init__(workspace)
        self._project = here.name

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


tracker = Trackio
