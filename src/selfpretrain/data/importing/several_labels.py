"""Multi-label targets: a set of labels per sequence, or a label at every position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from .labels import Labels, Told
from .source import Part, is_list, words

SEPARATORS = r"\s*[;|,]\s*"
"""Separators of the labels of a set in one cell."""
BETWEEN = r"[;|,\s]+"
"""Separators of labels of positions; without any, every character is a label."""


def lists_of(values: pa.Array, lengths: np.ndarray, known: np.ndarray | None = None) -> pa.Array:
    """Return (n,) lists of the given lengths, cut from values end to end; null where not ``known``."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    mask = None if known is None else pa.array(~known)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)


def listed(array: pa.Array, changed: dict[str, str] | None = None) -> pa.Array:
    """Convert lists of numbers or strings to lists of strings."""
    array = array.cast(pa.large_list(array.type.value_type))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    return lists_of(words(array.flatten(), changed), lengths, array.is_valid().to_numpy(zero_copy_only=False))


def marked(table: np.ndarray, names: Sequence[str], where: Callable[[int], str]) -> pa.Array:
    """Return (n,) lists of the names whose columns are 1, from a table (n, K) of 0 and 1; null where NaN.

    Raises:
        DataError: naming the first row that holds something else.
    """
    known = ~np.isnan(table).any(1)
    odd = known & ~np.isin(table, (0, 1)).all(1)
    if odd.any():
        raise DataError(
            f"{where(int(odd.argmax()))}: columns of labels hold 0 and 1, not {table[odd][0].max():g}"
        )
    there = (table == 1) & known[:, None]
    return lists_of(
        pa.array(names, pa.large_string()).take(pa.array(there.nonzero()[1])), there.sum(1), known
    )


@dataclass
class SeveralLabels:
    """Collects and encodes several labels per sequence.

    In a text cell, labels are separated by ``;``, ``|`` or ``,``; labels of positions also by spaces, or by
    nothing if each is one character. An empty cell is unlabelled; an empty list is the empty set.
    """

    target: Literal["sets", "positions"]
    column: str = "label"
    one: Labels = field(init=False)
    _lengths: list[np.ndarray] = field(default_factory=list)  # labels of every sequence; -1: unlabelled

    def __post_init__(self) -> None:
        self.one = Labels("classes", self.column)

    @property
    def notes(self) -> list[str]:
        """Notes for the user on how labels were read."""
        return self.one.notes

    def paired(self, part: Part) -> Part:
        """Return the part with lists of labels, for positions one per position.

        Raises:
            DataError: naming the first sequence with more or fewer.
        """
        labels = self._apart(part.columns["label"])
        counts = pc.list_value_length(labels).fill_null(-1).to_numpy()
        wrong = (counts >= 0) & (counts != part.lengths)
        if self.target == "positions" and wrong.any():
            row = int(wrong.argmax())
            said = f"{counts[row]:,} labels for {part.lengths[row]:,} positions; there must be one for each"
            raise DataError(f"{part.where(row)}: {said}")
        return Part(part.flat, part.lengths, part.columns | {"label": labels}, part.where)

    def add(self, part: Part) -> None:
        """Add the labels of one part returned by ``paired``; labels of truncated positions are dropped."""
        labels = part.columns["label"]
        if self.target == "positions":
            labels = _shortened(labels, part.lengths)
        counts = pc.list_value_length(labels).fill_null(-1).to_numpy()
        owner = np.repeat(np.arange(len(counts)), counts.clip(min=0))
        self.one.take(labels.flatten(), lambda i: part.where(int(owner[i])))
        self._lengths.append(counts)

    def told(self, lengths: np.ndarray) -> Told:
        """Return all labels, for sequences of the given lengths (n,).

        Raises:
            DataError: if there are fewer than two classes.
        """
        codes, names = self.one.finish()
        counts = np.concatenate(self._lengths)
        if self.target == "sets":
            found = np.where(counts[:, None] < 0, -1, np.zeros((1, len(names)), dtype=np.int64))
            owner = np.repeat(np.arange(len(counts)), counts.clip(min=0))
            found[owner[codes >= 0], codes[codes >= 0]] = 1
            return Told(found, names, lengths, "sets")
        flat = np.full(int(lengths.sum()), -1, dtype=np.int16)
        flat[np.repeat(counts >= 0, lengths)] = codes
        return Told(flat, names, lengths, "positions")

    def _apart(self, labels: pa.Array) -> pa.Array:
        if is_list(labels.type):
            return labels
        known = labels.is_valid().to_numpy(zero_copy_only=False)
        if self.target == "sets":
            return _split(labels, SEPARATORS)
        if pc.any(pc.match_substring_regex(labels, BETWEEN)).as_py():
            return _split(labels, BETWEEN)
        letters = "".join(labels.drop_null().to_pylist()).encode("utf-32-le")
        codes, place = np.unique(np.frombuffer(letters, np.uint32), return_inverse=True)
        values = pa.array(list(map(chr, codes.tolist())), pa.large_string()).take(pa.array(place))
        return lists_of(values, pc.utf8_length(labels).fill_null(0).to_numpy(), known)


def _split(labels: pa.Array, pattern: str) -> pa.Array:
    apart = pc.split_pattern_regex(pc.utf8_trim(labels, "[] \t"), pattern)
    return listed(apart)


def _shortened(labels: pa.Array, lengths: np.ndarray) -> pa.Array:
    """Truncate every list to the given length."""
    counts = pc.list_value_length(labels).fill_null(0).to_numpy()
    if not (counts > lengths).any():
        return labels
    place = np.arange(int(counts.sum())) - np.repeat(counts.cumsum() - counts, counts)
    kept = place < np.repeat(lengths, counts)
    known = labels.is_valid().to_numpy(zero_copy_only=False)
    return lists_of(labels.flatten().filter(pa.array(kept)), np.minimum(counts, lengths), known)
