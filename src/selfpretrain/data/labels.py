"""Labels of estimators, encoded as numbers: the y of ``fit``, with any hashable labels.

A label is a class, a real number, a set of classes, or a class at every position; a missing one is None, NaN,
NaT, null, or NA of pandas. Distinct labels are never merged into one class.
"""

import itertools
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np

from ..errors import DataError, SpecError
from .containers import is_frame, is_missing, is_sequence, plain_array, plain_labels

UNKNOWN = -1  # number of the class of an unlabelled sequence or position
MAX_STORED = np.iinfo(np.int16).max  # most classes of multilabel targets, which are stored as int16
EXACT = 2**53  # greatest whole number up to which floats have all of them
MEANT_MISSING = (-1, -100)  # what other libraries write for a missing label
LETTERS = "; in text, a letter outside ASCII is 2 to 4 positions (bytes of UTF-8): repeat its label for each"
"""Advice if there are not as many labels as positions."""


def indicators(codes: np.ndarray, counts: np.ndarray, n_classes: int) -> np.ndarray:
    """Return (n, K) whether each sequence has each class, from the class numbers of all labels.

    Args:
        codes: class numbers of the labels of all sequences, end to end; -1 is ignored.
        counts: (n,) number of labels of each sequence; -1 where it is unlabelled, which gives a row of -1.
    """
    found = np.zeros((len(counts), n_classes), dtype=np.int16)
    found[counts < 0] = UNKNOWN
    owner = np.repeat(np.arange(len(counts)), counts.clip(min=0))
    found[owner[codes >= 0], codes[codes >= 0]] = 1
    return found


def at_positions(codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return (n, L) the classes of the positions of examples, padded with -1.

    Args:
        codes: (T,) classes of all positions.
        starts, lengths: (n,) positions of the examples.
    """
    found = np.full((len(starts), int(lengths.max(initial=0))), UNKNOWN, dtype=np.int16)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        found[row, :length] = codes[start : start + length]
    return found


def doubts(classes: np.ndarray) -> list[str]:
    """Return a note on sorted classes 0, 1, 2 ... with a lower one that may stand for a missing label."""
    if len(classes) < 3 or classes.dtype.kind != "i" or classes[0] not in MEANT_MISSING:
        return []
    if (classes[1:] != np.arange(len(classes) - 1)).any():
        return []
    return [f"y: {classes[0]} is a class like 0 and 1; missing labels are NaN, None or masked"]


def classes_of(y: Any, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers (n,), -1 where the label is missing, and the sorted classes (K,).

    Args:
        classes: the known classes; None: those found in y.

    Raises:
        SpecError: if a label is not among the known classes.
        DataError: if sequences have several labels.
        ValueError: if y is not a classification target, from scikit-learn.
    """
    from sklearn.utils.multiclass import check_classification_targets

    y = plain_labels(y)
    wide = getattr(y, "ndim", 1) == 2 and y.shape[1] > 1
    if wide or (isinstance(y, list) and any(isinstance(row, list | set | np.ndarray) for row in y)):
        raise DataError(
            "y has several labels for a sequence; MultilabelClassifier takes a set for each, "
            "PositionClassifier one at every position"
        )
    y, known = _column(y)
    if classes is not None:
        return codes_of(y, classes), classes
    if y.dtype.kind in "biufUS":
        check_classification_targets(y[known])
        classes, found = np.unique(y[known], return_inverse=True)
    else:
        classes, found = _sorted_classes(y[known].tolist())
    codes = np.full(len(y), UNKNOWN, dtype=np.int64)
    codes[known] = found
    return codes, classes


def numbers_of(y: Any) -> np.ndarray:
    """Return real numbers (n,), NaN where y is missing.

    Raises:
        ValueError: if y holds anything else, from scikit-learn.
    """
    y, known = _column(plain_labels(y), np.float64)
    found = np.full(len(y), np.nan)
    found[known] = y[known].astype(np.float64)
    return found


def sets_of(y: Any, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return indicators (n, K), 0 or 1, with rows of -1 for unlabelled examples; and the classes (K,).

    Raises:
        DataError: if y is neither a table of 0 and 1, with a column per class, nor sets of labels.
        SpecError: if a label is not among the known classes.
    """
    y = plain_labels(y)
    if getattr(y, "ndim", 1) == 2:
        table = _table(y)
        columns = getattr(y, "columns", None)
        names = list(range(table.shape[1])) if columns is None else list(columns)
        if len(set(names)) < len(names):
            raise DataError("several columns of y have the same name; rename them, each is a label")
        classes = labels_from(names) if classes is None else classes
        if len(names) != len(classes):
            raise DataError(f"y has {len(names)} columns, but training had {len(classes)} classes")
        wanted = classes.tolist()
        if columns is not None and set(names) == set(wanted):
            table = table[:, [names.index(name) for name in wanted]]
        elif columns is not None and list(range(len(names))) not in (names, wanted):
            odd = next(name for name in names if name not in wanted)
            raise DataError(
                f"y has a column {odd!r}, which is not one of the {len(classes)} classes of training"
            )
        return table, classes
    rows = _rows(y)
    counts = np.array([UNKNOWN if row is None else len(row) for row in rows], dtype=np.int64)
    labels = list(itertools.chain.from_iterable(row or [] for row in rows))
    if classes is None:
        classes = classes_of(labels)[1]
    if len(classes) > MAX_STORED:
        raise DataError(f"y holds more than {MAX_STORED:,} classes")
    codes = codes_of(labels, classes)
    found = indicators(codes, counts, len(classes))
    owner = np.repeat(np.arange(len(rows)), counts.clip(min=0))
    n_labels = np.bincount(owner[codes >= 0], minlength=len(rows))
    twice = (counts >= 0) & (n_labels > found.sum(1))
    if twice.any():
        row = int(twice.argmax())
        raise DataError(f"row {row}: it has a label twice; is y a table of 0 and 1? Make it an array")
    if set(classes.tolist()) == {0, 1} and found.size and (found != 0).all() and (found > 0).any():
        raise DataError("every sequence has both labels, 0 and 1; is y a table of 0 and 1? Make it an array")
    return found, classes


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
    y = plain_labels(y)
    y = np.asarray(y) if is_frame(y) else y  # iterated, a frame gives the names of its columns
    padded = getattr(y, "ndim", 1) == 2
    rows = _rows(y, letters=True)
    if len(rows) != len(lengths):
        raise DataError(f"y has labels for {len(rows)} sequences, but there are {len(lengths)}")
    labels: list[Any] = []
    for i, (row, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
        if row is not None and len(row) != length and not (padded and len(row) > length):
            advice = LETTERS if len(row) < length and all(len(str(label)) == 1 for label in row) else ""
            both = f"{len(row)} labels for {length} positions"
            raise DataError(f"row {i}: {both}; there must be one for each{advice}")
        labels += [None] * length if row is None else row[:length]
    if classes is None:
        codes, classes = classes_of(labels)
    else:
        codes = codes_of(labels, classes)
    return at_positions(codes, lengths.cumsum() - lengths, lengths), classes


def codes_of(labels: Sequence[Any] | np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the index (n,) of every label in ``classes``, -1 for missing ones.

    Raises:
        SpecError: if a label is not one of the classes.
    """
    number = {label: i for i, label in enumerate(classes.tolist())}
    # A missing label becomes None, and is not looked up: comparing NA of pandas with a class is an error.
    plain = [
        None if is_missing(label) else label.item() if isinstance(label, np.generic) else label
        for label in labels
    ]
    unknown = [label for label in plain if label is not None and label not in number]
    if unknown:
        raise SpecError(f"label {unknown[0]!r} is not one of the {len(number)} classes of training")
    return np.array([UNKNOWN if label is None else number[label] for label in plain], dtype=np.int64)


def weights_of(
    wanted: Mapping[Any, int | float] | Literal["balanced"] | None,
    classes: np.ndarray,
    balanced: Sequence[float],
) -> tuple[float, ...]:
    """Return one loss weight per class, or () if ``wanted`` is None; classes not named in it have weight 1.

    Raises:
        SpecError: if a weight is given for a label that is not a class, or is not positive.
    """
    if wanted is None:
        return ()
    if not isinstance(wanted, Mapping):
        return tuple(balanced)
    unknown = [label for label in wanted if label not in list(classes)]
    if unknown:
        raise SpecError(f"class_weight names {unknown[0]!r}, which is not a class of y")
    wrong = {label: weight for label, weight in wanted.items() if not weight > 0}
    if wrong:
        raise SpecError(f"class_weight={wrong!r} is not offered; weights must be above 0")
    return tuple(float(wanted.get(label, 1.0)) for label in classes)


def labels_from(labels: list[Any]) -> np.ndarray:
    """Return labels as an array (K,): of strings or numbers if all have one type, else of objects."""
    kinds = {str if isinstance(label, np.str_) else type(label) for label in labels}
    if kinds == {str} or (len(kinds) == 1 and not any(issubclass(kind, str) for kind in kinds)):
        found = np.array(labels)
        if found.ndim == 1 and found.dtype.kind in "biufU" and found.tolist() == labels:
            return found
    return _objects(labels)


def _objects(labels: Sequence[Any]) -> np.ndarray:
    held = np.empty(len(labels), dtype=object)
    held[:] = labels
    return held


def _column(y: Any, dtype: type | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return y (n,), in which a tuple or frozenset is one label, and which labels are known (n,)."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.validation import assert_all_finite

    objects = False  # whether an array of another type would change labels
    if isinstance(y, list | tuple):
        others = [label for label in y if not isinstance(label, float | np.floating)]
        # NumPy turns numbers and NaN among words into words.
        words = sum(isinstance(label, str) for label in others)
        mixed = 0 < words < len(y)
        objects = mixed or any(isinstance(x, tuple | frozenset) or is_missing(x) for x in others)
        # NumPy cuts the text of members of an Enum that are words to the lengths of these.
        objects |= any(isinstance(x, str) and type(x) not in (str, np.str_) for x in others)
        # Beside NaN, whole numbers become floats, of which not all are as exact.
        whole = (x for x in others if isinstance(x, Integral) and not isinstance(x, np.timedelta64))
        objects |= any(abs(int(x)) > EXACT for x in whole)
    y = _objects(y) if objects else column_or_1d(np.asarray(y), warn=True)
    if y.dtype.kind in "mM" and np.datetime_data(y.dtype)[0] == "ns":  # else Python has no time for them
        coarser = y.astype(f"{y.dtype.kind}8[us]")
        y = coarser if (np.isnat(y) | (coarser == y)).all() else y
    if y.dtype.kind == "O":
        known = np.array([not is_missing(label) for label in y], dtype=bool)
    elif y.dtype.kind in "mM":
        known = ~np.isnat(y)
    else:
        known = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), dtype=bool)
    if dtype or y.dtype.kind in "biufUS":
        assert_all_finite(y[known].astype(dtype or y.dtype), input_name="y")
    return y, known


def _rows(y: Any, letters: bool = False) -> list[list[Any] | None]:
    """Return the list of labels of every sequence, None where it is unlabelled."""
    rows: list[list[Any] | None] = []
    for row in map(plain_array, y):
        text = isinstance(row, bytes) or (isinstance(row, str) and not letters)
        if isinstance(row, set | frozenset) or (is_sequence(row) and not text):
            rows.append(list(row))
        elif is_missing(row):
            rows.append(None)
        else:
            raise DataError(f"every sequence needs a list of labels, not {str(row)[:40]!r}")
    return rows


def _table(y: Any) -> np.ndarray:
    """Return indicators (n, K) from a dense or sparse table of 0 and 1; rows with a missing one become -1."""
    dense = np.asarray(y.toarray() if callable(getattr(y, "toarray", None)) else y)
    if dense.dtype.kind == "O":
        missing = [is_missing(cell) for cell in dense.flat]
        dense = np.where(np.reshape(missing, dense.shape), np.nan, dense)
    table = dense.astype(np.float64) if dense.dtype.kind in "biufO" else np.full(dense.shape, 2.0)
    unknown = np.isnan(table).any(1)
    odd = ~np.isin(table[~unknown], (0, 1))
    if odd.any():
        raise DataError(f"a table of labels holds 0 and 1, not {str(dense[~unknown][odd][0])[:40]!r}")
    table[unknown] = UNKNOWN
    return table.astype(np.int16)


def _sorted_classes(labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, sorted where comparable, and the index of each label among them."""
    try:
        kinds = list(dict.fromkeys(labels))
    except TypeError as error:
        raise DataError(f"labels must be hashable, like words, numbers or tuples: {error}") from error
    try:
        kinds.sort()
    except TypeError:
        kinds.sort(key=lambda kind: (type(kind).__name__, repr(kind)))
    number = {kind: i for i, kind in enumerate(kinds)}
    return labels_from(kinds), np.array([number[label] for label in labels], dtype=np.int64)
