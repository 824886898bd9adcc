"""Curves and final scores in Trackio: in TRACKIO_DIR, or in ``trackio`` of the folder of runs."""

import contextlib
import io
import os
from typing import Any

from ..workspace import Workspace
from .base import RunTracker


class Trackio(RunTracker):
    """A run per stage, called like it, in a project called like the folder of runs."""

    library = "trackio"

    def __init__(self, workspace: Workspace) -> None:
        here = workspace.runs.absolute()
        os.environ.setdefault("TRACKIO_DIR", str(here / "trackio"))  # it is read when Trackio is imported
        super().__init__(workspace)
        self._project = here.name

    def begin(self, stage: str) -> Any:
        """A run, in place of what was told before."""
        with contextlib.suppress(ValueError):  # there is no such project yet
            for old in self._library.Api().runs(self._project):
                if old.name == stage:
                    old.delete()
        with contextlib.redirect_stdout(io.StringIO()):  # how to look at it is told again and again
            return self._library.init(
                self._project, name=stage, embed=False, auto_log_gpu=False, auto_log_cpu=False
            )

    def log(self, run: Any, numbers: dict[str, float], step: int) -> None:
        """Log every number."""
        run.log(numbers, step=step)

    def end(self, run: Any, finished: bool) -> None:
        """Wait until all is written."""
        with contextlib.redirect_stdout(io.StringIO()):
            run.finish()

    def close(self) -> None:
        """Leave nothing that Trackio would finish, aloud, at the end of the process."""
        super().close()
        with contextlib.suppress(RuntimeError), contextlib.redirect_stdout(io.StringIO()):
            self._library.finish()


tracker = Trackio
