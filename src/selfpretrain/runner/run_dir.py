"""Run directory of a stage: attempts train next to it, and a finished one is renamed to its final name.

An attempt works in ``stages/<name>.part-<host>-<pid>``. When all of its files are written and on disk, that
directory is renamed to ``stages/<name>``. The rename is atomic, so readers see a complete stage or none. If
two attempts finish, the second discards its own directory: their files never mix.

A killed attempt is taken over by renaming its directory, too: if several processes try, one succeeds, and
resumes from the checkpoint. On the same machine a lock shows whether an attempt is alive. An attempt of
another machine touches its directory while alive, and counts as dead after three checkpoint intervals
without a change.
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
from glob import escape
from pathlib import Path

from torch import Tensor

from ..errors import StoreError, Taken
from ..system.events import report_progress
from ..system.files import (
    POLL,
    Json,
    damaged_message,
    explain_errors,
    fsync,
    hold_lock,
    is_locked,
    read_json,
    remove_leftovers,
    write_bytes,
    write_json,
)
from ..training import checkpoint
from ..training.train import CHECKPOINT_SECONDS

WEIGHTS = "weights.safetensors"
LOG = "log.jsonl"
CHECKPOINT = "checkpoint.safetensors"
PREDICTIONS = "predictions.safetensors"
RESULT = "result.json"
SOURCES = "sources.json"
ERROR = "error.txt"
"""File with the error of a failed attempt; the next attempt removes it."""
PART = ".part-"
"""Separates the name of a stage from the host and process id of an attempt."""
DEAD = 3
"""Checkpoint intervals without a heartbeat after which another machine takes an attempt over."""


@dataclass(frozen=True)
class RunDir:
    """The directory of a stage, of an attempt at one, of a study or of caches."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "RunDir":
        """Return the directory, and create it if necessary.

        Raises:
            StoreError: if it cannot be created.
        """
        with explain_errors(path):
            path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @property
    def name(self) -> str:
        """Return the name of the stage, also for an attempt's directory."""
        return self.path.name.partition(PART)[0]

    @property
    def finished(self) -> bool:
        """Return whether the stage has a result."""
        return self.has(RESULT)

    def has(self, name: str) -> bool:
        """Return whether the directory has a file of this name."""
        return (self.path / name).exists()

    def write(self, name: str, content: Json) -> None:
        """Write a JSON file atomically."""
        write_json(self.path / name, content)

    def read(self, name: str) -> Json:
        """Read a JSON file.

        Raises:
            StoreError: if it is missing or damaged.
            ForeignRun: if another version of this package wrote it in another layout.
        """
        return read_json(self.path / name, advice=_advice(name))

    def read_cache(self, name: str) -> Json:
        """Read a cached JSON file, which can be recomputed; return {} if it is missing or damaged."""
        try:
            return self.read(name) if self.has(name) else {}
        except StoreError:
            return {}

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Json | None = None) -> str:
        """Write tensors and a state atomically, and return their digest."""
        return checkpoint.save(self.path / name, tensors, state)

    def load(self, name: str, digest: str = "", advice: str = "") -> tuple[dict[str, Tensor], Json]:
        """Read what ``save`` has written.

        Args:
            digest: expected digest, as returned by ``save``; "": not checked.
            advice: what to do if it is damaged; "": as for files of a stage.

        Raises:
            StoreError: if it is damaged, or its digest differs; the message says what to delete.
        """
        return checkpoint.load(self.path / name, digest, advice or _advice(name))

    def drop(self, name: str) -> None:
        """Delete a file if it exists."""
        with explain_errors(self.path / name):
            (self.path / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the directory with its content."""
        with explain_errors(self.path):
            shutil.rmtree(self.path)

    # ---- attempts

    @property
    def stage(self) -> "RunDir":
        """Directory that an attempt at this stage is renamed to."""
        return RunDir(self.path.with_name(self.name))

    @property
    def lock(self) -> Path:
        """Lock file for the processes of this machine; outside the directory, which is renamed."""
        return self.path.parent.parent / "locks" / f"{self.name}.lock"

    @property
    def is_attempt(self) -> bool:
        """Return whether this is the directory of an attempt rather than of a published stage."""
        return PART in self.path.name

    @property
    def attempts(self) -> list["RunDir"]:
        """Unpublished attempts at this stage, newest first."""
        attempts = [RunDir(path) for path in self.path.parent.glob(f"{escape(self.name)}{PART}*")]
        return sorted(attempts, key=RunDir._mtime, reverse=True)

    @property
    def begun(self) -> bool:
        """Return whether the stage has finished, or an attempt at it has left a checkpoint."""
        return self.finished or any(attempt.has(CHECKPOINT) for attempt in self.attempts)

    @property
    def is_running(self) -> bool:
        """Return whether a process of this or another machine is working on this stage."""
        return is_locked(self.lock) or bool(self._live_elsewhere(time.time()))

    @contextlib.contextmanager
    def exclusive(self, stop: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Lock this stage for one process of this machine; wait until ``stop()``, by default not at all.

        Raises:
            Taken: if ``stop()`` is true while another process works on the stage.
        """
        RunDir.make(self.lock.parent)
        with hold_lock(self.lock, stop):
            yield

    @contextlib.contextmanager
    def attempt(
        self, done: Callable[[], bool], stop: Callable[[], bool] = lambda: False
    ) -> Iterator["RunDir | None"]:
        """Yield an attempt at this stage, new or taken over; None if the stage is done, now or after waiting.

        Raises:
            Taken: if ``stop()`` is true while another process works on the stage.
        """
        if done():
            yield None
            return
        RunDir.make(self.path.parent)
        with self.exclusive(stop):
            own = self._claim(done, stop)
            if own is None:
                yield None
            else:
                with _heartbeat(own.path):
                    yield own

    def publish(self) -> None:
        """Rename this attempt to the directory of its stage; if that is already finished, discard this one.

        Raises:
            StoreError: if it cannot be renamed, e.g. because another machine has taken it over.
        """
        target = self.stage
        with explain_errors(target.path):
            remove_leftovers(self.path)
            fsync(self.path)
            # Its result was deleted to run it again, or it was restored without weights.
            if target.path.exists() and not (target.finished and target.has(WEIGHTS)):
                target.path.rename(self.path.with_name(f"{self.path.name}.old"))
            try:
                self.path.rename(target.path)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                shutil.rmtree(self.path)
            fsync(target.path.parent)
            for attempt in target.attempts:
                if attempt not in target._live_elsewhere(target._clock()):
                    shutil.rmtree(attempt.path, ignore_errors=True)

    def _claim(self, done: Callable[[], bool], stop: Callable[[], bool]) -> "RunDir | None":
        """Create an attempt or take one over; the caller holds the lock of this machine."""
        own = RunDir(self.path.with_name(f"{self.name}{PART}{socket.gethostname()}-{os.getpid()}"))
        announced = False
        while not done():
            # One listing for both questions: an attempt that appears in between belongs to a live process.
            attempts = self.attempts
            if others := self._live_elsewhere(self._clock(), attempts):
                if stop():
                    raise Taken(f"stopped while {others[0].path.name} is at work on another machine")
                if not announced:
                    report_progress(
                        f"waiting for {others[0].path.name}, which is at work on another machine", 0
                    )
                    announced = True
                time.sleep(POLL)
                continue
            # A restored result is one of a complete study, until another takes its place.
            restored = self.finished and not self.has(WEIGHTS)
            candidates = [self] * (self.path.exists() and not restored) + attempts
            newest = max(candidates, key=lambda each: (each.finished, each._mtime()), default=None)
            # Another machine may be faster.
            with explain_errors(own.path), contextlib.suppress(FileNotFoundError):
                if newest is None:
                    own.path.mkdir()
                elif newest != own:
                    if own.path.exists():  # of an earlier process with the same id
                        shutil.rmtree(own.path)
                    # Renaming keeps the old time: without a new one a third machine would take it for dead.
                    os.utime(newest.path)
                    newest.path.rename(own.path)
                own._clean_up()
                return own
        return None

    def _clean_up(self) -> None:
        """Clean up a directory that was taken over, so that training can resume in it."""
        os.utime(self.path)
        if not (self.finished or self.has(CHECKPOINT)):
            for path in self.path.iterdir():
                path.unlink()
            return
        remove_leftovers(self.path)
        (self.path / ERROR).unlink(missing_ok=True)
        if self.has(LOG):  # copied, as a suspended process may still have the old file open and write to it
            write_bytes(self.path / LOG, (self.path / LOG).read_bytes())

    def _live_elsewhere(self, now: float, attempts: "list[RunDir] | None" = None) -> list["RunDir"]:
        """Return the attempts of other machines that are alive, of those given or all."""
        mine = f"{self.name}{PART}{socket.gethostname()}"
        known = self.attempts if attempts is None else attempts
        # Without the process id: the name of another host may begin with that of this one and a hyphen.
        others = (each for each in known if each.path.name.rpartition("-")[0] != mine)
        return [each for each in others if now - each._mtime() < DEAD * CHECKPOINT_SECONDS]

    def _mtime(self) -> float:
        """Return the last modification time of the directory and its files, by the disk's clock, or 0."""
        times = [0.0]
        with contextlib.suppress(FileNotFoundError):
            for path in (self.path, *self.path.iterdir()):
                with contextlib.suppress(FileNotFoundError):  # a file that is being replaced
                    times.append(path.stat().st_mtime)
        return max(times)

    def is_live_elsewhere(self) -> bool:
        """Return whether another machine works on this stage; the caller holds the lock of this one."""
        return bool(self._live_elsewhere(self._clock()))

    def _clock(self) -> float:
        """Return the time by the clock of the disk, which may differ from that of this machine."""
        os.utime(self.lock)
        return self.lock.stat().st_mtime


@contextlib.contextmanager
def _heartbeat(path: Path) -> Iterator[None]:
    """Touch a directory every `CHECKPOINT_SECONDS` while the block runs, so that no machine takes it over."""
    ended = threading.Event()

    def touch() -> None:
        while not ended.wait(CHECKPOINT_SECONDS):
            with contextlib.suppress(OSError):  # taken over, published, or no answer of a shared disk
                os.utime(path)

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Log:
    """The training log: a JSON-lines file that is truncated to the last checkpoint when training resumes."""

    def __init__(self, path: Path, size: int = 0) -> None:
        with explain_errors(path):
            self._file = path.open("a+b")
            if self.size < size:
                self.close()
                raise StoreError(
                    damaged_message(path, "it is shorter than its checkpoint says", _advice(CHECKPOINT))
                )
            self._file.truncate(size)

    def write(self, line: Json) -> None:
        """Append one line."""
        with explain_errors(Path(self._file.name)):
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()

    def sync(self) -> int:
        """Flush all lines to disk, and return the size of the file in bytes."""
        with explain_errors(Path(self._file.name)):
            os.fsync(self._file.fileno())
        return self.size

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file; a line that could not be written is tried once more."""
        with explain_errors(Path(self._file.name)):
            self._file.close()


@contextlib.contextmanager
def explain_damage(directory: RunDir, name: str) -> Iterator[None]:
    """Convert errors in the content of a file into a one-line StoreError that names the file.

    Raises:
        StoreError: if something in it is missing or invalid.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise StoreError(damaged_message(directory.path / name, error, _advice(name))) from error


def _advice(name: str) -> str:
    """Return what to do about a damaged file of a stage; all of them can be recreated."""
    belongs_to_result = name in ("recipe.json", "environment.json", LOG, PREDICTIONS, SOURCES)
    return f"delete this one file, {'result.json beside it' if belongs_to_result else name}, and run again"
