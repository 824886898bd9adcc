"""Long tables: one row per position, with columns for sequence id, time and measured values."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from ...system.events import report_progress
from .columns import facts_of, is_text, matching, read_numbers, with_label
from .csv_files import TableFile
from .options import ImportOptions
from .several_labels import lists_of
from .source import Part, Signal, Source, chosen, whole, words

AT_ONCE = 1 << 20
"""Positions per part."""


@dataclass
class LongSource(Source):
    """A reader of a long table, sorted in memory: the columns that are used must fit there."""

    rows: pa.Table = field(kw_only=True)  # sorted by id, then time
    options: ImportOptions = field(kw_only=True)
    flat: np.ndarray = field(kw_only=True)  # (T,) or (T, C), in the order of the sorted rows
    starts: np.ndarray = field(kw_only=True)  # (n,) where sequences start
    values: list[str] = field(default_factory=list)

    def parts(self) -> Iterator[Part]:
        """Yield the sequences, in the order of their ids."""
        ends = np.append(self.starts[1:], len(self.flat))
        ids = self.rows["id"].take(pa.array(self.starts)).to_pylist()
        each = ("label",) if self.options.target == "positions" else ()
        first = 0
        while first < len(ends):
            last = max(int(np.searchsorted(ends, self.starts[first] + AT_ONCE)), first + 1)
            names = ids[first:last]
            some = slice(first, last)
            columns = {
                role: self._constant(role, some, names) for role in self.options.roles if role not in each
            }
            columns |= {role: self._every(role, some) for role in each}
            flat = self.flat[self.starts[first] : ends[last - 1]]
            yield Part(flat, (ends - self.starts)[first:last], columns, partial(_id, names))
            first = last

    def spot(self, position: int, channel: int) -> str:
        """Return column and position."""
        return f"column {self.values[min(channel, len(self.values) - 1)]!r}, position {position}"

    def _every(self, role: str, sequences: slice) -> pa.Array:
        """Return lists with a value for every position, for some sequences."""
        ends = np.append(self.starts[1:], len(self.flat))[sequences]
        first = int(self.starts[sequences][0])
        return lists_of(
            whole(self.rows[role].slice(first, int(ends[-1]) - first)), ends - self.starts[sequences]
        )

    def _constant(self, role: str, sequences: slice, names: list[str]) -> pa.Array:
        """Return one value for each of some sequences, ignoring empty cells.

        Raises:
            DataError: if the rows of one sequence contradict each other.
        """
        ends = np.append(self.starts[1:], len(self.flat))[sequences]
        first, last = int(self.starts[sequences][0]), int(ends[-1])
        cells = whole(self.rows[role].slice(first, last - first).dictionary_encode())
        code = cells.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        starts = self.starts[sequences] - first
        # All non-empty cells of a sequence are equal if their greatest and lowest codes are.
        highest = np.maximum.reduceat(code, starts)
        lowest = np.minimum.reduceat(np.where(code < 0, len(cells.dictionary), code), starts)
        torn = np.flatnonzero((highest >= 0) & (highest != lowest))
        if len(torn):
            raise DataError(f"id {names[torn[0]]!r}: its rows do not agree on {role}; one sequence has one")
        return cells.dictionary.take(pa.array(highest, pa.int64(), mask=highest < 0))


def long_source(table: TableFile, options: ImportOptions) -> LongSource:
    """Read and sort a long table.

    Raises:
        DataError: if a column is missing or cannot be used.
    """
    if not (options.id and options.time and options.value):
        raise DataError("a long table needs --id, --time and --value")
    options = with_label(table, options)
    values = matching(options.value, table.columns)
    for column in (options.id, options.time, options.label):
        chosen(column, table.columns)
    changed: dict[str, str] = {}
    rows = _read(table, options, values, changed)
    order = pc.sort_indices(rows, [("id", "ascending"), ("time", "ascending")])
    rows = rows.take(order)
    ids = whole(rows["id"].dictionary_encode()).indices.to_numpy()
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    twice = (np.diff(ids, prepend=-1) == 0) & np.append(False, _equal_to_next(rows["time"]))
    if twice.any():
        row = int(twice.argmax())
        raise DataError(f"id {rows['id'][row].as_py()!r} has two rows at time {rows['time'][row].as_py()!r}")
    numbers = order.to_numpy()
    flat, kind, vocab = _flat([whole(rows[f"value {c}"]) for c in values], values, numbers, options)
    facts = facts_of(table, f"{', '.join(values)} of each {options.id}, by {options.time}", options)
    source = LongSource(kind, vocab, len(starts), facts, rows=rows, options=options, flat=flat, starts=starts)
    source.values, source.changed = values, changed
    return source


def _read(table: TableFile, options: ImportOptions, values: list[str], changed: dict[str, str]) -> pa.Table:
    """Return the columns that are needed, named by their roles."""
    used = [options.id, options.time, *values, *options.roles.values()]
    pieces, done = [], 0
    for piece in table.pieces(list(dict.fromkeys(used))):
        named = {"id": words(piece[options.id], changed), "time": piece[options.time]}
        missing = np.flatnonzero(~named["id"].is_valid().to_numpy(zero_copy_only=False))
        if len(missing):
            raise DataError(f"row {done + int(missing[0]) + 1}: {options.id} is empty; every row needs one")
        named |= {role: words(piece[column], changed) for role, column in options.roles.items()}
        pieces.append(pa.table(named | {f"value {c}": piece[c] for c in values}))
        done += len(named["id"])
        report_progress(f"read {table.path.name}", done, table.rows)
    if not pieces:
        raise DataError(f"{table.path.name} has no rows")
    rows = pa.concat_tables(pieces, promote_options="permissive")
    return rows.set_column(1, "time", _times(whole(rows["time"]), options.time))


def _times(array: pa.Array, column: str) -> pa.Array:
    """Parse times as integers, floats or timestamps."""
    if not is_text(array.type):
        return _complete(array, column)
    known = _complete(words(array), column)
    for kind in (pa.int64(), pa.float64(), pa.timestamp("ns")):  # in this order no digit is lost
        try:
            return known.cast(kind)
        except pa.ArrowInvalid:
            continue
    raise DataError(f"column {column!r} holds neither numbers nor times such as 2024-12-31 23:59:59")


def _complete(array: pa.Array, column: str) -> pa.Array:
    if array.null_count:
        row = int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False)))
        raise DataError(f"row {row + 1}: {column} is empty; every row needs one")
    return array


def _equal_to_next(array: pa.ChunkedArray) -> np.ndarray:
    array = whole(array)
    return pc.equal(array[:-1], array[1:]).to_numpy(zero_copy_only=False)


def _flat(
    arrays: list[pa.Array], columns: list[str], order: np.ndarray, options: ImportOptions
) -> tuple[np.ndarray, Signal, int]:
    """Return values of all channels, or the numbers of named events; with their kind and vocabulary."""

    def where(i: int) -> str:
        return f"row {order[i] + 1}"

    one = arrays[0]
    if len(arrays) == 1 and is_text(one.type) and options.kind != "values":
        try:
            read_numbers(one, where, columns[0])
        except DataError:
            return _events(one, columns[0])
    flat = np.stack([read_numbers(a, where, c) for a, c in zip(arrays, columns, strict=True)], axis=1)
    return (flat[:, 0], "tokens", 0) if options.kind == "tokens" else (flat, "values", 0)


def _events(array: pa.Array, column: str) -> tuple[np.ndarray, Signal, int]:
    """Return event names as numbers in alphabetical order."""
    names = words(array)
    if names.null_count:
        raise DataError(f"column {column!r} has {names.null_count:,} empty cells; every event needs a name")
    encoded = names.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    rank = np.argsort(np.argsort(known))
    return rank[encoded.indices.to_numpy()].astype(np.int32), "tokens", len(known)


def _id(names: list[str], i: int) -> str:
    return f"id {names[i]!r}"
