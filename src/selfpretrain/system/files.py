"""Files that are whole or not there at all, and what the operating system says of them in one line."""

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import ForeignRun, StoreError

FORMAT = 1
"""Version of the layout of run folders."""

Json = dict[str, Any]


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all.

    Raises:
        StoreError: if it cannot be written; what was there before is still there.
    """
    with explained(path), _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """A file, whole or not at all.

    Raises:
        StoreError: if it cannot be written; what was there before is still there.
    """
    with explained(path), _replacing(path) as temporary:
        temporary.write_bytes(content)


def read_json(path: Path, formats: tuple[int, ...] = (FORMAT,)) -> Json:
    """A JSON object written in one of these formats.

    Raises:
        StoreError: if it is not there or damaged.
        ForeignRun: if it was written in another layout.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"{path} is not there") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is damaged ({error}); delete {path.parent} and run again") from error
    if not isinstance(content, dict):
        raise StoreError(f"{path} is damaged (not a JSON object); delete {path.parent} and run again")
    if content.get("format", FORMAT) not in formats:
        raise ForeignRun(_foreign(path, content["format"], formats))
    return content


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the operating system says of a path into one clear line.

    Raises:
        StoreError: for a full disk, a missing right, a file in the way of a folder and the like.
    """
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "the disk is full; free some space and run the same command again",
            errno.EDQUOT: "your disk quota is used up; free some space and run the same command again",
            errno.EACCES: "no right to write there; choose another folder with --runs",
            errno.EROFS: "it cannot be written to; choose another folder with --runs",
            errno.EEXIST: "a file is in the way; choose another folder with --runs",
            errno.ENOTDIR: "a file is in the way; choose another folder with --runs",
        }.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(f"cannot write {path}: {advice}; nothing finished is lost") from error


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _foreign(path: Path, found: Any, formats: tuple[int, ...] = (FORMAT,)) -> str:
    known = " and ".join(map(str, formats))
    return (
        f"{path} was written in format {found}, this is selfpretrain {__version__} with format {known}; "
        f"use another folder with --runs"
    )
