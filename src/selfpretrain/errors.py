"""Exceptions raised by this package, and their exit codes.

SelfPretrainError        exit code 1
  SpecError              exit code 2: invalid recipe, task, mixer or flag
    UnknownName          unknown name of a task, mixer, objective, study, executor or tracker
  DataError              exit code 2: sequences or labels cannot be used as they are
    NotFinite            a model gives no finite number for some examples
    DamagedData          a prepared data set differs from what was written
  TransferError          weights and network do not match as the transfer rule requires
  StoreError             a run folder cannot be read or written
    ForeignRun           a run folder was written by an incompatible version
  StageFailed            a stage failed with an unexpected error
    DoesNotFit           a stage needs more memory than the GPU has; the others go on
  Interrupted            exit code 130: stopped on request, resumable
    Taken                stopped while waiting for another process
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import ClassVar

MAX_OFFERED = 2000
"""Maximum number of names searched for the nearest one."""


class SelfPretrainError(Exception):
    """Base class of all errors this package raises on purpose; the message says what to do."""

    exit_code: ClassVar[int] = 1


class SpecError(SelfPretrainError, ValueError):
    """A recipe, setting or flag is invalid."""

    exit_code = 2


class UnknownName(SpecError):
    """A name is not registered."""


class DataError(SelfPretrainError, ValueError):
    """Sequences or labels cannot be used as they are."""

    exit_code = 2


class NotFinite(DataError):
    """A model gives no finite number for some examples, whose ``places`` are known."""

    def __init__(self, message: str, places: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.places = places


class DamagedData(DataError):
    """A prepared data set differs from what was written."""


class TransferError(SelfPretrainError):
    """Weights and network do not match as the transfer rule requires."""


class StoreError(SelfPretrainError):
    """A run folder cannot be read or written."""


class ForeignRun(StoreError):
    """A run folder was written by an incompatible version of this package."""


class StageFailed(SelfPretrainError):
    """A stage failed with an unexpected error; its folder has the traceback."""


class DoesNotFit(StageFailed):
    """A stage needs more memory than the GPU has; the message says how much, and what needs less."""


class Interrupted(SelfPretrainError):
    """The work was stopped on request and can be resumed."""

    exit_code = 130


class Taken(Interrupted):
    """The work was stopped while it waited for another process that is running the same stage."""


def first_line(error: BaseException) -> str:
    """Return the kind of an error, and the first line of its message that is not empty."""
    lines = (line.strip() for line in str(error).splitlines())
    return ": ".join([type(error).__name__, *[line for line in lines if line][:1]])


def install(extra: str, upgrade: bool = False) -> str:
    """Return the command that installs or upgrades the packages of an extra, for messages."""
    return f"pip install {'--upgrade ' if upgrade else ''}'selfpretrain[{extra}]'"


def nearest(name: str, known: Iterable[str], other: Iterable[str] = ()) -> str:
    """Return the end of an error message about ``name``: the closest known name, or the known names.

    Args:
        other: names that are suggested, but not listed, such as short ones of those that are known.
    """
    known = list(known)
    if not known:
        return ""
    # One wrong letter of three is a likeness of 0.67, two of four are 0.5: difflib's own 0.6 finds too few.
    cutoff = 0.5 if len(name) < 4 else 0.55
    spelled = {each.lower(): each for each in reversed([*known[:MAX_OFFERED], *other])}
    near = [spelled[word] for word in difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=cutoff)]
    near = near or [each for each in known if each.lower().startswith(name.lower())]
    return f"; did you mean {near[0][:80]!r}?" if near else f"; known: {join_names(known)}"


def join_names(names: Iterable[str], most: int = 30) -> str:
    """Return names in one printable line, at most ``most`` of them."""
    names = list(names)
    shown = ", ".join(printable(name[:300]) for name in names[:most])
    return f"{shown} ... ({len(names):,} in all)" if len(names) > most else shown


def printable(text: str) -> str:
    """Return the text with control characters and line breaks replaced by "?"."""
    return "".join(c if c.isprintable() else "?" for c in text)
