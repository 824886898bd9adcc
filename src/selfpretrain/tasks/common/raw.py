"""Find the raw files of a task, or raise an error that says how to obtain them; those of Long Range Arena."""

from pathlib import Path

from ...data import paths
from ...data.download import Download
from ...errors import DataError
from ...registry import name_of
from ..base import Task

LRA_RELEASE = Download("https://storage.googleapis.com/long-range-arena/lra_release.gz", into="lra_release")
"""Long Range Arena's release: about 8 GB, 19 GB unpacked; its makers publish no checksum."""


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


def lra_paths(name: str) -> tuple[str, ...]:
    """Return the possible paths of a file of Long Range Arena, e.g. of "listops-1000/basic_train.tsv".

    The archive holds a folder within a folder of the same name, so the path depends on how it was unpacked.
    """
    return f"lra_release/lra_release/{name}", f"lra_release/{name}", name
