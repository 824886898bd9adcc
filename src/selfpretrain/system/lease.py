"""Who works in a folder that several machines may share, and what becomes of it when that one is lost.

A lease is a file ``.lease-N``; the one with the highest N counts. Making a file that is not there yet
succeeds once, on NFS too, so every number has one owner. Owners renew the time of their lease, by the clock
of whoever keeps the files: those of the machines need not agree. A lease that was not renewed for as long as
it promised is over, and whoever makes the next number takes over. An owner that wakes up later finds that.
"""

import contextlib
import json
import os
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ..errors import Interrupted, LeaseLost, SelfPretrainError, Taken
from .events import progress
from .files import POLL, Json, explained

SECONDS = 60.0
"""How long a lease is good without being renewed."""
RENEWALS = 6
"""How often it is renewed in that time."""
PREFIX = ".lease-"

How = Literal["done", "failed", "stopped"]


@dataclass(frozen=True)
class LeaseRecord:
    """What a lease says of itself; ``how`` is empty while nothing has been said of its end."""

    number: int
    owner: str = ""
    host: str = "another machine"
    process: int = 0
    place: str = ""
    since: str = ""
    seconds: float = SECONDS
    how: str = ""
    error: str = ""
    renewed: float = 0.0  # by the clock of whoever keeps the files

    @property
    def who(self) -> str:
        """Its owner, in words."""
        return f"process {self.process} on {self.host}, since {self.since or 'just now'}"

    def alive(self, folder: Path) -> bool:
        """Whether its owner may still be at work."""
        return not (self.how or self._gone() or _clock(folder) - self.renewed > self.seconds)

    def _gone(self) -> bool:
        """Whether its owner was a process of this machine that is no more."""
        if self.place != _place():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False


def lease_records(folder: Path) -> list[LeaseRecord]:
    """Every owner that a folder has had, in order."""
    return [record for number in _numbers(folder) if (record := _read(folder, number))]


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix(PREFIX)) for path in folder.glob(f"{PREFIX}*"))


def _read(folder: Path, number: int) -> LeaseRecord | None:
    try:
        with (folder / f"{PREFIX}{number}").open(encoding="utf-8") as file:  # opening asks the server anew
            renewed, text = os.fstat(file.fileno()).st_mtime, file.read()
    except FileNotFoundError:
        return None
    try:
        return LeaseRecord(number, **(json.loads(text) | {"renewed": renewed}))
    except (ValueError, TypeError):  # it is being written
        return LeaseRecord(number, renewed=renewed)


class Lease:
    """The right to work in a folder, renewed by a thread of its own.

    Raises:
        Taken: if somebody else has it.
    """

    def __init__(self, folder: Path, seconds: float = SECONDS) -> None:
        self.folder, self.seconds, self.owner = folder, seconds, uuid.uuid4().hex
        self.since = datetime.now(UTC).isoformat(" ", "seconds")
        before = lease_records(folder)[-1:]
        for record in before:
            if record.alive(folder):
                raise Taken(f"{record.who}, works on {folder.name}")
        self.number = before[0].number if before else 0
        self._lost, self._ended, self._turn = False, threading.Event(), threading.Lock()
        if not self._advance():
            raise Taken(f"another process has just begun to work on {folder.name}")
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Go on only if this process still owns the folder; looks at the files only after a long silence.

        Raises:
            LeaseLost: if somebody has taken over.
        """
        if self._lost or time.monotonic() - self._renewed > self.seconds / 2:
            self.confirm()

    def confirm(self) -> None:
        """Make sure of the folder for as long as the lease promises, by making the next number.

        Raises:
            LeaseLost: if somebody has taken over.
        """
        before = self.number
        if self._lost or not self._advance():
            self._lost = True
            winner = (lease_records(self.folder) or [LeaseRecord(0)])[-1].who
            raise LeaseLost(
                f"{self.folder.name}: {winner}, has taken over, as nothing was heard from here for "
                f"{self.seconds:g} s; nothing is written"
            )
        (self.folder / f"{PREFIX}{before}").unlink(missing_ok=True)

    def end(self, how: How, error: str = "") -> None:
        """Say how it ended; whoever comes next need not wait."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # it will be over by itself
            if not self._lost:
                self._path.write_text(json.dumps(self._note() | {"how": how, "error": error}))

    @property
    def _path(self) -> Path:
        return self.folder / f"{PREFIX}{self.number}"

    def _note(self) -> Json:
        me = {"owner": self.owner, "host": socket.gethostname(), "process": os.getpid(), "place": _place()}
        return me | {"since": self.since, "seconds": self.seconds}

    def _advance(self) -> bool:
        """Make the next number; whether this process now has the highest one."""
        with self._turn, explained(self.folder):
            path = self.folder / f"{PREFIX}{self.number + 1}"
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(json.dumps(self._note()))
            except FileExistsError:
                return False
            # Owners remove their earlier numbers, never their last: a free number may be of the past.
            if _numbers(self.folder)[-1] > self.number + 1:
                path.unlink(missing_ok=True)
                return False
            self.number, self._renewed = self.number + 1, time.monotonic()
            return True

    def _renew(self) -> None:
        while not self._ended.wait(self.seconds / RENEWALS):
            with self._turn, contextlib.suppress(OSError):  # out of reach for now; ``check`` will ask
                self._lost = self._lost or _numbers(self.folder)[-1] != self.number
                if not self._lost:
                    os.utime(self._path)  # without a time: that of the server
                    self._renewed = time.monotonic()


@contextlib.contextmanager
def leased(folder: Path, stop: Callable[[], bool], seconds: float = SECONDS) -> Iterator[Lease]:
    """Wait until nobody else works in a folder, and work there; how it ended is kept.

    Raises:
        Taken: if asked to stop before it was free.
    """
    told = False
    while True:
        try:
            lease = Lease(folder, seconds)
            break
        except Taken as error:
            if stop():
                raise
            if not told:
                progress(f"waiting: {error}", 0)
                told = True
            time.sleep(POLL)
    try:
        yield lease
    except BaseException as error:
        stopped = isinstance(error, Interrupted) or not isinstance(error, Exception)
        plain = str(error) if isinstance(error, SelfPretrainError) else f"{type(error).__name__}: {error}"
        lease.end("stopped" if stopped else "failed", plain)
        raise
    lease.end("done")


def _clock(folder: Path) -> float:
    """Seconds, by the clock of whoever keeps the files."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-", suffix=".tmp") as probe:
        return os.fstat(probe.fileno()).st_mtime


def _place() -> str:
    """Where a number of a process means something: the start of this system, and its name space."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
