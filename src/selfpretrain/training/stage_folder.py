"""Run folders: what is written there is whole or not there at all, and nothing is ever unpickled."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import ForeignRun, StoreError
from ..system.events import Event
from ..system.files import (
    FORMAT,
    Json,
    damaged,
    explained,
    foreign,
    held,
    locked,
    read_json,
    replacing,
    sha256_of,
    sweep,
    write_json,
)


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
    def name(self) -> str:
        """What it is called."""
        return self.path.name

    @property
    def finished(self) -> bool:
        """Whether the stage has run to its end; the result is written last."""
        return (self.path / "result.json").exists()

    @property
    def held(self) -> bool:
        """Whether somebody works in it right now."""
        return held(self.path / ".lock")

    def write(self, name: str, content: Json) -> None:
        """A JSON file, whole or not at all."""
        write_json(self.path / name, content)

    def read(self, name: str) -> Json:
        """A JSON file of this folder.

        Raises:
            StoreError: if it is not there or damaged.
            ForeignRun: if another version of this package wrote it in another layout.
        """
        return read_json(self.path / name, mend=_mend(name))

    def remembered(self, name: str) -> Json:
        """A JSON file that can be worked out again at any time; empty if it is not there or damaged."""
        try:
            return self.read(name) if self.has(name) else {}
        except StoreError:
            return {}

    def save(self, name: str, tensors: Mapping[str, Tensor], meta: Json | None = None) -> str:
        """Tensors and a little JSON in one safetensors file, whole or not at all; the digest of both."""
        plain = {key: value.detach().contiguous() for key, value in tensors.items()}
        text = json.dumps(meta or {})
        digest = _digest(plain, text)
        metadata = {"format": str(FORMAT), "json": text, "sha256": digest}
        with explained(self.path), replacing(self.path / name) as temporary:
            temporary.write_bytes(safetensors.torch.save(plain, metadata))
        return digest

    def load(self, name: str, digest: str = "") -> tuple[dict[str, Tensor], Json]:
        """What ``save`` wrote.

        Args:
            digest: what ``save`` returned then, where that is known; files of before have none.

        Raises:
            StoreError: if it is damaged, or not what was saved; the message says what to delete.
        """
        path = self.path / name
        try:
            with explained(path, "read"), safetensors.safe_open(path, framework="pt") as file:
                meta = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            content = json.loads(meta.get("json", "{}"))
            if (known := meta.get("sha256")) and _digest(tensors, meta["json"]) != known:
                raise ValueError("its content is not what was written")
            if known and digest and known != digest:
                raise ValueError("it is of another training than the result beside it")
        except (safetensors.SafetensorError, ValueError, RecursionError) as error:
            raise StoreError(damaged(path, error, _mend(name))) from error
        if meta.get("format") != str(FORMAT):
            raise ForeignRun(foreign(path, meta.get("format")))
        return tensors, content

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.path / name).exists()

    def drop(self, name: str) -> None:
        """Delete a file that is no longer needed."""
        (self.path / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Wait until no other process works in this folder, then hold it, and sweep up after killed ones."""
        with locked(self.path / ".lock", stop):
            with explained(self.path):
                sweep(self.path)
            yield


class Log:
    """A JSON-lines file that can be cut back to where a checkpoint was taken."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self._stage = path.absolute().parent.name
        with explained(path):
            self._file = path.open("a+b")
            if self.size < size:
                raise StoreError(damaged(path, "it is shorter than its checkpoint says", _mend(CHECKPOINT)))
            self._file.truncate(size)

    def write(self, line: Json) -> None:
        """Append one line."""
        with explained(Path(self._file.name)):
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()

    def hear(self, event: Event) -> None:
        """Append what the stage of this folder measured."""
        if event.kind in ("train", "val") and event.name == self._stage:
            self.write({"kind": event.kind} | dict(event.numbers))

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 of names, types, shapes and bytes of some tensors, and of the JSON beside them."""
    return sha256_of(
        text,
        {
            f"{name} {tensor.dtype} {tuple(tensor.shape)}": _bytes(tensor)
            for name, tensor in sorted(tensors.items())
        },
    )


def _bytes(tensor: Tensor) -> NDArray[np.uint8]:
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


@contextlib.contextmanager
def broken(folder: Folder, name: str) -> Iterator[None]:
    """What goes wrong with the content of a file becomes one line that names it.

    Raises:
        StoreError: if something in it is missing, or not what it should be.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise StoreError(damaged(folder.path / name, error, _mend(name))) from error


def _mend(name: str) -> str:
    """What to do about a damaged file that a stage has written: all of them can be made again."""
    with_the_result = name in ("recipe.json", "environment.json", LOG, PREDICTIONS, SOURCES)
    return f"delete this one file, {'result.json beside it' if with_the_result else name}, and run again"


WEIGHTS, LOG, CHECKPOINT = "weights.safetensors", "log.jsonl", "checkpoint.safetensors"
PREDICTIONS, SOURCES = "predictions.safetensors", "sources.json"
