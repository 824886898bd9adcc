"""Tables with one row per sequence: which columns hold sequences, labels, groups and splits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from . import cells
from .source import Part, Reading, Source, chosen, words
from .table_files import Piece, TableFile

LABELS = ("label", "labels", "class", "target", "y", "category")
"""Columns that are taken for the label when nobody says which it is."""
NUMBERING = ("", "id", "index", "idx", "unnamed: 0", "row")
"""Columns that only number the rows."""
GROUPS = ("group", "patient", "subject", "person", "speaker", "user", "machine", "site", "recording", "movie")
"""Columns whose names suggest that rows belong together."""
NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
"""How numbers are written."""


@dataclass
class TableSource(Source):
    """A table with one row per sequence."""

    table: TableFile = field(kw_only=True)
    reading: Reading = field(kw_only=True)
    sequence: list[str] = field(default_factory=list)
    form: str = ""  # how the sequence columns are to be read: text, lists, written or wide

    def parts(self) -> Iterator[Part]:
        """The rows of the table."""
        reading, at = self.reading, 0
        said = [c for c in (reading.label, reading.group, reading.split) if c]
        names = self.table.names(reading.label)
        for piece in self.table.pieces(list(dict.fromkeys([*self.sequence, *said]))):
            where = partial(_row, at)
            flat, lengths = self._sequences(piece, where)
            labels = words(piece[reading.label])
            if names:
                labels = pc.take(pa.array(names, pa.large_string()), _ids(labels))
            group, split = (words(piece[c]) if c else None for c in (reading.group, reading.split))
            yield Part(_by_kind(flat, self.kind), lengths, labels, group, split, where)
            at += len(lengths)

    def spot(self, position: int, channel: int) -> str:
        """The column of a wide table; column and position elsewhere."""
        if self.form == "wide":
            return f"column {self.sequence[position]!r}"
        return f"column {self.sequence[min(channel, len(self.sequence) - 1)]!r}, position {position}"

    def _sequences(self, piece: Piece, where: cells.Where) -> cells.Ragged:
        arrays = [piece[column] for column in self.sequence]
        if self.form == "wide":
            return cells.wide(arrays, where, self.sequence)
        if self.form == "text":
            return cells.symbols(arrays[0])
        read = cells.lists if self.form == "lists" else cells.written
        found = [read(array, where, column) for array, column in zip(arrays, self.sequence, strict=True)]
        return found[0] if len(found) == 1 else cells.channels(found, where, self.sequence)


def table_source(table: TableFile, reading: Reading) -> TableSource:
    """Find out how the sequences of a table are to be read.

    Raises:
        DataError: if that is not clear; the message says which flag makes it clear.
    """
    reading = with_label(table, reading)
    taken = {reading.label, reading.group, reading.split}
    aside = [c for c in table.columns if c not in taken]
    asked = matching(reading.sequence, table.columns) if reading.sequence else aside
    sample = next(table.pieces(asked), {}) if asked else {}
    if not asked or not sample or not len(next(iter(sample.values()))):
        raise DataError(
            f"{table.path.name} has no rows, or no column besides {', '.join(filter(None, taken))}"
        )
    form, sequence = _form(sample, reading, asked)
    if not sequence:
        raise DataError(f"no column looks like sequences; give --sequence; columns: {', '.join(aside)}")
    kind = _kind(sample, form, sequence, reading)
    source = TableSource(
        kind,
        256 if form == "text" else 0,
        table.rows,
        table=table,
        reading=reading,
        sequence=sequence,
        form=form,
    )
    unused = [c for c in aside if c not in sequence]
    source.facts = {"file": f"{table.path.name} ({table.manner})", "sequence": _listed(sequence, form)}
    source.facts |= {
        "label": reading.label,
        "group": reading.group or "none",
        "split": reading.split or "made",
    }
    source.facts["not used"] = ", ".join(unused) or "nothing"
    near = [c for c in unused if c.lower().removesuffix("_id") in GROUPS]
    if near and not reading.group:
        source.hints.append(f"column {near[0]!r} is not used; --group {near[0]} keeps what belongs together")
    if "split" in unused:
        source.hints.append("column 'split' is not used; --split split keeps that division")
    again = [c for c in sample if c.lower() in NUMBERING and len(sample[c].unique()) < len(sample[c])]
    if again:
        source.hints.append(
            f"column {again[0]!r} repeats; if rows are positions of sequences, give --id, --time and --value"
        )
    return source


def with_label(table: TableFile, reading: Reading) -> Reading:
    """The same with the label column filled in, and all columns checked.

    Raises:
        DataError: if a column is not there, or no label is to be found.
    """
    if table.divided and not reading.split:
        reading = replace(reading, split="split")
    for column in (reading.label, reading.group, reading.split):
        if column:
            chosen(column, table.columns)
    if reading.label:
        return reading
    found = [c for c in table.columns if c.lower() in LABELS]
    if len(found) != 1:
        raise DataError(f"which column holds the labels? Give --label; columns: {', '.join(table.columns)}")
    return replace(reading, label=found[0])


def matching(pattern: str, columns: Sequence[str]) -> list[str]:
    """Columns named in a comma-separated list, whose items may hold ``*``; in the order of the table.

    Raises:
        DataError: if one is not there.
    """
    if pattern in columns:
        return [pattern]
    found = set()
    for item in (part.strip() for part in pattern.split(",")):
        hits = {c for c in columns if fnmatchcase(c, item)} if "*" in item else {chosen(item, columns)}
        if not hits:
            raise DataError(f"no column matches {item!r}; columns: {', '.join(columns)}")
        found |= hits
    return [c for c in columns if c in found]


def _form(sample: Piece, reading: Reading, asked: list[str]) -> tuple[str, list[str]]:
    """How sequences are held, and in which columns."""
    named = bool(reading.sequence)
    of = {name: [c for c in asked if test(sample[c])] for name, test in _TESTS.items()}
    if named and reading.kind == "text":
        return "text", asked
    if (
        named
        and len(asked) == 1
        and reading.kind in ("tokens", "values")
        and cells.is_text(sample[asked[0]].type)
    ):
        return "written", asked
    if of["lists"]:
        if len(of["lists"]) > 1 and not named:
            raise DataError(f"several columns hold lists; give --sequence: {', '.join(of['lists'])}")
        return "lists", of["lists"]
    if of["written"] and reading.kind != "text":
        return "written", of["written"] if named else of["written"][:1]
    numeric = [c for c in of["numbers"] if named or c.lower() not in NUMBERING]
    longest = max(of["text"], key=lambda c: _size(sample[c]), default="")
    if longest and (named or len(numeric) < max(_size(sample[longest]), 2)):
        return "text", [longest]  # rather than numbers beside it, which are fewer than its letters
    return "wide", numeric if len(numeric) > 1 else []


def _is_numeric(array: pa.Array) -> bool:
    """Whether cells hold numbers, or mostly numbers: then a word among them is a mistake to be named."""
    if not cells.is_text(array.type):
        return cells.is_number(array.type)
    known = words(array).drop_null()
    looks = pc.match_substring_regex(known, rf"^({NUMBER}|[-+]?[iI]nf(inity)?)$")
    return len(known) == 0 or pc.mean(looks.cast("int8")).as_py() > 0.5


def _is_written(array: pa.Array) -> bool:
    """Whether every cell looks like two numbers or more."""
    if not cells.is_text(array.type):
        return False
    known = words(array).drop_null()
    looks = pc.match_substring_regex(known, rf"^[\[(]?\s*{NUMBER}([,;\s]+{NUMBER})+\s*[\])]?$")
    return len(looks) > 0 and bool(pc.all(looks).as_py())


_TESTS = {
    "lists": lambda array: cells.is_list(array.type),
    "written": _is_written,
    "numbers": _is_numeric,
    "text": lambda array: (
        (cells.is_text(array.type) or cells.is_bytes(array.type)) and not _is_numeric(array)
    ),
}


def _kind(sample: Piece, form: str, sequence: list[str], reading: Reading) -> Literal["tokens", "values"]:
    """Tokens or values: whole numbers from 0 in one column are tokens, other numbers values."""
    if form == "text":
        return "tokens"
    if reading.kind == "text":
        raise DataError(f"column {sequence[0]!r} holds numbers, not text; use --kind tokens or --kind values")
    if reading.kind != "auto":
        return reading.kind
    if form == "wide" or len(sequence) > 1:
        return "values"
    array = sample[sequence[0]]
    if form == "lists":
        return kind_of(cells.lists(array, _row_of_first, sequence[0])[0])
    flat = cells.written(array, _row_of_first, sequence[0])[0]
    return "tokens" if bool(((flat >= 0) & (flat % 1 == 0)).all()) else "values"


def kind_of(flat: np.ndarray) -> Literal["tokens", "values"]:
    """What numbers are if nobody says it: integers from 0, in no channels, are tokens."""
    return "tokens" if flat.ndim == 1 and flat.dtype.kind in "bui" and bool((flat >= 0).all()) else "values"


def _by_kind(flat: np.ndarray, kind: str) -> np.ndarray:
    return flat[:, None] if kind == "values" and flat.ndim == 1 else flat


def _size(array: pa.Array) -> float:
    return pc.mean(pc.binary_length(array)).as_py() or 0.0


def _ids(labels: pa.Array) -> pa.Array:
    """Numbers of named classes; -1 is unlabelled."""
    numbers = labels.cast(pa.int64())
    return pc.if_else(pc.less(numbers, 0), None, numbers)


def _listed(sequence: list[str], form: str) -> str:
    said = ", ".join(sequence) if len(sequence) < 5 else f"{sequence[0]} ... {sequence[-1]}"
    how = {
        "text": "as bytes of UTF-8",
        "lists": "lists",
        "written": "numbers in a cell",
        "wide": "one per position",
    }
    return f"{said} ({how[form]})"


def _row(first: int, i: int) -> str:
    return f"row {first + i + 1}"


_row_of_first = partial(_row, 0)
