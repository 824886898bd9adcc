"""Data folders: those named in SELFPRETRAIN_DATA, the first of which is written to.

Raw files (downloads, releases) are found in any of the folders or in its subfolder ``raw``. Prepared and
imported datasets are written to the first folder.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ..errors import DataError
from ..system import files

IMPORTED = "own"  # subfolder of a data folder that holds imported datasets
IMPORTED_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
OLD = ".old"  # suffix of a dataset that is being replaced; it remains if the replacement is interrupted
VARIABLE = "SELFPRETRAIN_DATA"  # environment variable: one folder, or several separated as in PATH


def folders() -> list[Path]:
    """Return the data folders, existing or not; by default ``~/.local/share/selfpretrain``."""
    named = [Path(part).expanduser() for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    default = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "selfpretrain"
    return [folder.absolute() for folder in named] or [default]


def writable_path(*parts: str) -> Path:
    """Return a path in the data folder that is written to, and create its parent.

    Raises:
        DataError: if the folder cannot be written.
    """
    path = folders()[0].joinpath(*parts)
    with explain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def explain_errors(path: Path, action: str = "write") -> AbstractContextManager[None]:
    """Convert an OSError on a data file or folder into a one-line ``DataError``."""
    return files.explain_errors(path, action, f"set {VARIABLE} to a folder of yours", "", DataError)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with explain_errors(path), files.replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def hold_lock(path: Path, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Lock a file or folder against other processes that would also create it; say so while waiting.

    Args:
        stop: checked while waiting; ``lambda: True`` does not wait at all.

    Raises:
        DataError: if the folder of the lock cannot be written.
        Taken: if asked to stop before the lock was free.
    """
    with explain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with files.hold_lock(path.with_name(f".{path.name}.lock"), stop, explain_errors):
        yield


def find(*places: str) -> Path | None:
    """Return the first path that exists in a data folder, e.g. ``find("imdb/train.parquet", "aclImdb")``.

    A folder with hidden files alone does not count: a download that failed has left it.
    """
    for place in places:
        for folder in folders():
            for path in (folder / place, folder / "raw" / place):
                if path.exists() and not (path.is_dir() and _is_empty(path)):
                    return path
    return None


def _is_empty(folder: Path) -> bool:
    """Return whether a folder has hidden files at most; one that cannot be listed may have others."""
    try:
        with os.scandir(folder) as entries:
            return all(entry.name.startswith(".") for entry in entries)
    except OSError:
        return False


def imported_datasets() -> dict[str, Path]:
    """Return the folders of imported datasets in all data folders, by name."""
    found: dict[str, Path] = {}
    for folder in folders():
        meta_files = (folder / IMPORTED).glob("*/meta.json")
        for meta in sorted(meta_files, key=lambda meta: OLD in meta.parent.name):
            name = meta.parent.name.removesuffix(OLD)
            if IMPORTED_NAME.fullmatch(name):
                found.setdefault(name, meta.parent)
    return found
