"""Cells of tables: text, lists and numbers, and labels, parsed with errors that name the first wrong cell."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from .numerals import MEASURED, Sign, has_commas, share_of, with_points
from .options import ImportOptions
from .source import MISSING, first_true, is_list, lists_of, words

NUMPY = r"np\.[a-z]+[0-9]*\("
"""Regular expression of what NumPy writes before a number in a list: np.float64(0.5)."""
READ = "sequences are numbers, lists of numbers (or of lists, one number per channel) or text; convert it"
ABSENT = re.compile(r"#.+|[-.]+|none|nil|nat|n\.a\.|missing|unknown", re.IGNORECASE)
"""Regular expression of cells of numbers by which a missing one may be meant."""
Where = Callable[[int], str]  # returns the name of a row of a batch, for messages
Ragged = tuple[np.ndarray, np.ndarray]  # flat array of sequences end to end, and their lengths


def named_classes(labels: pa.Array, names: list[str], where: Where) -> pa.Array:
    """Return the names of label numbers; negative ones are null.

    Raises:
        DataError: if there are not so many names.
    """
    try:
        numbers = labels.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(f"labels are not the numbers of {len(names)} classes that the file names") from error
    beyond = np.flatnonzero(numbers.fill_null(-1).to_numpy() >= len(names))
    if len(beyond):
        label = labels[int(beyond[0])].as_py()
        raise DataError(f"{where(int(beyond[0]))}: label {label}, but the file names {len(names)} classes")
    return pc.take(pa.array(names, pa.large_string()), pc.if_else(pc.less(numbers, 0), None, numbers))


def named_lists(lists: pa.Array, names: list[str], where: Where) -> pa.Array:
    """Return lists of the names of label numbers, see ``named_classes``."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    owners = np.repeat(np.arange(len(lists)), lengths)
    found = named_classes(lists.flatten(), names, lambda at: where(int(owners[at])))
    return lists_of(found, lengths, lists.is_valid().to_numpy(zero_copy_only=False))


def label_words(
    cells: pa.Array,
    options: ImportOptions,
    decimal: Sign,
    where: Where,
    changed: dict[str, str],
    names: list[str],
) -> pa.Array:
    """Return labels as strings, see ``words``; decimal commas of numbers become points.

    Args:
        names: of the classes, whose numbers the labels are; empty: the file has none.

    Raises:
        DataError: if labels look like numbers with a decimal comma and may be something else.
    """
    if options.target in ("auto", "reals") and has_commas(cells):
        if decimal == ",":
            cells = with_points(cells)
        elif options.target == "auto":
            row = first_true(pc.match_substring(cells, ","))
            raise DataError(
                f"{where(row)}: label {cells[row].as_py()[:40]!r} may be a number with a decimal comma; "
                f"write decimals with a point, or give --target classes, sets or positions"
            )
    found = words(cells, changed, options.label)
    return named_classes(found, names, where) if names else found


def labels_of_table(table: np.ndarray, names: Sequence[str], where: Where) -> pa.Array:
    """Return (n,) lists of the names whose columns are 1, from a table (n, K) of 0 and 1; null where NaN.

    Raises:
        DataError: naming the first row that holds something else.
    """
    known = ~np.isnan(table).any(1)
    odd = known & ~np.isin(table, (0, 1)).all(1)
    if odd.any():
        row = table[odd][0]
        wrong = row[~np.isin(row, (0, 1))][0]
        raise DataError(f"{where(int(odd.argmax()))}: columns of labels hold 0 and 1, not {wrong:g}")
    present = (table == 1) & known[:, None]
    found = pa.array(names, pa.large_string()).take(pa.array(present.nonzero()[1]))
    return lists_of(found, present.sum(1), known)


def flags(text: pa.Array) -> pa.Array:
    """Return text with 1 for true and 0 for false, as pandas writes indicators; other cells as they are."""
    known = pc.ascii_lower(text)
    return pc.if_else(pc.equal(known, "true"), "1", pc.if_else(pc.equal(known, "false"), "0", text))


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells hold strings, of any Arrow string type."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether cells hold raw bytes."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_number(kind: pa.DataType) -> bool:
    """Return whether cells hold numbers or booleans."""
    return pa.types.is_floating(kind) or pa.types.is_decimal(kind) or is_whole(kind)


def is_whole(kind: pa.DataType) -> bool:
    """Return whether cells hold whole numbers or booleans."""
    return pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def read_text(array: pa.Array, column: str) -> Ragged:
    """Return texts as UTF-8 bytes; an empty cell has length 0.

    Raises:
        DataError: if cells hold anything else.
    """
    try:
        array = array.cast(pa.large_binary()).fill_null(b"")
    except pa.ArrowNotImplementedError as error:
        raise DataError(f"column {column!r} holds {array.type}, not text") from error
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    held = array.buffers()[2]
    flat = np.frombuffer(held, np.uint8) if held is not None else np.empty(0, np.uint8)
    return flat[offsets[0] : offsets[-1]], np.diff(offsets)


def read_cells(array: pa.Array, where: Where, column: str) -> Ragged:
    """Parse lists of numbers, or numbers written in cells, whichever there are."""
    if is_list(array.type) and is_text(array.type.value_type):
        found = words(array.flatten()).drop_null()
        if len(found) and share_of(found, MEASURED) <= 0.5:
            said = f"column {column!r} holds lists of words, such as {found[0].as_py()[:40]!r}"
            raise DataError(f"{said}; number the words, or join those of a list into one text")
    return (read_written if is_text(array.type) else read_lists)(array, where, column)


def read_lists(array: pa.Array, where: Where, column: str) -> Ragged:
    """Parse lists of numbers (T,), or of equally long lists of numbers (T, C); missing numbers are NaN.

    Raises:
        DataError: if cells hold anything else.
    """
    if pa.types.is_null(array.type):  # no cell holds anything
        return np.zeros(0), np.zeros(len(array), dtype=np.int64)
    if not is_list(array.type):
        raise DataError(f"column {column!r} holds {array.type}, not lists of numbers")
    inner = array.type.value_type
    array = array.cast(pa.large_list(inner))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    values = array.flatten()

    def place(i: int) -> str:
        row = int(np.searchsorted(lengths.cumsum(), i, side="right"))
        return f"{where(row)}, position {i - int(lengths[:row].sum())}"

    if not is_list(inner):
        return read_numbers(values, place, column), lengths
    if not len(values):
        return np.zeros((0, 1)), lengths
    channels = pc.list_value_length(values).fill_null(0).to_numpy()
    odd = channels != max(channels[0], 1)
    if odd.any():
        said = f"column {column!r} has positions of {np.unique(channels).tolist()} channels; make them equal"
        raise DataError(f"{place(int(odd.argmax()))}: {said}")
    flat = read_numbers(values.flatten(), lambda i: place(i // int(channels[0])), column)
    return flat.reshape(len(values), -1), lengths


def read_written(array: pa.Array, where: Where, column: str) -> Ragged:
    """Parse numbers written in a cell, such as "[1, 2.5, 3]" or "1 2 3".

    Raises:
        DataError: naming the first cell with something else, or with "0,5 0,7", whose commas are unclear.
    """
    mixed = pc.and_(
        pc.match_substring_regex(array, r"\d,\d"), pc.match_substring_regex(array, r"\d(\s*;|\s+[-+.\d])")
    )
    if pc.any(mixed).as_py():
        row = first_true(mixed)
        raise DataError(
            f"{where(row)}: column {column!r} holds {array[row].as_py()[:40]!r}; separate numbers by commas "
            f"or by spaces, and write decimals with a point"
        )
    array = pc.replace_substring_regex(array, NUMPY, " ")
    bare = pc.utf8_trim_whitespace(pc.replace_substring_regex(array, r"[\[\](),;\s]+", " "))
    split = pc.utf8_split_whitespace(pc.if_else(pc.equal(bare, ""), None, bare))
    return read_lists(split, where, column)


def read_numbers(array: pa.Array, where: Where, column: str, decimal: Sign = ".") -> np.ndarray:
    """Parse numbers; missing ones are NaN.

    Raises:
        DataError: naming the first cell that is not a number.
    """
    if is_text(array.type):
        text = pc.utf8_trim_whitespace(array)
        if decimal == ",":
            points = pc.match_substring(text, ".")
            if pc.any(points).as_py():  # which may separate thousands
                row = first_true(points)
                raise DataError(
                    f"{where(row)}: column {column!r} holds {text[row].as_py()[:40]!r}, but other numbers of "
                    f"the table have a decimal comma; write all decimals with a point"
                )
            text = with_points(text)
        text = pc.if_else(pc.is_in(text, pa.array(MISSING, text.type)), None, text)
        with suppress(pa.ArrowInvalid):
            return text.cast(pa.float64()).to_numpy(zero_copy_only=False)
        text = flags(text)  # these are rare, and looking for them takes longer than reading numbers
        try:
            array = text.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise DataError(_no_number(text.to_pylist(), where, column)) from error
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    if not is_number(array.type):
        raise DataError(f"column {column!r} holds {array.type}, not numbers; {READ}")
    return array.to_numpy(zero_copy_only=False)


def stack_channels(parts: Sequence[Ragged], where: Where, columns: Sequence[str]) -> Ragged:
    """Return the lists of one column as they are, of several as channels (T, C) of one sequence.

    Raises:
        DataError: if the columns of a row differ in length.
    """
    if len(parts) == 1:
        return parts[0]
    lengths = parts[0][1]
    for (_, others), column in zip(parts, columns, strict=True):
        wrong = np.flatnonzero(lengths != others)
        if len(wrong):
            raise DataError(
                f"{where(int(wrong[0]))}: column {column!r} has {others[wrong[0]]} positions, {columns[0]!r} "
                f"has {lengths[wrong[0]]}; channels of one sequence are equally long"
            )
    return np.stack([flat for flat, _ in parts], axis=1), lengths


def _no_number(cells: Sequence[str | None], where: Where, column: str) -> str:
    for i, cell in enumerate(cells):
        try:
            pa.scalar(cell, pa.large_string()).cast(pa.float64())  # Python takes 1_000 for a number, too
        except pa.ArrowInvalid:
            comma = re.fullmatch(r"[-+]?\d+([,.]\d+)+([eE][-+]?\d+)?", str(cell))
            hint = "; write NaN where a number is missing" if ABSENT.fullmatch(str(cell)) else ""
            if comma:
                hint = "; write decimals with a point, thousands without a sign, and lists with spaces"
            hint = "; NumPy leaves numbers out of long arrays, x.tolist() has all" if cell == "..." else hint
            return f"{where(i)}: column {column!r} holds {str(cell)[:40]!r}, not a number{hint}"
    return f"column {column!r} holds something that is not a number"
