"""Wide tables, one row per sequence: finds the sequence and label columns and parses their cells."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, join_names
from .csv_files import Piece, TableFile
from .options import ImportOptions
from .several_labels import listed, marked
from .source import MISSING, Part, Source, chosen, is_list, words

LABELS = ("label", "labels", "class", "target", "y", "category")
"""Column names that are taken for the label by default."""
NUMBERING = ("", "id", "index", "idx", "unnamed: 0", "row")
"""Names of columns that only number the rows."""
GROUPS = ("group", "patient", "subject", "person", "speaker", "user", "machine", "site", "recording", "movie")
"""Column names that suggest groups."""
NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
"""Regular expression of a number."""
Where = Callable[[int], str]
Ragged = tuple[np.ndarray, np.ndarray]
"""Flat array of sequences end to end, and their lengths."""


@dataclass
class TableSource(Source):
    """A reader of a table with one row per sequence."""

    table: TableFile = field(kw_only=True)
    options: ImportOptions = field(kw_only=True)
    sequence: list[str] = field(default_factory=list)
    form: str = ""  # storage of sequences: text, lists, written (numbers in a cell) or wide
    labels: list[str] = field(default_factory=list)  # columns; several if each is 0/1 for one label

    def parts(self) -> Iterator[Part]:
        """Yield the rows of the table, in parts."""
        options, first = self.options, 0
        names = self.table.names(options.label)
        others = {role: column for role, column in options.roles.items() if role != "label"}
        for piece in self.table.pieces(list(dict.fromkeys([*self.sequence, *self.labels, *others.values()]))):
            where = partial(_row, first)
            flat, lengths = self.sequences(piece, where)
            columns = {"label": self._labels(piece, where)}
            columns |= {role: words(piece[column], self.changed) for role, column in others.items()}
            if names and not is_list(columns["label"].type):
                numbers = _ids(columns["label"], len(names), where)
                columns["label"] = pc.take(pa.array(names, pa.large_string()), numbers)
            yield Part(_by_kind(flat, self.kind), lengths, columns, where)
            first += len(lengths)

    def _labels(self, piece: Piece, where: Where) -> pa.Array:
        """Return (n,) strings, or lists of strings."""
        if len(self.labels) > 1:
            table = [read_numbers(piece[column], where, column) for column in self.labels]
            return marked(np.stack(table, axis=1).astype(np.float64), self.labels, where)
        array = piece[self.labels[0]]
        return listed(array, self.changed) if is_list(array.type) else words(array, self.changed)

    def spot(self, position: int, channel: int) -> str:
        """Return how messages name a position: the column of a wide table, else column and position."""
        if self.form == "wide":
            return f"column {self.sequence[position]!r}"
        return f"column {self.sequence[min(channel, len(self.sequence) - 1)]!r}, position {position}"

    def sequences(self, piece: Piece, where: Where) -> Ragged:
        """Return the sequences of some rows.

        Raises:
            DataError: naming the first cell that does not hold a sequence.
        """
        arrays = [piece[column] for column in self.sequence]
        if self.form == "wide":
            return read_wide(arrays, where, self.sequence)
        if self.form == "text":
            return read_text(arrays[0])
        read = read_lists if self.form == "lists" else read_written
        found = [read(array, where, column) for array, column in zip(arrays, self.sequence, strict=True)]
        return found[0] if len(found) == 1 else stack_channels(found, where, self.sequence)


def table_source(table: TableFile, options: ImportOptions) -> TableSource:
    """Infer how the sequences of a table are stored, and return a reader.

    Raises:
        DataError: if that is ambiguous; the message says which flag resolves it.
    """
    options = with_label(table, options)
    labels = label_columns(table, options)
    taken = [*labels, *(column for role, column in options.roles.items() if role != "label")]
    aside = [c for c in table.columns if c not in taken]
    asked = matching(options.sequence, table.columns) if options.sequence else aside
    sample = next(table.pieces(asked), {}) if asked else {}
    if not asked or not sample or not len(next(iter(sample.values()))):
        raise DataError(f"{table.path.name} has no rows, or no column besides {join_names(taken)}")
    form, sequence = _form(sample, options, asked)
    if not sequence:
        raise DataError(f"no column looks like sequences; give --sequence; columns: {join_names(aside)}")
    kind = _kind(sample, form, sequence, options)
    vocab = 256 if form == "text" else 0
    source = TableSource(kind, vocab, table.rows, table=table, options=options, sequence=sequence, form=form)
    source.labels = labels
    unused = [c for c in aside if c not in sequence]
    source.facts = facts_of(table, _listed(sequence, form), options)
    source.facts["not used"] = join_names(unused) or "nothing"
    near = [c for c in unused if c.lower().removesuffix("_id") in GROUPS]
    if near and not options.group:
        source.hints.append(f"column {near[0]!r} is not used; --group {near[0]} keeps what belongs together")
    if "split" in unused:
        source.hints.append("column 'split' is not used; --split split keeps that division")
    again = [c for c in sample if c.lower() in NUMBERING and len(sample[c].unique()) < len(sample[c])]
    if again:
        source.hints.append(
            f"column {again[0]!r} repeats; if rows are positions of sequences, give --id, --time and --value"
        )
    return source


def facts_of(table: TableFile, sequence: str, options: ImportOptions) -> dict[str, str]:
    """Return what was found in a table, as names and descriptions."""
    facts = {"file": f"{table.path.name} ({table.manner})", "sequence": sequence, "label": options.label}
    return facts | {"group": options.group or "none", "split": options.split or "made"}


def with_label(table: TableFile, options: ImportOptions) -> ImportOptions:
    """Return the options with the label column filled in, after checking that all columns exist.

    Raises:
        DataError: if a column does not exist, or no label column is found.
    """
    if table.divided and not options.split:
        options = replace(options, split="split")
    for role, column in options.roles.items():
        if role != "label":
            chosen(column, table.columns)
    if options.label:
        label_columns(table, options)
        return options
    found = [c for c in table.columns if c.lower() in LABELS]
    if not options.header and "c1" in table.columns:
        found = ["c1"]  # the format of the UCR archive
    if len(found) != 1:
        raise DataError(f"which column holds the labels? Give --label; columns: {join_names(table.columns)}")
    return replace(options, label=found[0])


def label_columns(table: TableFile, options: ImportOptions) -> list[str]:
    """Return the label column; for sets possibly several, each a 0/1 indicator of one label.

    Raises:
        DataError: if one does not exist.
    """
    if options.target == "sets":
        return matching(options.label, table.columns)
    return [chosen(options.label, table.columns)]


def matching(pattern: str, columns: Sequence[str]) -> list[str]:
    """Return the columns named in a comma-separated list with optional ``*``, in the order of the table.

    Raises:
        DataError: if one does not exist.
    """
    if pattern in columns:
        return [pattern]
    found = set()
    for item in (part.strip() for part in pattern.split(",")):
        hits = {c for c in columns if fnmatchcase(c, item)} if "*" in item else {chosen(item, columns)}
        if not hits:
            raise DataError(f"no column matches {item!r}; columns: {join_names(columns)}")
        found |= hits
    return [c for c in columns if c in found]


def _form(sample: Piece, options: ImportOptions, asked: list[str]) -> tuple[str, list[str]]:
    """Return how sequences are stored (text, lists, written or wide), and the columns that hold them."""
    named = bool(options.sequence)
    columns = {name: [c for c in asked if test(sample[c])] for name, test in _TESTS.items()}
    if named and options.kind == "text":
        return "text", asked
    if named and len(asked) == 1 and options.kind in ("tokens", "values") and is_text(sample[asked[0]].type):
        return "written", asked
    if columns["lists"]:
        if len(columns["lists"]) > 1 and not named:
            raise DataError(f"several columns hold lists; give --sequence: {', '.join(columns['lists'])}")
        return "lists", columns["lists"]
    if columns["written"] and options.kind != "text":
        return "written", columns["written"] if named else columns["written"][:1]
    numeric = [c for c in columns["numbers"] if named or c.lower() not in NUMBERING]
    longest = max(columns["text"], key=lambda c: _size(sample[c]), default="")
    if longest and (named or len(numeric) < max(_size(sample[longest]), 2)):
        return "text", [longest]  # text wins over fewer numeric columns than it has letters
    return "wide", numeric if len(numeric) > 1 else []


def _is_numeric(array: pa.Array) -> bool:
    """Return whether most cells are numbers; a word among them is then reported as an error."""
    if not is_text(array.type):
        return is_number(array.type)
    known = words(array).drop_null()
    looks = pc.match_substring_regex(known, rf"^({NUMBER}|[-+]?[iI]nf(inity)?)$")
    return len(known) == 0 or pc.mean(looks.cast("int8")).as_py() > 0.5


def _is_written(array: pa.Array) -> bool:
    """Return whether every cell looks like two or more numbers."""
    if not is_text(array.type):
        return False
    known = words(array).drop_null()
    looks = pc.match_substring_regex(known, rf"^[\[(]?\s*{NUMBER}([,;\s]+{NUMBER})+\s*[\])]?$")
    return len(looks) > 0 and bool(pc.all(looks).as_py())


_TESTS = {
    "lists": lambda array: is_list(array.type),
    "written": _is_written,
    "numbers": _is_numeric,
    "text": lambda array: (is_text(array.type) or is_bytes(array.type)) and not _is_numeric(array),
}


def _kind(
    sample: Piece, form: str, sequence: list[str], options: ImportOptions
) -> Literal["tokens", "values"]:
    """Return "tokens" for whole numbers from 0 in one column and for text, else "values"."""
    if form == "text":
        return "tokens"
    if options.kind == "text":
        raise DataError(f"column {sequence[0]!r} holds numbers, not text; use --kind tokens or --kind values")
    if options.kind != "auto":
        return options.kind
    if form == "wide" or len(sequence) > 1:
        return "values"
    array = sample[sequence[0]]
    if form == "lists":
        return kind_of(read_lists(array, _row_of_first, sequence[0])[0])
    flat = read_written(array, _row_of_first, sequence[0])[0]
    return "tokens" if bool(((flat >= 0) & (flat % 1 == 0)).all()) else "values"


def kind_of(flat: np.ndarray) -> Literal["tokens", "values"]:
    """Return the default kind of an array: non-negative integers without channels are tokens."""
    return "tokens" if flat.ndim == 1 and flat.dtype.kind in "bui" and bool((flat >= 0).all()) else "values"


def _by_kind(flat: np.ndarray, kind: str) -> np.ndarray:
    return flat[:, None] if kind == "values" and flat.ndim == 1 else flat


def _size(array: pa.Array) -> float:
    return pc.mean(pc.binary_length(array)).as_py() or 0.0


def _ids(labels: pa.Array, count: int, where: Where) -> pa.Array:
    """Return label numbers, checked against the number of class names; negative ones are null."""
    try:
        numbers = labels.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(f"labels are not the numbers of {count} classes that the file names") from error
    beyond = np.flatnonzero(numbers.fill_null(-1).to_numpy() >= count)
    if len(beyond):
        label = labels[int(beyond[0])].as_py()
        raise DataError(f"{where(int(beyond[0]))}: label {label}, but the file names {count} classes")
    return pc.if_else(pc.less(numbers, 0), None, numbers)


def _listed(sequence: list[str], form: str) -> str:
    names = ", ".join(sequence) if len(sequence) < 5 else f"{sequence[0]} ... {sequence[-1]}"
    how = {
        "text": "as bytes of UTF-8",
        "lists": "lists",
        "written": "numbers in a cell",
        "wide": "one per position",
    }
    return f"{names} ({how[form]})"


def _row(first: int, i: int) -> str:
    return f"row {first + i + 1}"


_row_of_first = partial(_row, 0)


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells hold strings, of any Arrow string type."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether cells hold raw bytes."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_number(kind: pa.DataType) -> bool:
    """Return whether cells hold numbers or booleans."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def read_text(array: pa.Array) -> Ragged:
    """Return texts as UTF-8 bytes; an empty cell has length 0."""
    array = array.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    held = array.buffers()[2]
    flat = np.frombuffer(held, np.uint8) if held is not None else np.empty(0, np.uint8)
    return flat[offsets[0] : offsets[-1]], np.diff(offsets)


def read_lists(array: pa.Array, where: Where, column: str) -> Ragged:
    """Parse lists of numbers (T,), or of equally long lists of numbers (T, C); missing numbers are NaN."""
    inner = array.type.value_type
    array = array.cast(pa.large_list(inner))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    values = array.flatten()
    if not is_list(inner):
        return read_numbers(values, lambda i: _cell_place(i, lengths, where), column), lengths
    channels = np.unique(pc.list_value_length(values).fill_null(-1).to_numpy())
    if len(channels) > 1 or -1 in channels:
        raise DataError(f"column {column!r} has positions of {channels.tolist()} channels; make them equal")
    flat = read_numbers(values.flatten(), lambda i: where(0), column)
    return flat.reshape(len(values), -1), lengths


def read_written(array: pa.Array, where: Where, column: str) -> Ragged:
    """Parse numbers written in a cell, such as "[1, 2.5, 3]" or "1 2 3"."""
    bare = pc.utf8_trim_whitespace(pc.replace_substring_regex(array, r"[\[\](),;\s]+", " "))
    split = pc.utf8_split_whitespace(pc.if_else(pc.equal(bare, ""), None, bare))
    return read_lists(split, where, column)


def read_numbers(array: pa.Array, where: Where, column: str) -> np.ndarray:
    """Parse numbers; missing ones are NaN.

    Raises:
        DataError: naming the first cell that is not a number.
    """
    if is_text(array.type):
        text = pc.utf8_trim_whitespace(array)
        text = pc.if_else(pc.is_in(text, pa.array(MISSING, text.type)), None, text)
        try:
            array = text.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise DataError(_no_number(text.to_pylist(), where, column)) from error
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if not is_number(array.type):
        raise DataError(f"column {column!r} holds {array.type}, not numbers")
    return array.to_numpy(zero_copy_only=False)


def read_wide(arrays: Sequence[pa.Array], where: Where, columns: Sequence[str]) -> Ragged:
    """Parse a table with one column per position."""
    pairs = zip(arrays, columns, strict=True)
    rows = np.stack([read_numbers(array, where, column) for array, column in pairs], axis=1)
    return rows.reshape(-1), np.full(len(rows), len(columns))


def stack_channels(parts: Sequence[Ragged], where: Where, columns: Sequence[str]) -> Ragged:
    """Stack several columns of lists as channels (T, C) of one sequence.

    Raises:
        DataError: if the columns of a row differ in length.
    """
    lengths = parts[0][1]
    for (_, others), column in zip(parts, columns, strict=True):
        wrong = np.flatnonzero(lengths != others)
        if len(wrong):
            raise DataError(
                f"{where(int(wrong[0]))}: column {column!r} has {others[wrong[0]]} positions, {columns[0]!r} "
                f"has {lengths[wrong[0]]}; channels of one sequence are equally long"
            )
    return np.stack([flat for flat, _ in parts], axis=1), lengths


def _cell_place(value: int, lengths: np.ndarray, where: Where) -> str:
    row = int(np.searchsorted(lengths.cumsum(), value, side="right"))
    return f"{where(row)}, position {value - int(lengths[:row].sum())}"


def _no_number(cells: Sequence[str | None], where: Where, column: str) -> str:
    for i, cell in enumerate(cells):
        try:
            float(cell or 0)
        except ValueError:
            hint = (
                "; write decimals with a point" if str(cell).replace(",", "", 1).lstrip("-").isdigit() else ""
            )
            return f"{where(i)}: column {column!r} holds {str(cell)[:40]!r}, not a number{hint}"
    return f"column {column!r} holds something that is not a number"
