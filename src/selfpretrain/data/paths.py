"""Where data live: the folders named in SPT_DATA, of which the first is written to.

Raw files (downloads, releases, whatever lies there already) are found in any of the folders, or in a
subfolder ``raw`` of it; what is prepared from them, and what users import, is written to the first.
"""

import os
from pathlib import Path

from ..errors import DataError

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
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be made ({error.strerror}); set {VARIABLE} to a folder of yours"
        ) from error
    return folder


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
