"""Run folders: what is written there is whole or not there at all, and nothing is ever unpickled."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import ForeignRun, LeaseLost, StoreError
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
    sealed,
    sha256_of,
    sweep,
    write_bytes,
)
from ..system.lease import SECONDS, Lease, leased
from ..system.mirror import bucket_of, pull, push
from ..system.store import FolderStore, Store


@dataclass(frozen=True)
class Folder:
    """The folder of one stage."""

    path: Path
    lease: Lease | None = None  # of this process; what it has lost it does not write to

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
    def store(self) -> Store:
        """Where its leases are."""
        return bucket_of(self.path) or FolderStore(self.path)

    @property
    def finished(self) -> bool:
        """Whether the stage has run to its end; the result is written last."""
        return self.fetch(RESULT)

    @property
    def held(self) -> bool:
        """Whether somebody works in it right now."""
        return held(self.path / ".lock")

    def write(self, name: str, content: Json) -> None:
        """A JSON file, whole or not at all."""
        plain, bucket = sealed(content), bucket_of(self.path)
        self.check()
        if name == RESULT and bucket:
            self._upload(LOG)
            if not bucket.replace(name, plain):
                raise LeaseLost(f"{self.name}: somebody else has finished it; nothing is written")
        write_bytes(self.path / name, plain, self.check)
        if name != RESULT:
            self._upload(name)

    def read(self, name: str) -> Json:
        """A JSON file of this folder.

        Raises:
            StoreError: if it is not there or damaged.
            ForeignRun: if another version of this package wrote it in another layout.
        """
        self.fetch(name)
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
        self.check()
        write_bytes(self.path / name, safetensors.torch.save(plain, metadata), self.check)
        if name == CHECKPOINT:
            self._upload(LOG)
        self._upload(name)
        return digest

    def load(self, name: str, digest: str = "", mend: str = "") -> tuple[dict[str, Tensor], Json]:
        """Return what ``save`` wrote.

        Args:
            digest: what ``save`` returned then, where that is known; files of before have none.
            mend: what to do if it is damaged; "": as for files of a stage.

        Raises:
            StoreError: if it is damaged, or not what was saved; the message says what to delete.
        """
        path = self.path / name
        self.fetch(name)
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
            raise StoreError(damaged(path, error, mend or _mend(name))) from error
        if meta.get("format") != str(FORMAT):
            raise ForeignRun(foreign(path, meta.get("format")))
        return tensors, content

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        bucket = bucket_of(self.path)
        return (self.path / name).exists() or (bucket is not None and bucket.holds(name))

    def stands(self, name: str) -> bool:
        """Whether a file is there still, whatever is remembered of it here."""
        bucket = bucket_of(self.path)
        return bucket.holds(name) if bucket else (self.path / name).exists()

    def drop(self, name: str) -> None:
        """Delete a file that is no longer needed."""
        if bucket := bucket_of(self.path):
            bucket.delete(name)
        (self.path / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete all of it."""
        if bucket := bucket_of(self.path):
            for entry in bucket.entries():
                bucket.delete(entry.name)
        with explained(self.path):
            shutil.rmtree(self.path)

    def fetch(self, *names: str) -> bool:
        """Get files from the bucket that keeps them, where one does; whether all are here."""
        bucket, missing = bucket_of(self.path), [name for name in names if not (self.path / name).exists()]
        return all(bucket is not None and bucket.download(name, self.path / name) for name in missing)

    def fetch_all(self) -> None:
        """Get everything that the bucket keeps of it."""
        if bucket := bucket_of(self.path):
            pull(bucket, self.path, bucket.entries())

    def share(self) -> None:
        """Put all of it into the bucket that keeps it, where one does."""
        if bucket := bucket_of(self.path):
            push(self.path, bucket)

    def _upload(self, name: str) -> None:
        bucket = bucket_of(self.path)
        if bucket and (self.path / name).exists():
            bucket.upload(name, self.path / name)

    def _take_over(self) -> None:
        """What the last owner has left in the bucket counts, not what is here."""
        if bucket_of(self.path):
            for name in (CHECKPOINT, LOG):
                (self.path / name).unlink(missing_ok=True)
                self.fetch(name)

    @contextlib.contextmanager
    def locked(self, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Wait until no other process works in this folder, then hold it, and sweep up after killed ones."""
        with locked(self.path / ".lock", stop):
            with explained(self.path):
                sweep(self.path)
            yield

    @contextlib.contextmanager
    def leased(self, stop: Callable[[], bool], seconds: float = SECONDS) -> Iterator["Folder"]:
        """Wait until nobody on any machine works in this folder, and own it; see ``system.lease``."""
        with leased(self.store, stop, seconds) as lease:
            self._take_over()
            yield replace(self, lease=lease)

    def check(self, surely: bool = False) -> None:
        """Go on only if this process still owns the folder.

        Args:
            surely: make sure of it for a while, before something that takes long, or counts.

        Raises:
            LeaseLost: if somebody has taken over.
        """
        if self.lease:
            (self.lease.confirm if surely else self.lease.check)()


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
PREDICTIONS, RESULT, SOURCES = "predictions.safetensors", "result.json", "sources.json"
