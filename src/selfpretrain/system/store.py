"""Small files that machines share: made once, renewed, and dated by the clock of whoever keeps them."""

import abc
import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .files import explained


@dataclass(frozen=True)
class Stored:
    """A file as it was read."""

    content: bytes
    changed: float  # by the clock of whoever keeps it


class Listed(NamedTuple):
    """A file as it is listed."""

    name: str
    size: int
    changed: float  # by the clock of whoever keeps it


class Store(abc.ABC):
    """Where they are kept; a folder here, a bucket in ``system.bucket``."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is called."""

    @abc.abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Make a file; whether it was not there yet, which of many that try at once is true for one."""

    @abc.abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Replace the content of a file."""

    @abc.abstractmethod
    def renew(self, name: str, content: bytes) -> None:
        """Date a file of this content anew."""

    @abc.abstractmethod
    def read(self, name: str) -> Stored | None:
        """What is in a file; None if it is not there."""

    @abc.abstractmethod
    def names(self, start: str) -> list[str]:
        """The files whose names start so."""

    @abc.abstractmethod
    def entries(self) -> list[Listed]:
        """Every file below it, by its path from there."""

    @abc.abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abc.abstractmethod
    def clock(self) -> float:
        """Seconds, by the clock of whoever keeps the files."""


@dataclass(frozen=True)
class FolderStore(Store):
    """A folder, which may be on a network disk."""

    path: Path

    @property
    def name(self) -> str:
        """What it is called."""
        return self.path.name

    def create(self, name: str, content: bytes) -> bool:
        """Make a file, which of many that try at once succeeds for one, on NFS too."""
        with explained(self.path):
            try:
                with (self.path / name).open("xb") as file:
                    file.write(content)
            except FileExistsError:
                return False
        return True

    def write(self, name: str, content: bytes) -> None:
        """Replace the content of a file."""
        (self.path / name).write_bytes(content)

    def renew(self, name: str, content: bytes) -> None:
        """Date a file anew; without a time, it is that of the server."""
        os.utime(self.path / name)

    def read(self, name: str) -> Stored | None:
        """What is in a file, and its time: opening it asks the server anew."""
        with contextlib.suppress(FileNotFoundError), (self.path / name).open("rb") as file:
            return Stored(file.read(), os.fstat(file.fileno()).st_mtime)
        return None

    def names(self, start: str) -> list[str]:
        """The files whose names start so."""
        return [path.name for path in self.path.glob(f"{start}*")]

    def entries(self) -> list[Listed]:
        """Every file below it, by its path from there."""
        found = []
        for folder, _, names in os.walk(self.path):
            for name in names:
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):  # it was passing
                    seen = path.stat()
                    found.append(Listed(path.relative_to(self.path).as_posix(), seen.st_size, seen.st_mtime))
        return found

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def clock(self) -> float:
        """The time of a file that is made now."""
        with tempfile.NamedTemporaryFile(dir=self.path, prefix=".clock-", suffix=".tmp") as probe:
            return os.fstat(probe.fileno()).st_mtime
