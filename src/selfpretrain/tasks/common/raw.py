"""Find the raw files of a task, or raise an error that says how to obtain them."""

from pathlib import Path

from ...data import paths
from ...errors import DataError
from ...registry import name_of
from ..base import Task


def need(task: Task, *places: str) -> Path:
    """Return the first of several files or folders, named relative to the data folders, that exists.

    Raises:
        DataError: if none exists; the message says what to place where, or which command downloads it.
    """
    found = paths.find(*places)
    if found is None:
        name, folder = name_of(task), paths.folders()[0]
        release = " --release" if vars(task).get("source") == "lra" else ""
        ways = [f"run `spt data get {name}{release}`"] * bool(task.downloads) + [f"place it in {folder}"]
        raise DataError(f"task {name} needs {places[0]}: {', or '.join(ways)}")
    return found
