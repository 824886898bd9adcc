"""Find the raw files of a task, or raise an error that says how to obtain them."""

from pathlib import Path

from ...data import paths
from ...errors import DataError
from ...registry import name_of
from ..base import Task


def require_files(task: Task, *places: str) -> Path:
    """Return the first of several files or folders, named relative to the data folders, that exists.

    Raises:
        DataError: if none exists; the message says what to place where, or which command downloads it.
    """
    path = paths.find(*places)
    if path is None:
        name = name_of(task)
        folder = paths.folders()[0]
        release = " --release" if vars(task).get("source") == "lra" else ""
        advice = [f"run `spt data get {name}{release}`"] * bool(task.downloads) + [f"place it in {folder}"]
        raise DataError(f"task {name} needs {places[0]}: {', or '.join(advice)}")
    return path
