"""Label encoding: classes (any hashable value), label sets or real numbers, with missing labels."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite

from ..errors import DataError, SpecError

UNKNOWN = -1
MOST = np.iinfo(np.int16).max
"""Most classes of multilabel targets, which are stored as int16."""


def classes_of(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers (n,), -1 where the label is None or NaN, and the sorted classes (K,).

    Raises:
        DataError: if sequences have several labels.
        ValueError: if y is not a classification target, from scikit-learn.
    """
    wide = getattr(y, "ndim", 1) == 2 and y.shape[1] > 1
    if wide or (isinstance(y, list) and any(isinstance(row, list | set | np.ndarray) for row in y)):
        raise DataError(
            "y has several labels for a sequence; MultilabelClassifier takes a set for each, "
            "PositionClassifier one at every position"
        )
    y = _flat(y)
    known = ~_missing(y)
    if y.dtype.kind in "biufUS":
        assert_all_finite(y[known], input_name="y")
        check_classification_targets(y[known])
        classes, found = np.unique(y[known], return_inverse=True)
    else:
        classes, found = _in_order(y[known].tolist())
    codes = np.full(len(y), UNKNOWN, dtype=np.int64)
    codes[known] = found
    return codes, classes


def numbers_of(y: Any) -> np.ndarray:
    """Return real numbers (n,), NaN where y is None or NaN.

    Raises:
        ValueError: if y holds anything else, from scikit-learn.
    """
    y = _flat(y)
    known = ~_missing(y)
    found = np.full(len(y), np.nan, dtype=np.float32)
    assert_all_finite(y[known].astype(np.float64), input_name="y")
    found[known] = y[known].astype(np.float64)
    return found


def sets_of(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return indicators (n, K), 0 or 1, with rows of -1 for unlabelled examples; and the classes (K,).

    Raises:
        DataError: if y is neither a table of 0 and 1 nor sets of labels.
    """
    if getattr(y, "ndim", 1) == 2:
        return _indicated(y), _columns(y)
    rows = [None if _missing_row(row) else list(row) for row in _rows(y)]
    classes = classes_of(list(itertools.chain.from_iterable(row or [] for row in rows)))[1]
    return _marked(rows, classes), classes


def indicators(y: Any, classes: np.ndarray) -> np.ndarray:
    """Return indicators (n, K) as ``sets_of`` does, for known classes.

    Raises:
        DataError: if y is a table whose number of columns is not that of the classes.
        SpecError: if a label is not among the classes.
    """
    if getattr(y, "ndim", 1) != 2:
        return _marked([None if _missing_row(row) else list(row) for row in _rows(y)], classes)
    found = _indicated(y)
    if found.shape[1] != len(classes):
        raise DataError(f"y has {found.shape[1]} columns, but training had {len(classes)} classes")
    return found


def positions_of(
    y: Any, lengths: np.ndarray, classes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers (n, L) of all positions, -1 where unknown or padding, and the classes.

    Args:
        lengths: (n,) lengths of the sequences. Rows of an array may have more labels, at padding; lists may
            not.
        classes: the known classes; None: those found in y.

    Raises:
        DataError: if the number of labels of a sequence is not its length.
    """
    padded = getattr(y, "ndim", 1) == 2
    rows = [None if row is None else list(row) for row in _rows(y, letters=True)]
    if len(rows) != len(lengths):
        raise DataError(f"y has labels for {len(rows)} sequences, but there are {len(lengths)}")
    for i, (row, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
        if row is not None and len(row) != length and not (padded and len(row) > length):
            raise DataError(f"row {i}: {len(row)} labels for {length} positions; there must be one for each")
    kept = [[None] * n if row is None else row[:n] for row, n in zip(rows, lengths.tolist(), strict=True)]
    flat = list(itertools.chain.from_iterable(kept))
    if classes is None:
        codes, classes = classes_of(flat)
    else:
        codes = codes_of(flat, classes)
    found = np.full((len(rows), int(lengths.max(initial=0))), UNKNOWN, dtype=np.int16)
    found[np.arange(found.shape[1]) < lengths[:, None]] = codes
    return found, classes


def codes_of(labels: Sequence[Any], classes: np.ndarray) -> np.ndarray:
    """Return the index (n,) of every label in ``classes``, -1 for None and NaN.

    Raises:
        SpecError: if a label is not one of the classes.
    """
    number = {label: i for i, label in enumerate(classes.tolist())}
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    unknown = [label for label in plain if not (label in number or label is None or _is_nan(label))]
    if unknown:
        raise SpecError(f"label {unknown[0]!r} is none of the {len(number)} classes of training")
    return np.array([number.get(label, UNKNOWN) for label in plain], dtype=np.int64)


def weights_of(
    wanted: Mapping[Any, int | float] | Literal["balanced"] | None,
    classes: np.ndarray,
    balanced: Sequence[float],
) -> tuple[float, ...]:
    """Return one loss weight per class, or () if ``wanted`` is None; classes not named in it have weight 1.

    Args:
        balanced: the weights for "balanced".

    Raises:
        SpecError: if a weight is given for a label that is not a class.
    """
    if wanted is None:
        return ()
    if not isinstance(wanted, Mapping):
        return tuple(balanced)
    unknown = [label for label in wanted if label not in list(classes)]
    if unknown:
        raise SpecError(f"class_weight names {unknown[0]!r}, which is not a class of y")
    return tuple(float(wanted.get(label, 1.0)) for label in classes)


def _rows(y: Any, letters: bool = False) -> list[Any]:
    rows = list(y)
    odd = [row for row in rows if not (_several(row) or (letters and isinstance(row, str)))]
    if odd:
        raise DataError(f"every sequence needs a list of labels, not {str(odd[0])[:40]!r}")
    return rows


def _several(row: Any) -> bool:
    return isinstance(row, list | tuple | set | frozenset | np.ndarray) or _missing_row(row)


def _missing_row(row: Any) -> bool:
    return row is None or _is_nan(row)


def _indicated(y: Any) -> np.ndarray:
    """Return indicators (n, K) from a dense or sparse table of 0 and 1; rows with NaN become -1."""
    dense = np.asarray(y.toarray() if callable(getattr(y, "toarray", None)) else y)
    table = dense.astype(np.float64) if dense.dtype.kind in "biufO" else np.full(dense.shape, 2.0)
    unknown = np.isnan(table).any(1)
    odd = ~np.isin(table[~unknown], (0, 1))
    if odd.any():
        raise DataError(f"a table of labels holds 0 and 1, not {str(dense[~unknown][odd][0])[:40]!r}")
    table[unknown] = UNKNOWN
    return table.astype(np.int16)


def _columns(y: Any) -> np.ndarray:
    names = getattr(y, "columns", None)
    return np.arange(y.shape[1]) if names is None else labels_from(list(names))


def _marked(rows: Sequence[list[Any] | None], classes: np.ndarray) -> np.ndarray:
    if len(classes) > MOST:
        raise DataError(f"y holds more than {MOST:,} classes")
    found = np.zeros((len(rows), len(classes)), dtype=np.int16)
    for i, row in enumerate(rows):
        if row is None:
            found[i] = UNKNOWN
        else:
            codes = codes_of(row, classes)
            if len(codes) > len(np.unique(codes)):
                raise DataError(f"row {i}: it has a label twice; is y a table of 0 and 1? Make it an array")
            found[i, codes] = 1
    return found


def labels_from(labels: list[Any]) -> np.ndarray:
    """Return labels as an array (K,): of strings or numbers if all have one type, else of objects."""
    if len({str if isinstance(label, str) else type(label) for label in labels}) == 1:
        found = np.array(labels)
        if found.ndim == 1 and found.dtype.kind in "biufU":
            return found
    held = np.empty(len(labels), dtype=object)
    held[:] = labels
    return held


def _flat(y: Any) -> np.ndarray:
    """Return y as an array (n,); a tuple or frozenset in it is one label."""
    if isinstance(y, list | tuple) and any(isinstance(label, tuple | frozenset | type(None)) for label in y):
        held = np.empty(len(y), dtype=object)
        held[:] = y
        return held
    return column_or_1d(np.asarray(y), warn=True)


def _missing(y: np.ndarray) -> np.ndarray:
    """Return whether each label is None or NaN (n,)."""
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind != "O":
        return np.zeros(len(y), dtype=bool)
    return np.array([label is None or _is_nan(label) for label in y], bool)


def _is_nan(label: Any) -> bool:
    return isinstance(label, float) and math.isnan(label)


def _in_order(labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, sorted where comparable, and the index of each label among them."""
    try:
        kinds = list(dict.fromkeys(labels))
    except TypeError as error:
        raise DataError(f"labels must be hashable, like words, numbers or tuples: {error}") from error
    try:
        kinds.sort()
    except TypeError:
        kinds.sort(key=lambda kind: (type(kind).__name__, repr(kind)))
    classes = labels_from(kinds)
    number = {kind: i for i, kind in enumerate(kinds)}
    return classes, np.array([number[label] for label in labels], dtype=np.int64)
