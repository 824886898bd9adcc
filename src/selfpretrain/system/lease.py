"""Who works in a folder that several machines may share, and what becomes of it when that one is lost.

A lease is a file ``.lease-N``; the one with the highest N counts. Making a file that is not there yet
succeeds once, on NFS and in buckets too, so every number has one owner. Owners renew the time of their lease,
by the clock of whoever keeps the files: those of the machines need not agree. A lease that was not renewed
for as long as it promised is over, and whoever makes the next number takes over. An owner that wakes up later
finds that.
"""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ..errors import Interrupted, LeaseLost, SelfPretrainError, StoreError, Taken
from .events import progress
from .files import POLL
from .store import Store

SECONDS = 60.0
"""How long a lease is good without being renewed."""
RENEWALS = 4
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

    def alive(self, store: Store) -> bool:
        """Whether its owner may still be at work."""
        return not (self.how or self._gone() or store.clock() - self.renewed > self.seconds)

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


def lease_records(store: Store) -> list[LeaseRecord]:
    """Every owner that a folder has had, in order."""
    return [record for number in _numbers(store) if (record := _read(store, number))]


def last_lease(store: Store) -> LeaseRecord | None:
    """The lease that counts, if there is one."""
    return next((record for number in reversed(_numbers(store)) if (record := _read(store, number))), None)


def _numbers(store: Store) -> list[int]:
    return sorted(int(name.removeprefix(PREFIX)) for name in store.names(PREFIX))


def _read(store: Store, number: int) -> LeaseRecord | None:
    if (found := store.read(f"{PREFIX}{number}")) is None:
        return None
    try:
        return LeaseRecord(number, **(json.loads(found.content) | {"renewed": found.changed}))
    except (ValueError, TypeError):  # it is being written
        return LeaseRecord(number, renewed=found.changed)


class Lease:
    """The right to work in a folder, for as long as it is renewed.

    Raises:
        Taken: if somebody else has it.
    """

    def __init__(self, store: Store, seconds: float = SECONDS) -> None:
        self.store, self.seconds, self.owner = store, seconds, uuid.uuid4().hex
        self.since = datetime.now(UTC).isoformat(" ", "seconds")
        before = last_lease(store)
        if before and before.alive(store):
            raise Taken(f"{before.who}, works on {store.name}")
        self.number = before.number if before else 0
        self._lost, self._turn, self._renewed = False, threading.Lock(), float("-inf")
        if not self._advance():
            raise Taken(f"another process has just begun to work on {store.name}")

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
            winner = (last_lease(self.store) or LeaseRecord(0)).who
            raise LeaseLost(
                f"{self.store.name}: {winner}, has taken over, as nothing was heard from here for "
                f"{self.seconds:g} s; nothing is written"
            )
        self.store.delete(f"{PREFIX}{before}")

    def renew(self) -> None:
        """Promise again as long, unless it was lost."""
        with self._turn, contextlib.suppress(OSError, StoreError):  # out of reach for now; ``check`` asks
            if time.monotonic() - self._renewed > self.seconds / 2:  # before, nobody may take over
                self._lost = self._lost or _numbers(self.store)[-1:] != [self.number]
            if not self._lost:
                self.store.renew(self._name, self._note())
                self._renewed = time.monotonic()

    def end(self, how: How, error: str = "") -> None:
        """Say how it ended; whoever comes next need not wait."""
        with contextlib.suppress(OSError, StoreError):  # it will be over by itself
            if not self._lost:
                self.store.write(self._name, self._note(how, error))

    @property
    def _name(self) -> str:
        return f"{PREFIX}{self.number}"

    def _note(self, how: str = "", error: str = "") -> bytes:
        me = {"owner": self.owner, "host": socket.gethostname(), "process": os.getpid(), "place": _place()}
        end = {"how": how, "error": error} if how else {}
        return json.dumps(me | {"since": self.since, "seconds": self.seconds} | end).encode()

    def _advance(self) -> bool:
        """Make the next number; whether this process now has the highest one."""
        with self._turn:
            name = f"{PREFIX}{self.number + 1}"
            if not self.store.create(name, self._note()):
                return False
            # Owners remove their earlier numbers, never their last: a free number may be of the past.
            if _numbers(self.store)[-1] > self.number + 1:
                self.store.delete(name)
                return False
            self.number, self._renewed = self.number + 1, time.monotonic()
            return True


@contextlib.contextmanager
def leased(store: Store, stop: Callable[[], bool], seconds: float = SECONDS) -> Iterator[Lease]:
    """Wait until nobody else works in a folder, and work there; how it ended is kept.

    Raises:
        Taken: if asked to stop before it was free.
    """
    told = False
    while True:
        try:
            lease = Lease(store, seconds)
            break
        except Taken as error:
            if stop():
                raise
            if not told:
                progress(f"waiting: {error}", 0)
                told = True
            time.sleep(POLL)
    try:
        with _renewed(lease):
            yield lease
    except BaseException as error:
        stopped = isinstance(error, Interrupted) or not isinstance(error, Exception)
        plain = str(error) if isinstance(error, SelfPretrainError) else f"{type(error).__name__}: {error}"
        lease.end("stopped" if stopped else "failed", plain)
        raise
    lease.end("done")


@contextlib.contextmanager
def _renewed(lease: Lease) -> Iterator[None]:
    """With a thread that renews a lease in time."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(lease.seconds / RENEWALS):
            lease.renew()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _place() -> str:
    """Where a number of a process means something: the start of this system, and its name space."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
