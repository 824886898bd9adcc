"""A bucket of an object store, through obstore: what fails is asked again, or explained in one line."""

import contextlib
import importlib
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from ..errors import SpecError, StoreError
from . import extras
from .files import replacing
from .store import Listed, Store, Stored

T = TypeVar("T")
TRIES, PATIENCE = 5, 0.5
"""How often something is asked, and seconds before the second time; twice as many before each further one."""
WHOLE_CLOCK = 600.0
"""Seconds for which the difference of two clocks is believed."""
FINAL = re.compile("Unauthenticated|PermissionDenied|status code: 4(?!08|29)")
"""Refusals that would come again."""


@dataclass(frozen=True)
class Bucket(Store):
    """A store below a prefix of a bucket, and transport of whole files."""

    url: str
    _kept: Any
    prefix: str = ""
    _tags: dict[str, str] = field(default_factory=dict, repr=False)  # versions, as this process knows them
    _ahead: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    @classmethod
    def at(cls, url: str) -> "Bucket":
        """The bucket of a URL such as ``s3://bucket/runs``; keys and endpoint come from the environment.

        Raises:
            SpecError: if obstore is not installed, or it is no such URL.
        """
        obstore = extras.load("obstore.store", url, "bucket")
        patience = {"max_retries": 2, "retry_timeout": timedelta(seconds=30)}
        slow = {"timeout": "60s", "connect_timeout": "10s", "allow_http": True}
        try:
            return cls(url, obstore.from_url(url, client_options=slow, retry_config=patience))
        except Exception as error:  # obstore has no common base for them
            raise SpecError(f"{url}: {_line(error)}") from error

    @property
    def name(self) -> str:
        """The last part of its prefix."""
        return (self.prefix or self.url).rstrip("/").rpartition("/")[2]

    def within(self, folder: str) -> "Bucket":
        """A folder of it."""
        return replace(self, prefix=f"{self.prefix}{folder}/") if folder not in ("", ".") else self

    def create(self, name: str, content: bytes) -> bool:
        """Make a file; of many that try at once, this is true for one."""
        return self._put(name, content, "create")

    def replace(self, name: str, content: bytes) -> bool:
        """Write a file that nobody else has written since this process read or wrote it."""
        tag = self._tags.get(self.prefix + name)
        return self._put(name, content, {"e_tag": tag} if tag else "create")

    def write(self, name: str, content: bytes) -> None:
        """Replace the content of a file."""
        self._put(name, content, "overwrite")

    def renew(self, name: str, content: bytes) -> None:
        """Date a file anew, by writing it again."""
        self.write(name, content)

    def read(self, name: str) -> Stored | None:
        """What is in a file; None if it is not there."""
        found = self._get(name)
        return found and Stored(bytes(found.bytes()), found.meta["last_modified"].timestamp())

    def names(self, start: str) -> list[str]:
        """The files whose names start so."""
        return [entry.name for entry in self.entries() if entry.name.startswith(start)]

    def entries(self) -> list[Listed]:
        """Every file below it."""
        obstore, cut = importlib.import_module("obstore"), len(self.prefix)
        below = self.prefix.rstrip("/") or None
        parts = self._asked("list", lambda: list(obstore.list(self._kept, below, chunk_size=1000)))
        found = [each for part in parts for each in part]
        return [Listed(each["path"][cut:], each["size"], each["last_modified"].timestamp()) for each in found]

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        obstore = importlib.import_module("obstore")
        with contextlib.suppress(FileNotFoundError):
            self._asked("remove", lambda: obstore.delete(self._kept, self.prefix + name))

    def clock(self) -> float:
        """Seconds by its clock, from that of this machine and a difference that is looked at again."""
        ahead, looked = self._ahead.get("", (0.0, float("-inf")))
        if time.monotonic() - looked > WHOLE_CLOCK:
            probe = f".clock-{uuid.uuid4().hex[:8]}"
            self.write(probe, b"")
            seen = self.read(probe)
            ahead = (seen.changed if seen else time.time()) - time.time()
            self._ahead[""] = (ahead, time.monotonic())
            self.delete(probe)
        return time.time() + ahead

    def holds(self, name: str) -> bool:
        """Whether a file is there."""
        obstore = importlib.import_module("obstore")
        try:
            self._asked("read", lambda: obstore.head(self._kept, self.prefix + name))
        except FileNotFoundError:
            return False
        return True

    def demand_conditions(self) -> None:
        """Make sure that of two that make the same file, one is refused.

        Raises:
            StoreError: if both are let through.
        """
        probe = f".probe-{uuid.uuid4().hex[:8]}"
        both = self.create(probe, b"one") and self.create(probe, b"other")
        self.delete(probe)
        if both:
            raise StoreError(
                f"{self.url} lets two make the same file, so that two workers would train the same stage; "
                "use a bucket with conditional writes (If-None-Match)"
            )

    def upload(self, name: str, path: Path) -> None:
        """Put a whole file there, whatever was there before."""
        obstore = importlib.import_module("obstore")
        self._asked("write", lambda: obstore.put(self._kept, self.prefix + name, path))

    def download(self, name: str, path: Path) -> bool:
        """Get a whole file; whether it was there."""

        def take() -> bool:
            if (found := self._get(name)) is None:
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary, temporary.open("wb") as file:
                for part in found.stream(min_chunk_size=1 << 22):
                    file.write(part)
            return True

        return self._asked("read", take)

    def _get(self, name: str) -> Any:
        obstore = importlib.import_module("obstore")
        try:
            found = self._asked("read", lambda: obstore.get(self._kept, self.prefix + name))
        except FileNotFoundError:
            return None
        self._tags[self.prefix + name] = found.meta["e_tag"]
        return found

    def _put(self, name: str, content: bytes, mode: Any) -> bool:
        obstore, key = importlib.import_module("obstore"), self.prefix + name
        refused = (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError)
        try:
            done = self._asked("write", lambda: obstore.put(self._kept, key, content, mode=mode))
        except refused:  # an earlier try may have come through, and its answer not
            there = self.read(name)
            return there is not None and there.content == content
        self._tags[key] = done["e_tag"]
        return True

    def _asked(self, doing: str, ask: Callable[[], T]) -> T:
        """What comes of asking, a few times if need be.

        Raises:
            StoreError: if it was refused, or nothing came of the last try.
        """
        exceptions = importlib.import_module("obstore.exceptions")
        answers = (FileNotFoundError, exceptions.AlreadyExistsError, exceptions.PreconditionError)
        for attempt in range(TRIES):
            try:
                return ask()
            except answers:
                raise
            except (exceptions.BaseError, OSError) as error:
                final = FINAL.search(f"{type(error).__name__} {error}") is not None
                if final or attempt == TRIES - 1:
                    raise StoreError(self._refusal(doing, error, final)) from error
            time.sleep(PATIENCE * 2**attempt)
        raise AssertionError

    def _refusal(self, doing: str, error: Exception, final: bool) -> str:
        advice = "check its keys and rights" if final else "is it in reach? the same command goes on"
        return f"cannot {doing} {self.url}: {_line(error)}; {advice}; nothing finished is lost"


def _line(error: Exception) -> str:
    """The server's own word for it, or what obstore says."""
    code = re.search(r"<Code>(\w+)</Code>", str(error))
    return code[1] if code else " ".join(str(error).split())[:200]
