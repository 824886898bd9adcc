"""Labels of imported columns, strings or lists of strings, encoded as numbers.

Distinct labels are never merged into one class. See ``data.labels`` for those of estimators.
"""

import ast
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError
from ..labels import LETTERS, UNKNOWN, at_positions, indicators
from ..offsets import EXACT, offset_of
from ..sequences import Sequences, positions
from ..spec import Classes, ClassSets, PositionClasses, Reals, Target, TargetName
from ..splits import check_present, check_splits
from . import TargetKind
from .source import is_list, lists_of, notes_on, word_lists

MAX_WHOLE_CLASSES = 100  # above it, distinct whole numbers are real numbers, unless the target says otherwise
MAX_CLASSES = 10_000  # more classes than this in an imported column are an error
MAX_LONE = 10  # more classes than this that have one example each are an error
MAX_FLOAT32 = float(np.finfo(np.float32).max)
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
"""Number formats that are accepted."""
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?")
"""Number formats that programs write; 01 and +1 are names unless ``target`` is "reals"."""
SET_SEPARATORS = r"\s*[;|,]\s*"  # separators of the labels of a set in one cell
POSITION_SEPARATORS = r"[;|,\s]+"
"""Separators of labels of positions; without any, every character is a label."""

DOUBTFUL = ("-", "--", ".", "none", "nat", "n.a.", "missing", "unknown")
"""Classes, in lower case, by which a missing label may be meant."""

QUOTED_LIST = r"^\s*\[\s*['\"]"
"""Beginning of a list of labels as Python and JSON write it: ['red', 'dark green']."""


@dataclass(frozen=True)
class EncodedLabels:
    """The labels of all sequences of a dataset."""

    targets: np.ndarray  # (n,) classes or real numbers, or (n, K) sets, or (T,) the classes of all positions
    names: tuple[str, ...]  # of classes; empty for real numbers
    lengths: np.ndarray  # (n,) of the sequences
    kind: TargetName

    @cached_property
    def present(self) -> np.ndarray:
        """Return (n, K) whether a class occurs in a sequence, at any position."""
        if self.kind == "sets":
            return self.targets > 0
        found = np.zeros((len(self.lengths), len(self.names)), dtype=bool)
        known = self.targets >= 0
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        found[owner[known], self.targets[known]] = True
        return found

    @property
    def strata(self) -> np.ndarray:
        """Return (n,) stratum for splitting: the class if there is exactly one, else 0; -1 if unlabelled."""
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
        """Check the labels of each split, for the sequences ``kept`` (n,), and return notes for the user."""
        if self.kind in ("classes", "reals"):
            return check_splits(split[kept], self.targets[kept], self.names)
        return check_present(split[kept], self.present[kept], self.strata[kept] >= 0, self.names)

    def of_examples(self, starts: np.ndarray, lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the targets of examples: whole sequences, or windows of them."""
        return at_positions(self.targets, starts, lengths) if self.kind == "positions" else self.targets[rows]

    def target(self, split: np.ndarray) -> Target:
        """Return the target spec; real numbers are standardised by the training split."""
        if self.kind == "reals":
            known = self.targets[(split == 0) & ~np.isnan(self.targets)]
            known = known.astype(np.float64)
            return Reals(centre=float(known.mean()), spread=float(known.std()))
        if self.kind == "classes":
            return Classes(self.names)
        return ClassSets(self.names) if self.kind == "sets" else PositionClasses(self.names)


@dataclass
class LabelColumn:
    """The labels of imported sequences: strings, or lists of strings.

    With ``target="auto"``, words are classes, and so are whole numbers of at most 100 kinds; other numbers
    are real numbers. Every distinct string is a class of its own: "1", "01", "1.0" and "1e0" are four.

    For sets and positions, a text cell holds several labels, separated by ``;``, ``|`` or ``,``; labels of
    positions also by spaces, or by nothing if each is one character. A cell may also hold a list as Python
    writes it, with quotes. An empty cell is unlabelled; an empty list is the empty set.
    """

    target: TargetKind = "auto"
    column: str = "label"
    classes: tuple[str, ...] = ()  # of a table of 0 and 1, in the order of its columns
    notes: list[str] = field(default_factory=list)  # notes for the user on how labels were read
    offset: float = 0.0  # what was subtracted from real numbers

    def separate(self, found: Sequences, name: Callable[[int], str]) -> Sequences:
        """Return sequences with one label per sequence, or for sets and positions with lists of labels.

        Raises:
            DataError: if there are lists instead of labels, or not as many labels as positions.
        """
        labels = found.columns["label"]
        changed: dict[str, str] = {}
        if self.target not in ("sets", "positions"):
            if is_list(labels.type):
                raise DataError(
                    f"{self.column} holds lists; say --target sets, or --target positions for one label each"
                )
            return found
        separators = SET_SEPARATORS if self.target == "sets" else POSITION_SEPARATORS
        if is_list(labels.type):
            pass
        elif pc.any(pc.match_substring_regex(labels, QUOTED_LIST)).as_py():
            lists = [None if cell is None else _listed(cell, separators) for cell in labels.to_pylist()]
            labels = word_lists(pa.array(lists, pa.large_list(pa.large_string())), changed)
        elif self.target == "sets" or pc.any(pc.match_substring_regex(labels, separators)).as_py():
            labels = word_lists(pc.split_pattern_regex(pc.utf8_trim(labels, "[] \t"), separators), changed)
        else:
            characters = [None if cell is None else list(cell) for cell in labels.to_pylist()]
            labels = word_lists(pa.array(characters, pa.large_list(pa.large_string())), changed)
        self.notes += notes_on(changed)
        counts = _counts(labels)
        wrong = (counts >= 0) & (counts != found.lengths)
        if self.target == "positions" and wrong.any():
            row = int(wrong.argmax())
            ends = found.lengths.cumsum()
            letters = found.flat[ends[row] - found.lengths[row] : ends[row]]
            advice = LETTERS if letters.dtype == np.uint8 and letters.max(initial=0) > 127 else ""
            raise DataError(
                f"{name(int(found.rows[row]))}: {counts[row]:,} labels for {found.lengths[row]:,} positions; "
                f"there must be one for each{advice}"
            )
        return replace(found, columns={**found.columns, "label": labels})

    def encode(self, found: Sequences, name: Callable[[int], str]) -> EncodedLabels:
        """Return all labels of what ``separate`` returned; labels of truncated positions are dropped."""
        labels = found.columns["label"]
        rows = found.rows
        lengths = found.lengths
        if self.target not in ("sets", "positions"):
            targets, names = self._encode(labels, lambda i: name(int(rows[i])))
            return EncodedLabels(targets, names, lengths, "classes" if names else "reals")
        counts = _counts(labels)
        if self.target == "positions" and (counts > lengths).any():
            owner, place = positions(counts.clip(min=0))
            kept = labels.flatten().filter(pa.array(place < lengths[owner]))
            labels = lists_of(kept, np.minimum(counts, lengths).clip(min=0), counts >= 0)
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
        found = sorted(words, key=lambda word: (float(word), len(word), word) if numeric else word)
        names = list(self.classes) or found
        if len(found) < 2:
            said = f"only class {found[0]!r}" if found else "no label"
            raise DataError(f"{self.column} holds {said}; there must be two classes or more to tell apart")
        lone = len(found) > MAX_LONE and np.bincount(index[index >= 0]).max() == 1
        if lone and self.target not in ("sets", "positions"):
            advice = "give --target reals if these are numbers, or another --label"
            raise DataError(
                f"every label of {self.column} is a class of its own, such as {found[0]!r}; {advice}"
            )
        self.notes += lookalikes(names, "classes")
        odd = [repr(name) for name in names if name.lower() in DOUBTFUL and self.target != "positions"]
        said = "a class like any other; empty such cells if the label is missing there"
        self.notes += [f"{', '.join(odd)}: {said}"] if odd else []
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
            said = f"{self.column} is {words[odd][:80]!r}, which is not a finite number"
            advice = "correct it, empty it, or use --target classes"
            raise DataError(f"{where(int((index == odd).argmax()))}: {said}; {advice}")
        if self.target == "auto":
            self.notes.append(f"{self.column} is taken for real numbers; --target classes makes it classes")
        self.offset = offset_of(np.array(values))
        # Whole numbers beyond those that are exact in float32, which it changes even after the subtraction.
        whole = [w for w in words if len(w) > 7 and PLAIN.fullmatch(w) and abs(float(w)) >= EXACT]
        whole = [word for word in whole if not float(word) % 1]
        nearest = [Decimal(float(np.float32(float(word) - self.offset))) for word in whole]
        pairs = zip(whole, nearest, strict=True)
        rounded = [word for word, near in pairs if Decimal(word) != Decimal(self.offset) + near]
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


def _listed(cell: str, separators: str) -> list[str | None]:
    """Return the labels of a cell that holds a list as Python writes it, or labels between separators."""
    bare = cell.strip()
    if re.match(QUOTED_LIST, bare):
        try:
            found = ast.literal_eval(bare)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            found = None
        if isinstance(found, list) and all(isinstance(label, str | None) for label in found):
            return found
    return list(re.split(separators, bare.strip("[] \t")))


def lookalikes(names: list[str], what: str) -> list[str]:
    """Return notes on names of classes, groups or ids, ``what``, of which one may have been meant."""
    short = [name if len(name) < 400 and NUMBER.fullmatch(name) else "" for name in names]
    values = [Decimal(name) if name else None for name in short]
    # Differences in case, inner spaces and Unicode form are easily overlooked.
    looks = [" ".join(unicodedata.normalize("NFKC", name).casefold().split()) for name in names]
    found = _alike(names, values, f"different {what} are equal as numbers")
    return found + _alike(names, looks, f"different {what} are written almost alike")


def _alike(names: Iterable[str], keys: Iterable[Hashable], said: str) -> list[str]:
    """Return a note on names with the same key, so that one may have been meant; None is no key."""
    groups = defaultdict(list)
    for name, key in zip(names, keys, strict=True):
        groups[key].append(name)
    found = [group for key, group in groups.items() if len(group) > 1 and key is not None]
    if not found:
        return []
    shown = "; ".join(", ".join(repr(name[:40]) for name in group[:5]) for group in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return [f"{said}: {shown}{more}; write them alike if they are one"]


def _counts(labels: pa.Array) -> np.ndarray:
    """Return (n,) the lengths of lists; -1 where there is none."""
    counts: np.ndarray = pc.list_value_length(labels).fill_null(-1).to_numpy()
    return counts
