"""Curves and final scores in Trackio: in TRACKIO_DIR, or in ``trackio`` of the directory of runs."""

import contextlib
import io
import os
from typing import Any

from ..workspace import Workspace
from .base import RunTracker


class Trackio(RunTracker):
    """A run per stage, called like it, in a project called like the directory of runs."""

    library = "trackio"

    def __init__(self, workspace: Workspace) -> None:
        here = workspace.runs.absolute()
        os.environ.setdefault("TRACKIO_DIR", str(here / "trackio"))  # read when Trackio is imported
        super().__init__(workspace)
        self._project = here.name

    def begin(self, stage: str) -> Any:
        """A run, or the one of before."""
        with contextlib.redirect_stdout(io.StringIO()):  # how to look at it is printed every time
            return self._library.init(
                self._project, name=stage, resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False
            )

    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Log every number."""
        run.log(numbers, step=step)

    def end(self, run: Any, finished: bool) -> None:
        """Wait until all is written."""
        with contextlib.redirect_stdout(io.StringIO()):
            run.finish()


tracker = Trackio
