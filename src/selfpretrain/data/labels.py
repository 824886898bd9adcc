"""Labels, encoded as numbers: of imported columns of strings, and of the y of estimators.

A label is a class, a real number, a set of classes, or a class at every position; a missing one is None, NaN,
NaT, null, or NA of pandas. Distinct labels are never merged into one class.
"""

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError, SpecError
from .containers import is_missing, plain_labels
from .importing import TargetKind
from .importing.source import Part, is_list, lists_of, positions, word_lists
from .offsets import EXACT, offset_of
from .spec import Classes, ClassSets, PositionClasses, Reals, Target, TargetName
from .splits import check_present, check_splits

UNKNOWN = -1  # number of the class of an unlabelled sequence or position
MAX_WHOLE_CLASSES = 100  # above it, distinct whole numbers are real numbers, unless the target says otherwise
MAX_CLASSES = 10_000  # more classes than this in an imported column are an error
MAX_STORED = np.iinfo(np.int16).max  # most classes of multilabel targets, which are stored as int16
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
"""Number formats that are accepted."""
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?")
"""Number formats that programs write; 01 and +1 are names unless ``target`` is "reals"."""
MAX_FLOAT32 = float(np.finfo(np.float32).max)
SET_SEPARATORS = r"\s*[;|,]\s*"  # separators of the labels of a set in one cell
POSITION_SEPARATORS = r"[;|,\s]+"
"""Separators of labels of positions; without any, every character is a label."""
LETTERS = "; in text, a letter outside ASCII is 2 to 4 positions (bytes of UTF-8): repeat its label for each"
"""Advice if there are not as many labels as positions."""


# Encoded labels, however they were read.


@dataclass(frozen=True)
class EncodedLabels:
    """The labels of all sequences of a dataset."""

    targets: np.ndarray  # (n,) classes or real numbers, or (n, K) sets, or (T,) the classes of all positions
    names: tuple[str, ...]  # of classes; empty for real numbers
    lengths: np.ndarray  # (n,) of the sequences
    kind: TargetName

    @cached_property
    def present(self) -> np.ndarray:
        """(n, K) whether a class occurs in a sequence, at any position."""
        if self.kind == "sets":
            return self.targets > 0
        found = np.zeros((len(self.lengths), len(self.names)), dtype=bool)
        known = self.targets >= 0
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        found[owner[known], self.targets[known]] = True
        return found

    @property
    def strata(self) -> np.ndarray:
        """(n,) stratum for splitting: the class if there is exactly one, else 0; -1 if unlabelled."""
        if self.kind == "classes":
            return self.targets
        if self.kind == "reals":
            labelled = ~np.isnan(self.targets)
        elif self.kind == "sets":
            labelled = (self.targets >= 0).all(1)
        else:
            labelled = self.present.any(1)
        return np.where(labelled, 0, UNKNOWN)

    def check(self, split: np.ndarray, kept: np.ndarray) -> list[str]:
        """Check the labels of each split, for the sequences ``kept`` (n,), and return notes for the user.

        Raises:
            DataError: if a split cannot be used.
        """
        if self.kind in ("classes", "reals"):
            return check_splits(split[kept], self.targets[kept], self.names)
        return check_present(split[kept], self.present[kept], self.strata[kept] >= 0, self.names)

    def of_examples(self, starts: np.ndarray, lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the targets of examples: whole sequences, or windows of them.

        Args:
            starts, lengths: positions of the examples in the flat array.
            rows: the sequence that each example is from.
        """
        return at_positions(self.targets, starts, lengths) if self.kind == "positions" else self.targets[rows]

    def target(self, split: np.ndarray) -> Target:
        """Return the target spec; real numbers are standardised by the training split."""
        if self.kind == "reals":
            known = self.targets[(split == 0) & ~np.isnan(self.targets)]
            return Reals(
                centre=float(known.mean(dtype=np.float64)), spread=float(known.std(dtype=np.float64))
            )
        if self.kind == "classes":
            return Classes(self.names)
        return ClassSets(self.names) if self.kind == "sets" else PositionClasses(self.names)


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


# Columns of imported strings.


@dataclass
class LabelColumn:
    """The labels of imported sequences: strings, or lists of strings.

    With ``target="auto"``, words are classes, and so are whole numbers of at most 100 kinds; other numbers
    are real numbers. Every distinct string is a class of its own: "1", "01", "1.0" and "1e0" are four.

    For sets and positions, a text cell holds several labels, separated by ``;``, ``|`` or ``,``; labels of
    positions also by spaces, or by nothing if each is one character. An empty cell is unlabelled; an empty
    list is the empty set.
    """

    target: TargetKind = "auto"
    column: str = "label"
    notes: list[str] = field(default_factory=list)  # notes for the user on how labels were read
    offset: float = 0.0  # what was subtracted from real numbers

    def separate(self, part: Part, name: Callable[[int], str]) -> Part:
        """Return the part with one label per sequence, or for sets and positions with lists of labels.

        Args:
            name: returns how messages name a sequence of the source.

        Raises:
            DataError: if there are lists instead of labels, or not as many labels as positions.
        """
        labels = part.columns["label"]
        if self.target not in ("sets", "positions"):
            if is_list(labels.type):
                raise DataError(
                    f"{self.column} holds lists; say --target sets, or --target positions for one label each"
                )
            return part
        if not is_list(labels.type):
            labels = _split_cells(labels, self.target)
        counts = _counts(labels)
        wrong = (counts >= 0) & (counts != part.lengths)
        if self.target == "positions" and wrong.any():
            row = int(wrong.argmax())
            ends = part.lengths.cumsum()
            letters = part.flat[ends[row] - part.lengths[row] : ends[row]]
            advice = LETTERS if letters.dtype == np.uint8 and letters.max(initial=0) > 127 else ""
            raise DataError(
                f"{name(int(part.rows[row]))}: {counts[row]:,} labels for {part.lengths[row]:,} positions; "
                f"there must be one for each{advice}"
            )
        return Part(part.flat, part.lengths, part.columns | {"label": labels}, part.rows)

    def encode(self, part: Part, name: Callable[[int], str]) -> EncodedLabels:
        """Return all labels of a part returned by ``separate``; labels of truncated positions are dropped.

        Raises:
            DataError: if there are words among real numbers, fewer than two classes, or too many.
        """
        labels, rows, lengths = part.columns["label"], part.rows, part.lengths
        if self.target not in ("sets", "positions"):
            targets, names = self._encode(labels, lambda i: name(int(rows[i])))
            return EncodedLabels(targets, names, lengths, "classes" if names else "reals")
        labels = _shortened(labels, lengths) if self.target == "positions" else labels
        counts = _counts(labels)
        owner = np.repeat(rows, counts.clip(min=0))
        codes, names = self._encode(labels.flatten(), lambda i: name(int(owner[i])))
        if self.target == "sets":
            return EncodedLabels(indicators(codes, counts, len(names)), names, lengths, "sets")
        flat = np.full(int(lengths.sum()), UNKNOWN, dtype=np.int16)
        flat[np.repeat(counts >= 0, lengths)] = codes
        return EncodedLabels(flat, names, lengths, "positions")

    def _encode(self, labels: pa.Array, where: Callable[[int], str]) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return (n,) classes, -1 if unlabelled, and their names; or (n,) real numbers and no names."""
        encoded = labels.dictionary_encode()
        words = encoded.dictionary.to_pylist()
        index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        if self.target == "reals" or (self.target == "auto" and look_real(words)):
            return self._numbers(words, index, where), ()
        if len(words) > MAX_CLASSES:
            raise DataError(f"{self.column} holds more than {MAX_CLASSES:,} classes; is it the right column?")
        numeric = all(map(NUMBER.fullmatch, words))
        names = sorted(words, key=lambda word: (float(word), len(word), word) if numeric else word)
        if len(names) < 2:
            found = f"only class {names[0]!r}" if names else "no label"
            raise DataError(f"{self.column} holds {found}; there must be two classes or more to tell apart")
        self.notes += _alike(names, _value, "equal as numbers") + _alike(names, _look, "written almost alike")
        rank = {name: number for number, name in enumerate(names)}
        # Index -1 (unlabelled) takes the last entry.
        return np.array([*(rank[word] for word in words), UNKNOWN], dtype=np.int64)[index], tuple(names)

    def _numbers(self, words: list[str], index: np.ndarray, where: Callable[[int], str]) -> np.ndarray:
        """Return (n,) real numbers, NaN if unlabelled.

        Args:
            words: the distinct labels.
            index: (n,) of the label of each sequence; -1 if unlabelled.
        """
        written = NUMBER if self.target == "reals" else PLAIN
        values = [float(word) if written.fullmatch(word) else np.inf for word in words]
        odd = next((i for i, value in enumerate(values) if abs(value) > MAX_FLOAT32), None)
        if odd is not None:
            said = f"{self.column} is {words[odd][:80]!r}, which is no finite number"
            advice = "correct it, empty it, or use --target classes"
            raise DataError(f"{where(int((index == odd).argmax()))}: {said}; {advice}")
        if self.target == "auto":
            self.notes.append(f"{self.column} is taken for real numbers; --target classes makes it classes")
        self.offset = offset_of(np.array(values))
        rounded = [word for word in words if _is_rounded(word, self.offset)]
        if rounded:
            example = f"e.g. {rounded[0]} to {float(rounded[0]):.8g}"
            self.notes.append(
                f"{self.column}: {len(rounded):,} whole numbers are rounded to float32, {example}; --target "
                f"classes keeps them apart"
            )
        return (np.array([*values, np.nan]) - self.offset)[index].astype(np.float32)


def look_real(words: list[str]) -> bool:
    """Return whether most of the distinct labels are numbers that cannot be classes."""
    values = [float(word) for word in words if PLAIN.fullmatch(word)]
    if 2 * len(values) <= len(words):
        return False
    return len(words) > MAX_WHOLE_CLASSES or any(value % 1 for value in values)


def _is_rounded(word: str, offset: float) -> bool:
    """Return whether float32 would change this whole number, after the offset is subtracted."""
    if len(word) < 8 or not PLAIN.fullmatch(word) or abs(float(word)) < EXACT or float(word) % 1:
        return False
    return Decimal(word) != Decimal(offset) + Decimal(float(np.float32(float(word) - offset)))


def _alike(names: Iterable[str], what: Callable[[str], Hashable], said: str) -> list[str]:
    """Return a note on classes that agree in some respect, so that one class may have been meant."""
    groups = defaultdict(list)
    for name in names:
        groups[what(name)].append(name)
    found = [group for key, group in groups.items() if len(group) > 1 and key is not None]
    if not found:
        return []
    shown = "; ".join(", ".join(repr(name[:40]) for name in group[:5]) for group in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return [f"different classes are {said}: {shown}{more}; write them alike if they are one"]


def _value(name: str) -> Decimal | None:
    return Decimal(name) if NUMBER.fullmatch(name) and len(name) < 400 else None


def _look(name: str) -> str:
    """Return a name without differences that are easily overlooked: case, inner spaces, Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _counts(labels: pa.Array) -> np.ndarray:
    """Return (n,) the lengths of lists; -1 where there is none."""
    counts: np.ndarray = pc.list_value_length(labels).fill_null(-1).to_numpy()
    return counts


def _split_cells(labels: pa.Array, target: TargetKind) -> pa.Array:
    """Return lists of the labels in text cells; see ``LabelColumn``."""
    separators = SET_SEPARATORS if target == "sets" else POSITION_SEPARATORS
    if target == "sets" or pc.any(pc.match_substring_regex(labels, separators)).as_py():
        return word_lists(pc.split_pattern_regex(pc.utf8_trim(labels, "[] \t"), separators))
    letters = [None if cell is None else list(cell) for cell in labels.to_pylist()]
    return pa.array(letters, pa.large_list(pa.large_string()))


def _shortened(labels: pa.Array, lengths: np.ndarray) -> pa.Array:
    """Truncate every list to the given length."""
    counts = _counts(labels).clip(min=0)
    if not (counts > lengths).any():
        return labels
    owner, place = positions(counts)
    kept = place < lengths[owner]
    known = labels.is_valid().to_numpy(zero_copy_only=False)
    return lists_of(labels.flatten().filter(pa.array(kept)), np.minimum(counts, lengths), known)


# The y of estimators: any hashable labels.


def classes_of(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers (n,), -1 where the label is missing, and the sorted classes (K,).

    Raises:
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

    Args:
        classes: the known classes; None: those found in y.

    Raises:
        DataError: if y is neither a table of 0 and 1, with a column per class, nor sets of labels.
        SpecError: if a label is not among the known classes.
    """
    y = plain_labels(y)
    if getattr(y, "ndim", 1) == 2:
        table = _table(y)
        if classes is None:
            columns = getattr(y, "columns", None)
            classes = np.arange(table.shape[1]) if columns is None else labels_from(list(columns))
        if table.shape[1] != len(classes):
            raise DataError(f"y has {table.shape[1]} columns, but training had {len(classes)} classes")
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
    padded = getattr(y, "ndim", 1) == 2
    rows = _rows(y, letters=True)
    if len(rows) != len(lengths):
        raise DataError(f"y has labels for {len(rows)} sequences, but there are {len(lengths)}")
    labels: list[Any] = []
    for i, (row, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
        if row is not None and len(row) != length and not (padded and len(row) > length):
            advice = LETTERS if len(row) < length and all(len(str(label)) == 1 for label in row) else ""
            raise DataError(
                f"row {i}: {len(row)} labels for {length} positions; there must be one for each{advice}"
            )
        labels += [None] * length if row is None else row[:length]
    if classes is None:
        codes, classes = classes_of(labels)
    else:
        codes = codes_of(labels, classes)
    return at_positions(codes, lengths.cumsum() - lengths, lengths), classes


def codes_of(labels: Sequence[Any], classes: np.ndarray) -> np.ndarray:
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
        raise SpecError(f"label {unknown[0]!r} is none of the {len(number)} classes of training")
    return np.array([UNKNOWN if label is None else number[label] for label in plain], dtype=np.int64)


def weights_of(
    wanted: Mapping[Any, int | float] | Literal["balanced"] | None,
    classes: np.ndarray,
    balanced: Sequence[float],
) -> tuple[float, ...]:
    """Return one loss weight per class, or () if ``wanted`` is None; classes not named in it have weight 1.

    Args:
        balanced: the weights for "balanced".

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
    if len({str if isinstance(label, str) else type(label) for label in labels}) == 1:
        found = np.array(labels)
        if found.ndim == 1 and found.dtype.kind in "biufU":
            return found
    return _objects(labels)


def _objects(labels: Sequence[Any]) -> np.ndarray:
    held = np.empty(len(labels), dtype=object)
    held[:] = labels
    return held


def _column(y: Any, dtype: type | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return y as an array (n,), in which a tuple or frozenset is one label, and which labels are known (n,).

    Args:
        dtype: into which all known labels can be converted.

    Raises:
        ValueError: if y has several columns or infinite numbers, from scikit-learn.
    """
    from sklearn.utils import column_or_1d
    from sklearn.utils.validation import assert_all_finite

    if isinstance(y, list | tuple) and _needs_objects(y):
        y = _objects(y)
    else:
        y = column_or_1d(np.asarray(y), warn=True)
    if y.dtype.kind == "O":
        known = np.array([not is_missing(label) for label in y], dtype=bool)
    elif y.dtype.kind in "mM":
        known = ~np.isnat(y)
    else:
        known = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), dtype=bool)
    if dtype or y.dtype.kind in "biufUS":
        assert_all_finite(y[known].astype(dtype or y.dtype), input_name="y")
    return y, known


def _needs_objects(y: Sequence[Any]) -> bool:
    """Return whether an array of another type would change labels: NumPy turns NaN among words into "nan"."""
    numbers = [isinstance(label, float | np.floating) for label in y]
    if any(numbers) and any(isinstance(label, str) for label in y):
        return True
    return any(
        isinstance(label, tuple | frozenset) or (not is_number and is_missing(label))
        for label, is_number in zip(y, numbers, strict=True)
    )


def _rows(y: Any, letters: bool = False) -> list[list[Any] | None]:
    """Return the list of labels of every sequence, None where it is unlabelled.

    Args:
        letters: whether a string is a list of labels.

    Raises:
        DataError: naming the first row that is no list.
    """
    rows: list[list[Any] | None] = []
    for row in y:
        if isinstance(row, list | tuple | set | frozenset | np.ndarray) or (letters and isinstance(row, str)):
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
