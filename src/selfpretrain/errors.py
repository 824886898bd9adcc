"""Every error a user can meet.

SelfPretrainError        exit code 1
  SpecError              exit code 2: a recipe, task, mixer or flag says something impossible
    UnknownName          a name is not on its shelf
  DataError              exit code 2: sequences or labels cannot be used as they are
    DamagedData          a prepared set is not what was written
  TransferError          weights and network do not fit as the rule says
  StoreError             a run folder cannot be read or written
    ForeignRun           a run folder was written by an incompatible version
  StageFailed            a stage broke for a reason that has no message of its own
  Interrupted            exit code 130: stopped on request, resumable
    Taken                stopped while another process was at work on it
"""

import difflib
from collections.abc import Iterable
from typing import ClassVar

MOST_OFFERED = 2000
"""Names among which the nearest is looked for."""


class SelfPretrainError(Exception):
    """Base of all errors raised on purpose by this package; the message says what to do."""

    exit_code: ClassVar[int] = 1


class SpecError(SelfPretrainError, ValueError):
    """A specification cannot be met."""

    exit_code = 2


class UnknownName(SpecError):
    """A name is not on its shelf."""


class DataError(SelfPretrainError, ValueError):
    """Sequences or labels cannot be used as they are."""

    exit_code = 2


class DamagedData(DataError):
    """A prepared set is not what was written."""


class TransferError(SelfPretrainError):
    """Weights and network do not fit as the transfer rule says."""


class StoreError(SelfPretrainError):
    """A run folder cannot be read or written."""


class ForeignRun(StoreError):
    """A run folder was written by an incompatible version of this package."""


class StageFailed(SelfPretrainError):
    """A stage broke for a reason that has no message of its own; its folder has the traceback."""


class Interrupted(SelfPretrainError):
    """The work was stopped on request and can be resumed."""

    exit_code = 130


class Taken(Interrupted):
    """The work was stopped while it waited for another process."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about ``name``: the closest known name, or those there are."""
    known = list(known)[:MOST_OFFERED]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5 if len(name) < 4 else 0.55)
    near = near or [other for other in known if other.lower().startswith(name.lower())]
    return f"; did you mean {near[0][:80]!r}?" if near else f"; known: {offered(known)}"


def offered(names: Iterable[str], most: int = 30) -> str:
    """Names in one line, whatever is in them and however many there are."""
    names = list(names)
    return ", ".join(printable(name[:300]) for name in names[:most]) + (
        f" ... ({len(names):,} in all)" if len(names) > most else ""
    )


def printable(text: str) -> str:
    """A text that changes nothing but its own place wherever it is shown: no control characters, one line."""
    return "".join(c if c.isprintable() else "?" for c in text)
