"""The directory of one stage: attempts train next to it, and a finished one is renamed to its place.

An attempt works in ``stages/<name>.part-<host>-<pid>``. When all of its files are written and on disk, that
directory is renamed to ``stages/<name>``. A rename happens at once, so readers see all of a stage or nothing,
and of two attempts the second finds the first in place and discards its own: their files never mix.

An attempt that was killed is taken over by renaming it, too: of many that try, one succeeds, and goes on from
the checkpoint. On one machine a lock tells whether an attempt is alive. Of other machines, an attempt is dead
when nothing in its directory has changed for three checkpoint intervals; while alive, it touches it.
"""

import contextlib
import errno
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..errors import StoreError, Taken
from ..system.events import Event, progress
from ..system.files import (
    POLL,
    Json,
    damaged,
    explained,
    held,
    locked,
    read_json,
    settle,
    sweep,
    write_bytes,
    write_json,
)
from . import checkpoint

WEIGHTS, LOG, CHECKPOINT = "weights.safetensors", "log.jsonl", "checkpoint.safetensors"
PREDICTIONS, RESULT, SOURCES = "predictions.safetensors", "result.json", "sources.json"
ERROR = "error.txt"
"""Says why an attempt failed; the next one removes it."""
PART = ".part-"
"""Between the name of a stage and the host and process of an attempt at it."""
CHECKPOINT_SECONDS = 20.0
"""Seconds between two checkpoints, and between two signs of life of an attempt."""
DEAD = 3
"""Checkpoint intervals without a sign of life after which another machine takes an attempt over."""


@dataclass(frozen=True)
class RunDir:
    """A directory of runs: of a stage or of an attempt at one, of a study, or of the caches of all."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "RunDir":
        """Return the directory, and make it if it is not there.

        Raises:
            StoreError: if it cannot be made.
        """
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @property
    def name(self) -> str:
        """The name of the stage, of an attempt too."""
        return self.path.name.partition(PART)[0]

    @property
    def finished(self) -> bool:
        """Whether the stage has run to its end."""
        return self.has(RESULT)

    def has(self, name: str) -> bool:
        """Return whether a file is there."""
        return (self.path / name).exists()

    def write(self, name: str, content: Json) -> None:
        """Write a JSON file, whole or not at all."""
        write_json(self.path / name, content)

    def read(self, name: str) -> Json:
        """Read a JSON file.

        Raises:
            StoreError: if it is not there or damaged.
            ForeignRun: if another version of this package wrote it in another layout.
        """
        return read_json(self.path / name, mend=_advice(name))

    def remembered(self, name: str) -> Json:
        """Read a JSON file that can be worked out again at any time; empty if it is not there or damaged."""
        try:
            return self.read(name) if self.has(name) else {}
        except StoreError:
            return {}

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Json | None = None) -> str:
        """Write tensors and a state, whole or not at all, and return their digest."""
        return checkpoint.save(self.path / name, tensors, state)

    def load(self, name: str, digest: str = "", advice: str = "") -> tuple[dict[str, Tensor], Json]:
        """Read what ``save`` has written.

        Args:
            digest: what ``save`` returned, where that is known.
            advice: what to do if it is damaged; "": as for files of a stage.

        Raises:
            StoreError: if it is damaged, or its digest is another; the message says what to delete.
        """
        return checkpoint.load(self.path / name, digest, advice or _advice(name))

    def drop(self, name: str) -> None:
        """Delete a file that is no longer needed."""
        with explained(self.path / name):
            (self.path / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the directory and all that is in it."""
        with explained(self.path):
            shutil.rmtree(self.path)

    # ---- attempts

    @property
    def stage(self) -> "RunDir":
        """The directory that an attempt at this stage is renamed to."""
        return RunDir(self.path.with_name(self.name))

    @property
    def lock(self) -> Path:
        """The lock of this machine; not in the directory, which is renamed."""
        return self.path.parent.parent / "locks" / f"{self.name}.lock"

    @property
    def is_attempt(self) -> bool:
        """Whether this is the directory of an attempt rather than of a published stage."""
        return PART in self.path.name

    @property
    def attempts(self) -> list["RunDir"]:
        """Attempts at this stage that are not published, the newest first."""
        found = [RunDir(path) for path in self.path.parent.glob(f"{self.name}{PART}*")]
        return sorted(found, key=RunDir._changed, reverse=True)

    @property
    def begun(self) -> bool:
        """Whether the stage has finished, or an attempt at it has left a checkpoint."""
        return self.finished or any(attempt.has(CHECKPOINT) for attempt in self.attempts)

    @property
    def held(self) -> bool:
        """Whether a process of this machine, or of another one, works on this stage right now."""
        return held(self.lock) or bool(self._elsewhere(time.time()))

    @contextlib.contextmanager
    def alone(self, stop: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Keep other processes of this machine from this stage; do not wait for one unless told to.

        Raises:
            Taken: if asked to stop while another process works on the stage.
        """
        RunDir.make(self.lock.parent)
        with locked(self.lock, stop):
            yield

    @contextlib.contextmanager
    def attempt(
        self, done: Callable[[], bool], stop: Callable[[], bool] = lambda: False
    ) -> Iterator["RunDir | None"]:
        """Own an attempt at this stage, new or taken over; None if the stage is done, now or after waiting.

        Raises:
            Taken: if asked to stop while another process works on the stage.
        """
        if done():
            yield None
            return
        RunDir.make(self.path.parent)
        with self.alone(stop):
            own = self._claim(done, stop)
            if own is None:
                yield None
            else:
                with _signs_of_life(own.path):
                    yield own

    def publish(self) -> None:
        """Rename this attempt to the place of its stage; if another one is there, discard this one.

        Raises:
            StoreError: if it cannot be renamed, e.g. as another machine has taken it over.
        """
        target = self.stage
        with explained(target.path):
            sweep(self.path)
            settle(self.path)
            if target.path.exists() and not target.finished:  # its result was deleted, so that it runs again
                target.path.rename(self.path.with_name(f"{self.path.name}.old"))
            try:
                self.path.rename(target.path)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                shutil.rmtree(self.path)
            settle(target.path.parent)
            for left in target.attempts:
                if left not in target._elsewhere(target._clock()):
                    shutil.rmtree(left.path, ignore_errors=True)

    def _claim(self, done: Callable[[], bool], stop: Callable[[], bool]) -> "RunDir | None":
        """Make an attempt or take one over; the caller holds the lock of this machine."""
        own = RunDir(self.path.with_name(f"{self.name}{PART}{socket.gethostname()}-{os.getpid()}"))
        told = False
        while not done():
            if others := self._elsewhere(self._clock()):
                if stop():
                    raise Taken(f"stopped while {others[0].path.name} is at work on another machine")
                if not told:
                    progress(f"waiting for {others[0].path.name}, which is at work on another machine", 0)
                    told = True
                time.sleep(POLL)
                continue
            left = [self] * self.path.exists() + self.attempts
            newest = max(left, key=lambda each: (each.finished, each._changed()), default=None)
            with explained(own.path), contextlib.suppress(FileNotFoundError):  # another machine was faster
                if newest is None:
                    own.path.mkdir()
                elif newest != own:
                    if own.path.exists():  # of a process that had this number before
                        shutil.rmtree(own.path)
                    newest.path.rename(own.path)
                own._prepare()
                return own
        return None

    def _prepare(self) -> None:
        """Make a directory that was taken over fit to go on with."""
        os.utime(self.path)
        if not (self.finished or self.has(CHECKPOINT)):
            for path in self.path.iterdir():
                path.unlink()
            return
        sweep(self.path)
        (self.path / ERROR).unlink(missing_ok=True)
        if self.has(LOG):  # a process that only slept may still have it open, and writes to the old file then
            write_bytes(self.path / LOG, (self.path / LOG).read_bytes())

    def _elsewhere(self, now: float) -> list["RunDir"]:
        """Return the attempts of other machines that have given a sign of life."""
        mine = f"{self.name}{PART}{socket.gethostname()}-"
        others = (each for each in self.attempts if not each.path.name.startswith(mine))
        return [each for each in others if now - each._changed() < DEAD * CHECKPOINT_SECONDS]

    def _changed(self) -> float:
        """Return when anything in it was last changed, by the clock of the disk; 0 if it has gone."""
        times = [0.0]
        with contextlib.suppress(FileNotFoundError):
            for path in (self.path, *self.path.iterdir()):
                with contextlib.suppress(FileNotFoundError):  # a file that is being replaced
                    times.append(path.stat().st_mtime)
        return max(times)

    def _clock(self) -> float:
        """Return the time by the clock of the disk, which that of this machine may differ from."""
        os.utime(self.lock)
        return self.lock.stat().st_mtime


@contextlib.contextmanager
def _signs_of_life(path: Path) -> Iterator[None]:
    """Touch a directory now and then while the block runs, so that other machines leave it alone."""
    ended = threading.Event()

    def touch() -> None:
        with contextlib.suppress(OSError):  # it was taken over, or published
            while not ended.wait(CHECKPOINT_SECONDS):
                os.utime(path)

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Log:
    """A JSON-lines file that can be cut back to where a checkpoint was taken."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self._stage = RunDir(path.absolute().parent).name
        with explained(path):
            self._file = path.open("a+b")
            if self.size < size:
                raise StoreError(damaged(path, "it is shorter than its checkpoint says", _advice(CHECKPOINT)))
            self._file.truncate(size)

    def write(self, line: Json) -> None:
        """Append one line."""
        with explained(Path(self._file.name)):
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()

    def hear(self, event: Event) -> None:
        """Append what the stage of this directory has measured."""
        if event.kind in ("train", "val") and event.name == self._stage:
            self.write({"kind": event.kind} | dict(event.numbers))

    def settle(self) -> int:
        """Have the disk take all lines, and return how many bytes they are."""
        with explained(Path(self._file.name)):
            os.fsync(self._file.fileno())
        return self.size

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextlib.contextmanager
def broken(directory: RunDir, name: str) -> Iterator[None]:
    """Turn what goes wrong with the content of a file into one line that names it.

    Raises:
        StoreError: if something in it is missing, or not what it should be.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise StoreError(damaged(directory.path / name, error, _advice(name))) from error


def _advice(name: str) -> str:
    """Return what to do about a damaged file that a stage has written: all of them can be made again."""
    with_the_result = name in ("recipe.json", "environment.json", LOG, PREDICTIONS, SOURCES)
    return f"delete this one file, {'result.json beside it' if with_the_result else name}, and run again"
