"""Readers of user data: the base class ``Source``, and the parts of a dataset that it yields."""

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, SelfPretrainError, join_names, nearest
from .. import paths

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""Text that means a missing label or number."""

LONGEST_LINE = 1 << 26
"""Maximum length of a line in characters; a longer one is an error."""
MOST_CHANGES = 1000
"""Maximum number of changed labels or names that are recorded."""

Signal = Literal["tokens", "values"]


@dataclass(frozen=True)
class Part:
    """Some sequences, end to end, with labels, groups and splits."""

    flat: np.ndarray  # (T,) symbols or (T, C) values; NaN is missing
    lengths: np.ndarray  # (n,); 0: empty
    columns: dict[
        str, pa.Array
    ]  # (n,) strings by role: label (null: unlabelled), and optionally group, split
    where: Callable[[int], str]  # how messages name a sequence, e.g. "row 17"

    def take(self, keep: np.ndarray) -> "Part":
        """Return the sequences for which ``keep`` (n,) is true."""
        rows, mask = np.flatnonzero(keep), pa.array(keep)
        return Part(
            self.flat[np.repeat(keep, self.lengths)],
            self.lengths[keep],
            {role: column.filter(mask) for role, column in self.columns.items()},
            lambda i: self.where(int(rows[i])),
        )


@dataclass
class Source(abc.ABC):
    """A reader for one input format, configured and ready to iterate."""

    kind: Signal = "tokens"
    vocab: int = 0  # 0: the greatest symbol + 1
    total: int = 0  # number of sequences; 0: unknown
    facts: dict[str, str] = field(default_factory=dict)  # what was found, shown to the user
    hints: list[str] = field(default_factory=list)  # warnings for the user
    changed: dict[str, str] = field(default_factory=dict)  # labels and names, before and after trimming

    @abc.abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield all sequences, from the first, in parts. May be called more than once."""

    def notes(self) -> list[str]:
        """Return notes on labels and names that were changed while reading."""
        trimmed = [(before, after) for before, after in self.changed.items() if after]
        missing = [before.strip() for before, after in self.changed.items() if not after and before.strip()]
        notes = []
        if trimmed:
            (before, after), count = trimmed[0], len(trimmed)
            notes.append(f"spaces around {count:,} labels or names are dropped: {before!r} is {after!r}")
        if missing:
            notes.append(f"{', '.join(map(repr, sorted(set(missing))))} counts as a missing label or name")
        return notes

    def spot(self, position: int, channel: int) -> str:
        """Return how messages name a position of a sequence."""
        return f"position {position}"


@contextmanager
def readable(name: str, explain: Callable[[str], str] = " cannot be read: {}".format) -> Iterator[None]:
    """Convert any exception raised while reading a file into a one-line ``DataError``.

    Args:
        name: of the file.
        explain: returns what follows the name, given the text of the exception.

    Raises:
        DataError: instead of any other error.
    """
    try:
        yield
    except DataError as error:
        if str(error).isprintable():
            raise
        raise DataError(join_names([str(error)])) from error
    except SelfPretrainError:
        raise
    except MemoryError as error:
        raise DataError(f"{name} needs more memory than there is, or is damaged and claims to") from error
    except RecursionError as error:
        raise DataError(f"{name} is nested too deeply to be read") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            with paths.explain_errors(Path(name), "read"):
                raise
        complaint = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(name + explain(complaint)) from error


def lines(file: TextIO, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, from 1.

    Raises:
        DataError: if a line is longer than ``LONGEST_LINE``.
    """
    for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), 1):
        if len(line) == LONGEST_LINE:
            raise DataError(f"{name}, line {number}: it is longer than {LONGEST_LINE >> 20} MB")
        yield number, line


def words(array: pa.Array, changed: dict[str, str] | None = None) -> pa.Array:
    """Return labels or names as strings without surrounding spaces; missing ones are null.

    Args:
        changed: records changed strings, from before to after; "" if it counts as missing.
    """
    try:
        text = _digits(array) if pa.types.is_floating(array.type) else array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"labels, groups and splits must be words or numbers, not {array.type}") from error
    bare = pc.utf8_trim_whitespace(text)
    bare = pc.if_else(pc.is_in(bare, pa.array(MISSING, pa.large_string())), None, bare)
    if changed is not None and len(changed) < MOST_CHANGES:
        other = pc.fill_null(pc.not_equal(text, pc.fill_null(bare, "")), False)
        pairs = zip(*(each.filter(other).to_pylist() for each in (text, bare)), strict=True)
        changed |= {before: after or "" for before, after in pairs}
    return bare


def is_list(kind: pa.DataType) -> bool:
    """Return whether cells hold lists, of any Arrow list type."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _digits(array: pa.Array) -> pa.Array:
    """Return numbers as strings; whole ones by their digits, "1" rather than "1.0" or "1e15"."""
    values = array.cast(pa.float64())
    whole = pc.fill_null(pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**53)), False)
    digits = pc.if_else(whole, values, 0.0).cast(pa.int64()).cast(pa.large_string())
    return pc.if_else(whole, digits, array.cast(pa.large_string()))


def whole(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return one contiguous array."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def chosen(column: str, columns: Sequence[str]) -> str:
    """Return the column, after checking that it exists.

    Raises:
        DataError: if it does not; the message suggests the nearest.
    """
    if column not in columns:
        raise DataError(f"there is no column {column!r}{nearest(column, columns)}")
    return column
