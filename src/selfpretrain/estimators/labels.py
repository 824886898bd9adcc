"""Labels as people hold them: things of any hashable kind, real numbers, and none where unknown."""

import math
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite

from ..errors import DataError

UNKNOWN = -1


def classes_of(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the class of every example, -1 where the label is None or NaN; and the classes in order.

    Raises:
        ValueError: if these are no labels, as scikit-learn says it.
    """
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
    """(n,) real numbers, NaN where they are None or NaN.

    Raises:
        ValueError: if they are not numbers, as scikit-learn says it.
    """
    y = _flat(y)
    known = ~_missing(y)
    found = np.full(len(y), np.nan, dtype=np.float32)
    assert_all_finite(y[known].astype(np.float64), input_name="y")
    found[known] = y[known].astype(np.float64)
    return found


def labels_from(labels: list[Any]) -> np.ndarray:
    """Labels as an array; what are not all words or all numbers stay what they are."""
    if len({str if isinstance(label, str) else type(label) for label in labels}) == 1:
        found = np.array(labels)
        if found.ndim == 1 and found.dtype.kind in "biufU":
            return found
    held = np.empty(len(labels), dtype=object)
    held[:] = labels
    return held


def _flat(y: Any) -> np.ndarray:
    """(n,) whatever is in it; tuples are things of their own."""
    if isinstance(y, list | tuple) and any(isinstance(label, tuple | frozenset | type(None)) for label in y):
        held = np.empty(len(y), dtype=object)
        held[:] = y
        return held
    return column_or_1d(np.asarray(y), warn=True)


def _missing(y: np.ndarray) -> np.ndarray:
    """(n,) whether a label is None or NaN."""
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind != "O":
        return np.zeros(len(y), dtype=bool)
    return np.array([label is None or (isinstance(label, float) and math.isnan(label)) for label in y], bool)


def _in_order(labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The kinds of labels, sorted if they can be, and the number of each label's kind."""
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
