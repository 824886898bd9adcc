"""Conversion of what people hold (frames, columns, tensors, masked arrays, generators) to arrays and lists.

Types are recognised by their attributes, so that neither pandas nor polars nor datasets is needed:

frame     has names of columns: pandas, polars, Arrow, Hugging Face
panel     a frame whose index has several levels: all but the last number the sequences, the last one orders
          the positions, columns are channels
nested    a frame whose cells are sequences; columns are channels
"""

import math
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..errors import DataError, join_names

Names = list[Any]  # names of channels, in order
ALONE = "X is one sequence of {:,} numbers; put it in a list, [X]. Reshape your data: X.reshape(1, -1)"
"""Error message; the checks of scikit-learn look for "Reshape your data"."""
NUMBERS = (Number, np.number, np.bool_)
MISSING = ("NAType", "NaTType", "MaskedConstant")
"""Types of missing labels of pandas, which may not be installed, and of masked arrays."""


def rows_of(X: Any, names: Names | None = None) -> tuple[Any, Names | None]:
    """Return sequences as a list or as an array, a plain table as it is; and the names of their channels.

    Args:
        names: of the channels in training: frames are ordered by them.

    Raises:
        DataError: if X is not such a collection; the message says what to give instead.
    """
    _refuse(X)
    X = plain_array(X)
    levels = getattr(getattr(X, "index", None), "nlevels", 1)
    if levels > 1:
        frame = X if is_frame(X) else X.to_frame()
        found = _names_of(frame) or []
        _check_names(found, found, "")
        if all(_kind(frame[name]) == "numbers" for name in found):  # a panel
            _refuse_repeated(frame.index)
            groups = frame.groupby(level=list(range(levels - 1)), sort=False, dropna=False)
            return _of_channels([_channels(group.sort_index(), found) for _, group in groups], found, names)
    if is_frame(X):
        return _of_frame(X, names)
    dense = getattr(X, "ndim", None)
    if dense == 2 and isinstance(X, np.ndarray) and X.dtype.kind == "O" and X.size and is_sequence(X[0, 0]):
        return _stacked([list(column) for column in X.T], list(range(X.shape[1]))), None
    if dense == 1 and getattr(getattr(X, "dtype", None), "kind", "O") in "biuf" and len(X):
        raise DataError(ALONE.format(len(X)))
    if dense in (None, 1) and isinstance(X, Iterable) and not isinstance(X, str | bytes):
        return _of_list(cells_of(X), names)
    return X, None


def check_order(X: Any, beside: Mapping[str, Any]) -> None:
    """Check that what is given beside a panel has its sequences in their order, that of their first rows.

    Others say their order by position alone; a column with the names of the sequences says it itself, and
    that of ``groupby`` is sorted.

    Args:
        beside: labels, groups or weights, by their names.

    Raises:
        DataError: if a column has the names of the sequences in another order.
    """
    if getattr(getattr(X, "index", None), "nlevels", 1) < 2:
        return
    names = list(X.index.droplevel(-1).unique())
    for what, column in beside.items():
        index: Any = getattr(column, "index", None)  # of a list, a method
        given = list(index) if getattr(index, "nlevels", 0) else names
        if given != names and sorted(map(repr, given)) == sorted(map(repr, names)):
            raise DataError(
                f"{what} has the sequences of X in another order than X; give "
                f"{what}.loc[X.index.droplevel(-1).unique()], or an array if the order is right"
            )


def plain_array(x: Any) -> Any:
    """Return tensors and masked arrays as arrays, masked values as NaN; anything else as it is."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    if not np.ma.isMaskedArray(x):
        return x
    missing = np.ma.getmaskarray(x)
    return np.where(missing, np.nan, np.ma.getdata(x)) if missing.any() else np.ma.getdata(x)


def plain_labels(y: Any) -> Any:
    """Return labels as an array, list or frame in which a masked or missing one is None, NaN or NA."""
    if isinstance(y, set | frozenset):
        raise DataError(f"{len(y)} labels are a set, which has no order; give a list")
    if isinstance(y, torch.Tensor):
        return plain_array(y)
    if np.ma.isMaskedArray(y):
        labels = np.ma.getdata(y)
        if (missing := np.ma.getmaskarray(y)).any():
            labels = labels.astype(object)
            labels[missing] = None
        return labels
    if isinstance(y, np.ndarray | list | tuple | Mapping | str) or getattr(y, "ndim", 1) == 2 or is_frame(y):
        return y
    # NumPy makes numbers with a missing one of pandas, polars or Arrow floats.
    numbers = isinstance(getattr(y, "dtype", None), np.dtype)
    return y if numbers or not isinstance(y, Iterable) else cells_of(y)


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, NaT, NA of pandas, or masked, of any type."""
    if isinstance(label, float | np.floating):
        return math.isnan(label)
    if isinstance(label, np.datetime64 | np.timedelta64):
        return bool(np.isnat(label))
    return label is None or type(label).__name__ in MISSING


def cells_of(column: Any) -> list[Any]:
    """Return what a column or another collection holds, as a list."""
    for name in ("to_pylist", "to_list"):  # Arrow; pandas and polars
        if callable(method := getattr(column, name, None)):
            return list(method())
    return list(column)


def is_frame(X: Any) -> bool:
    """Return whether X has named columns."""
    return _names_of(X) is not None and callable(getattr(X, "__getitem__", None))


def is_sequence(cell: Any) -> bool:
    """Return whether one cell or row is a sequence: text, a list or an array."""
    return isinstance(cell, str | bytes | list | tuple) or len(getattr(cell, "shape", ())) > 0


def _names_of(X: Any) -> Names | None:
    # The type is asked: X.columns may be a column of that name, and in Arrow tables it is their content.
    for name in ("column_names", "columns"):
        if getattr(type(X), name, None) is not None:
            found = getattr(X, name)
            return None if found is None or isinstance(found, Mapping) else list(found)
    return None


def _refuse(X: Any) -> None:
    """Raise an error for collections whose sequences only their owner can name."""
    what = f"X is a {type(X).__name__}; give"
    data = X.dataset if isinstance(X, torch.utils.data.DataLoader) else X
    if isinstance(data, torch.utils.data.TensorDataset):
        loader = ".dataset" if data is not X else ""
        raise DataError(f"{what} its tensors: X{loader}.tensors[0], and X{loader}.tensors[1] as y")
    if isinstance(data, torch.utils.data.Dataset):
        labelled = "[x for x, _ in dataset], and [y for _, y in dataset] as y"
        raise DataError(f"{what} {labelled}; or list(dataset), if it has sequences alone")
    if data is not X:  # a loader may shuffle, and its batches are not sequences
        raise DataError(f"{what} what it loads: X.dataset")
    if isinstance(X, Mapping):
        raise DataError(f"{what} one of its entries, or list(X.values()): {join_names(map(str, X))}")
    if isinstance(X, set | frozenset):
        raise DataError(f"{what} a list: a set has no order")


def _refuse_repeated(moments: Any) -> None:
    """Raise an error if a sequence of a panel has a moment twice: its rows would be those of two."""
    if not moments.is_unique:
        *sequence, moment = moments[moments.duplicated()][0]
        said = f"sequence {', '.join(map(str, sequence))} of X has two rows at {moment}"
        raise DataError(f"{said}; number sequences from several frames anew, or drop one of the rows")


def _of_frame(X: Any, names: Names | None) -> tuple[Any, Names | None]:
    columns = _names_of(X) or []
    if len(set(columns)) < len(columns):
        return X, None
    kinds = {name: _kind(X[name]) for name in columns}
    found = set(kinds.values())
    if found == {"sequences"}:
        return _of_channels(_stacked([cells_of(X[name]) for name in columns], columns), columns, names)
    if found == {"text"} and len(columns) == 1:
        return cells_of(X[columns[0]]), None
    if found - {"numbers"}:
        odd = next(name for name in columns if kinds[name] != "numbers")
        said = f"column {odd!r} of X holds {kinds[odd]} beside other columns"
        raise DataError(f"{said}; give X[{odd!r}] if these are the sequences, else leave it out")
    # scikit-learn checks the names of pandas, polars and Arrow; others are not known to it.
    if getattr(type(X), "column_names", None) is None or isinstance(X, pa.Table):
        return X, None
    return np.column_stack([np.asarray(cells_of(X[name])) for name in columns]), None


def _kind(column: Any) -> str:
    """Return what the cells of a column are: numbers, text, sequences, or the name of their type."""
    dtype = getattr(column, "dtype", None)
    numeric = getattr(dtype, "is_numeric", None)  # of polars
    if getattr(dtype, "kind", "") in tuple("biuf") or (callable(numeric) and numeric()):
        return "numbers"
    known = [cell for cell in cells_of(column) if is_sequence(cell) or not is_missing(cell)]
    if all(isinstance(cell, NUMBERS) for cell in known):
        return "numbers"
    if any(isinstance(cell, str | bytes) for cell in known):
        return "text"
    return "sequences" if all(map(is_sequence, known)) else f"{type(known[0]).__name__}s"


def _stacked(columns: list[list[Any]], names: Names) -> list[Any]:
    """Return the cells of one column, or those of several as channels (length, channels) of one sequence."""
    columns = [[None if is_missing(cell) else cell for cell in column] for column in columns]
    if len(columns) == 1:
        return columns[0]
    rows: list[Any] = []
    for i, cells in enumerate(zip(*columns, strict=True)):
        lengths = [-1 if cell is None else len(cell) for cell in cells]
        if len(set(lengths)) > 1:
            wrong = next(c for c, length in enumerate(lengths) if length != lengths[0])
            raise DataError(
                f"row {i}: column {names[wrong]!r} has {max(lengths[wrong], 0)} positions, {names[0]!r} has "
                f"{max(lengths[0], 0)}; channels of one sequence are equally long"
            )
        rows.append(None if cells[0] is None else np.stack([np.asarray(cell) for cell in cells], axis=-1))
    return rows


def _of_list(rows: list[Any], names: Names | None) -> tuple[list[Any], Names | None]:
    if rows and all(isinstance(row, NUMBERS) for row in rows):
        raise DataError(ALONE.format(len(rows)))
    frames = [i for i, row in enumerate(rows) if is_frame(row)]
    if not frames:
        return [plain_array(row) for row in rows], None
    found = names or _names_of(rows[frames[0]]) or []
    for i in frames:
        _check_names(_names_of(rows[i]) or [], found, f"row {i}: ")
    return [_channels(row, found) if is_frame(row) else plain_array(row) for row in rows], found


def _of_channels(rows: list[Any], found: Names, names: Names | None) -> tuple[list[Any], Names]:
    """Return rows whose channels have the names ``found``, with channels in the order of training."""
    if names is None or names == found:
        return rows, found
    _check_names(found, names, "")
    order = [found.index(name) for name in names]
    return [None if row is None else np.asarray(row)[:, order] for row in rows], names


def _check_names(found: Names, names: Names, where: str) -> None:
    if len(set(found)) < len(found):
        raise DataError(f"{where}several columns have the same name: {join_names(map(str, found))}")
    if set(found) != set(names):
        had, wanted = (join_names(map(str, each)) for each in (found, names))
        raise DataError(f"{where}columns are {had}, but those of training, or of the first, are {wanted}")


def _channels(frame: Any, names: Names) -> np.ndarray:
    """Return the columns of a frame as channels (length, channels)."""
    return np.column_stack([np.asarray(frame[name]) for name in names])
