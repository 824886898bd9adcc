"""Where data live: the folders named in SPT_DATA, of which the first is written to.

Raw files (downloads, releases, whatever lies there already) are found in any of the folders, or in a
subfolder ``raw`` of it; what is prepared from them, and what users import, is written to the first.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from ..errors import DataError
from ..system import files

VARIABLE = "SPT_DATA"
"""The environment variable: one folder, or several, separated as in PATH."""


def folders() -> list[Path]:
    """The data folders, whether they exist or not."""
    named = [Path(part).expanduser() for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return [folder.absolute() for folder in named] or [_default()]


def home(*parts: str) -> Path:
    """The folder that is written to, or one inside it; its parent is made if it must be.

    Raises:
        DataError: if it cannot be written.
    """
    folder = folders()[0].joinpath(*parts)
    with explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def explained(path: Path, doing: str = "write") -> AbstractContextManager[None]:
    """What the operating system says of a data file or folder, as a ``DataError`` of one clear line."""
    return files.explained(path, doing, f"set {VARIABLE} to a folder of yours", "", DataError)


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all.

    Raises:
        DataError: if it cannot be written.
    """
    with explained(path), files.replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Keep other processes from making the same file or folder at the same time; who does is told.

    Raises:
        DataError: if that cannot be, in a folder that cannot be written to.
    """
    with explained(place):
        place.parent.mkdir(parents=True, exist_ok=True)
    with files.locked(place.with_name(f".{place.name}.lock"), explain=explained):
        yield


def find(*places: str) -> Path | None:
    """The first of several files or folders that exists, e.g. ``find("imdb/train.parquet", "aclImdb")``."""
    for place in places:
        for folder in folders():
            for path in (folder / place, folder / "raw" / place):
                if path.exists():
                    return path
    return None


def _default() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "selfpretrain"
