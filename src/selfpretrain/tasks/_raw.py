"""Raw files of a task, or one line on how to come by them."""

from pathlib import Path

from ..data import root
from ..errors import DataError
from ..shelf import name_of
from .base import Task


def need(task: Task, *places: str) -> Path:
    """The first of several files or folders, by their names in the data folders, that exists.

    Raises:
        DataError: if none does; the message says what to place where, or which command brings it.
    """
    found = root.find(*places)
    if found is None:
        name, folder = name_of(task), root.folders()[0]
        release = " --release" if vars(task).get("source") == "lra" else ""
        ways = [f"run `spt data get {name}{release}`"] * bool(task.downloads) + [f"place it in {folder}"]
        raise DataError(f"task {name} needs {places[0]}: {', or '.join(ways)}")
    return found
