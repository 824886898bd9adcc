"""What somebody's own data are to an import: how they are to be read, and the parts in which they come."""

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from ...spec import nearest

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""Words that say that a label or a number is not known."""

Signal = Literal["tokens", "values"]


@dataclass(frozen=True)
class Part:
    """Some sequences, end to end, and what is said about each."""

    flat: np.ndarray  # (T,) symbols or (T, C) values, in which NaN is not known
    lengths: np.ndarray  # (n,); 0: there is no sequence
    labels: pa.Array  # (n,) strings; null: unlabelled
    groups: pa.Array | None
    split: pa.Array | None
    where: Callable[[int], str]  # what to call a sequence in a message, e.g. "row 17"

    def take(self, keep: np.ndarray) -> "Part":
        """The sequences for which ``keep`` (n,) holds."""
        rows, mask = np.flatnonzero(keep), pa.array(keep)
        return Part(
            self.flat[np.repeat(keep, self.lengths)],
            self.lengths[keep],
            self.labels.filter(mask),
            None if self.groups is None else self.groups.filter(mask),
            None if self.split is None else self.split.filter(mask),
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

    @abc.abstractmethod
    def parts(self) -> Iterator[Part]:
        """All sequences, from the first."""

    def spot(self, position: int, channel: int) -> str:
        """What to call a place in a sequence in a message."""
        return f"position {position}"


def words(array: pa.Array) -> pa.Array:
    """Labels or names as strings; missing ones are null."""
    try:
        text = array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"labels, groups and splits must be words or numbers, not {array.type}") from error
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.is_in(text, pa.array(MISSING, pa.large_string())), None, text)


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
