"""Columns of a table as sequences: texts, lists, numbers written in a cell, or one column per position."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from .source import MISSING

Where = Callable[[int], str]
Ragged = tuple[np.ndarray, np.ndarray]
"""Sequences end to end, and how long each is."""


def is_text(kind: pa.DataType) -> bool:
    """Whether cells hold words, of whatever storage."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether cells hold raw bytes."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_list(kind: pa.DataType) -> bool:
    """Whether cells hold lists, of whatever storage."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_number(kind: pa.DataType) -> bool:
    """Whether cells hold numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def symbols(array: pa.Array) -> Ragged:
    """Texts as their UTF-8 bytes; an empty cell has no sequence."""
    array = array.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    held = array.buffers()[2]
    flat = np.frombuffer(held, np.uint8) if held is not None else np.empty(0, np.uint8)
    return flat[offsets[0] : offsets[-1]], np.diff(offsets)


def lists(array: pa.Array, where: Where, column: str) -> Ragged:
    """Lists of numbers (T,), or of equally long lists of numbers (T, C); unknown numbers are NaN."""
    inner = array.type.value_type
    array = array.cast(pa.large_list(inner))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    values = array.flatten()
    if not is_list(inner):
        return numbers(values, lambda i: _place(i, lengths, where), column), lengths
    channels = np.unique(pc.list_value_length(values).fill_null(-1).to_numpy())
    if len(channels) > 1 or -1 in channels:
        raise DataError(f"column {column!r} has positions of {channels.tolist()} channels; make them equal")
    flat = numbers(values.flatten(), lambda i: where(0), column)
    return flat.reshape(len(values), -1), lengths


def written(array: pa.Array, where: Where, column: str) -> Ragged:
    """Numbers written in a cell, such as "[1, 2.5, 3]" or "1 2 3"."""
    bare = pc.utf8_trim_whitespace(pc.replace_substring_regex(array, r"[\[\](),;\s]+", " "))
    split = pc.utf8_split_whitespace(pc.if_else(pc.equal(bare, ""), None, bare))
    return lists(split, where, column)


def numbers(array: pa.Array, where: Where, column: str) -> np.ndarray:
    """Numbers, of which those that are missing are NaN.

    Raises:
        DataError: naming the first cell that holds something else.
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


def wide(arrays: Sequence[pa.Array], where: Where, columns: Sequence[str]) -> Ragged:
    """One column per position."""
    pairs = zip(arrays, columns, strict=True)
    rows = np.stack([numbers(array, where, column) for array, column in pairs], axis=1)
    return rows.reshape(-1), np.full(len(rows), len(columns))


def channels(parts: Sequence[Ragged], where: Where, columns: Sequence[str]) -> Ragged:
    """Several columns of lists as channels (T, C) of one sequence."""
    lengths = parts[0][1]
    for (_, others), column in zip(parts, columns, strict=True):
        wrong = np.flatnonzero(lengths != others)
        if len(wrong):
            raise DataError(
                f"{where(int(wrong[0]))}: column {column!r} has {others[wrong[0]]} positions, {columns[0]!r} "
                f"has {lengths[wrong[0]]}; channels of one sequence are equally long"
            )
    return np.stack([flat for flat, _ in parts], axis=1), lengths


def _place(value: int, lengths: np.ndarray, where: Where) -> str:
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
