"""What somebody's own data are to an import: how they are to be read, and the parts in which they come."""

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, SelfPretrainError, nearest, offered
from .. import paths

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""Words that say that a label or a number is not known."""

LONGEST_LINE = 1 << 26
"""Letters in a line beyond which a text has no lines."""
MOST_CHANGES = 1000
"""Words of which it is noted how they were changed; more are only changed."""

Signal = Literal["tokens", "values"]


@dataclass(frozen=True)
class Part:
    """Some sequences, end to end, and what is said about each."""

    flat: np.ndarray  # (T,) symbols or (T, C) values, in which NaN is not known
    lengths: np.ndarray  # (n,); 0: there is no sequence
    columns: dict[
        str, pa.Array
    ]  # (n,) strings by role: label, where null is unlabelled; perhaps group, split
    where: Callable[[int], str]  # what to call a sequence in a message, e.g. "row 17"

    def take(self, keep: np.ndarray) -> "Part":
        """The sequences for which ``keep`` (n,) holds."""
        rows, mask = np.flatnonzero(keep), pa.array(keep)
        return Part(
            self.flat[np.repeat(keep, self.lengths)],
            self.lengths[keep],
            {role: column.filter(mask) for role, column in self.columns.items()},
            lambda i: self.where(int(rows[i])),
        )


@dataclass
class Source(abc.ABC):
    """Data in some format, of which it is known how they are to be read."""

    kind: Signal = "tokens"
    vocab: int = 0  # 0: one more than the greatest symbol
    total: int = 0  # sequences in all; 0: not known
    facts: dict[str, str] = field(default_factory=dict)  # what was found, for people
    hints: list[str] = field(default_factory=list)  # what people should think about
    changed: dict[str, str] = field(default_factory=dict)  # labels and names as they were, and as they are

    @abc.abstractmethod
    def parts(self) -> Iterator[Part]:
        """All sequences, from the first."""

    def notes(self) -> list[str]:
        """How labels and names were changed while they were read."""
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
        """What to call a place in a sequence in a message."""
        return f"position {position}"


@contextmanager
def readable(name: str, explain: Callable[[str], str] = " cannot be read: {}".format) -> Iterator[None]:
    """Whatever is wrong with somebody's file, as one line: its readers have an error for everything.

    Args:
        name: of the file.
        explain: from the words of a reader to what follows the name.

    Raises:
        DataError: instead of any other error.
    """
    try:
        yield
    except DataError as error:
        if str(error).isprintable():
            raise
        raise DataError(offered([str(error)])) from error
    except SelfPretrainError:
        raise
    except MemoryError as error:
        raise DataError(f"{name} needs more memory than there is, or is damaged and claims to") from error
    except RecursionError as error:
        raise DataError(f"{name} is nested too deeply to be read") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            with paths.explained(Path(name), "read"):
                raise
        complaint = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(name + explain(complaint)) from error


def lines(file: TextIO, name: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers from 1.

    Raises:
        DataError: if one is longer than any that is meant to be one.
    """
    for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), 1):
        if len(line) == LONGEST_LINE:
            raise DataError(f"{name}, line {number}: it is longer than {LONGEST_LINE >> 20} MB")
        yield number, line


def words(array: pa.Array, changed: dict[str, str] | None = None) -> pa.Array:
    """Labels or names as strings without spaces around them; missing ones are null.

    Args:
        changed: takes down what was changed, as it was and as it is; "" where it counts as missing.
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
    """Whether cells hold lists, of whatever storage."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _digits(array: pa.Array) -> pa.Array:
    """The numbers of a column as words: whole ones by their digits, "1" rather than "1.0" or "1e15"."""
    values = array.cast(pa.float64())
    whole = pc.fill_null(pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**53)), False)
    digits = pc.if_else(whole, values, 0.0).cast(pa.int64()).cast(pa.large_string())
    return pc.if_else(whole, digits, array.cast(pa.large_string()))


def whole(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array, whatever pieces it comes in."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def chosen(column: str, columns: Sequence[str]) -> str:
    """The column of that name.

    Raises:
        DataError: if there is none; the message offers the nearest.
    """
    if column not in columns:
        raise DataError(f"there is no column {column!r}{nearest(column, columns)}")
    return column
