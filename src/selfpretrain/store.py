"""Run folders: what is written there is whole or not there at all, and nothing is ever unpickled."""

import contextlib
import errno
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import numpy
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from . import __version__
from .errors import ForeignRun, StoreError

FORMAT = 1
"""Version of the layout of run folders."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Folder:
    """The folder of one stage."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "Folder":
        """The folder, made if it is not there.

        Raises:
            StoreError: if it cannot be.
        """
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @property
    def finished(self) -> bool:
        """Whether the stage has run to its end; the result is written last."""
        return (self.path / "result.json").exists()

    def write(self, name: str, content: Json) -> None:
        """A JSON file, whole or not at all."""
        write_text(self.path / name, json.dumps(content, indent=1) + "\n")

    def read(self, name: str) -> Json:
        """A JSON file of this folder.

        Raises:
            StoreError: if it is not there or damaged.
            ForeignRun: if another version of this package wrote it in another layout.
        """
        return read_json(self.path / name)

    def save(self, name: str, tensors: Mapping[str, Tensor], meta: Json | None = None) -> None:
        """Tensors and a little JSON in one safetensors file, whole or not at all."""
        plain = {key: value.detach().contiguous() for key, value in tensors.items()}
        metadata = {"format": str(FORMAT), "json": json.dumps(meta or {})}
        with explained(self.path), _replacing(self.path / name) as temporary:
            temporary.write_bytes(safetensors.torch.save(plain, metadata))

    def load(self, name: str) -> tuple[dict[str, Tensor], Json]:
        """What ``save`` wrote.

        Raises:
            StoreError: if it is damaged; the message says what to delete.
        """
        path = self.path / name
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                meta = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (OSError, safetensors.SafetensorError) as error:
            raise StoreError(f"{path} is damaged ({error}); delete {self.path} and run again") from error
        if meta.get("format") != str(FORMAT):
            raise ForeignRun(_foreign(path, meta.get("format")))
        return tensors, json.loads(meta["json"])

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.path / name).exists()

    def drop(self, name: str) -> None:
        """Delete a file that is no longer needed."""
        (self.path / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process works in this folder, then hold it; a killed holder lets go."""
        with explained(self.path), filelock.FileLock(self.path / ".lock"):
            yield


class Log:
    """A JSON-lines file that can be cut back to where a checkpoint was taken."""

    def __init__(self, path: Path, size: int = 0) -> None:
        with explained(path):
            self._file = path.open("a+b")
            self._file.truncate(size)

    def write(self, line: Json) -> None:
        """Append one line."""
        with explained(Path(self._file.name)):
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all.

    Raises:
        StoreError: if it cannot be written; what was there before is still there.
    """
    with explained(path), _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Json:
    """A JSON file written by this version's layout.

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
    if not isinstance(content, dict) or content.get("format", FORMAT) != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise ForeignRun(_foreign(path, found))
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


def environment(device: str) -> Json:
    """Where and with what a stage runs."""
    return {
        "format": FORMAT,
        "selfpretrain": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "threads": torch.get_num_threads(),
        "git": _git(),
    }


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


def _foreign(path: Path, found: Any) -> str:
    return (
        f"{path} was written in format {found}, this is selfpretrain {__version__} with format {FORMAT}; "
        f"use another folder with --runs"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if sys.platform == "linux" and info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git() -> Json | None:
    here = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        )
        status = subprocess.run(
            ["git", "status", "--porcelain"], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit.stdout.strip(), "dirty": bool(status.stdout.strip())}
