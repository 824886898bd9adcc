"""Label encoding: strings to classes or real numbers. Distinct strings are never merged into one class."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ..spec import Classes, ClassSets, PositionClasses, Reals, Target, TargetName
from ..splits import check_present, check_splits
from .kinds import TargetKind
from .source import Part, is_list

MOST_KINDS, MOST_CLASSES = 100, 10_000
"""More distinct whole numbers than the first are real numbers; more classes than the second are an error."""
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
"""Number formats that are accepted."""
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?")
"""Number formats that programs write; 01 and +1 are names unless ``target`` is "reals"."""
LARGEST = float(np.finfo(np.float32).max)
EXACT = 1 << 24
"""Whole numbers up to this one are exact in float32."""


@dataclass(frozen=True)
class Told:
    """The labels of all sequences, encoded."""

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
        known, owner = self.targets >= 0, np.repeat(np.arange(len(self.lengths)), self.lengths)
        found[owner[known], self.targets[known]] = True
        return found

    @property
    def strata(self) -> np.ndarray:
        """(n,) stratum for splitting: the class if there is exactly one, else 0; -1 if unlabelled."""
        if self.kind == "classes":
            return self.targets
        if self.kind == "reals":
            return np.where(np.isnan(self.targets), -1, 0)
        if self.kind == "sets":
            return np.where((self.targets >= 0).all(1), 0, -1)
        return np.where(self.present.any(1), 0, -1)

    def checked(self, split: np.ndarray, kept: np.ndarray) -> list[str]:
        """Check the labels of each split, for the sequences ``kept`` (n,), and return notes for the user.

        Raises:
            DataError: if a split cannot be used.
        """
        if self.kind in ("classes", "reals"):
            return check_splits(split[kept], self.targets[kept], self.names)
        return check_present(split[kept], self.present[kept], self.strata[kept] >= 0, self.names)

    def targets_of(self, starts: np.ndarray, lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the targets of examples: whole sequences, or windows of them.

        Args:
            starts, lengths: positions of the examples in the flat array.
            rows: the sequence that each example is from.
        """
        if self.kind != "positions":
            return self.targets[rows]
        found = np.full((len(starts), int(lengths.max(initial=0))), -1, dtype=np.int16)
        for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            found[row, :length] = self.targets[start : start + length]
        return found

    def target(self, split: np.ndarray) -> Target:
        """Return the target spec; real numbers are standardised by the training split."""
        if self.kind != "reals":
            return {"classes": Classes, "sets": ClassSets, "positions": PositionClasses}[self.kind](
                self.names
            )
        known = self.targets[(split == 0) & ~np.isnan(self.targets)]
        return Reals(centre=float(known.mean(dtype=np.float64)), spread=float(known.std(dtype=np.float64)))


@dataclass
class Labels:
    """Collects and encodes one label per sequence.

    With ``target="auto"``, words are classes, and so are whole numbers of at most 100 kinds; other numbers
    are real numbers. Every distinct string is a class of its own: "1", "01", "1.0" and "1e0" are four.
    """

    target: TargetKind = "auto"
    column: str = "label"
    notes: list[str] = field(default_factory=list)  # notes for the user on how labels were read
    _known: dict[str, int] = field(default_factory=dict)
    _numbers: list[np.ndarray] = field(default_factory=list)  # codes of the known words, or real numbers
    _real: bool = False
    _odd: str = ""  # message on the first word that is not a number
    _rounded: dict[str, None] = field(default_factory=dict)  # whole numbers that float32 cannot represent

    def take(self, labels: pa.Array, where: Callable[[int], str]) -> None:
        """Add the labels of one part; null is unlabelled.

        Raises:
            DataError: if there are too many classes, or words among real numbers.
        """
        if is_list(labels.type):
            raise DataError(
                f"{self.column} holds lists; say --target sets, or --target positions for one label each"
            )
        encoded = labels.dictionary_encode()
        kinds = encoded.dictionary.to_pylist()
        index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        values = [self._number(kind) for kind in kinds]
        if None in values and not self._odd:
            odd = values.index(None)
            row = int((index == odd).argmax())
            self._odd = f"{where(row)}: {self.column} is {kinds[odd][:80]!r}, which is no finite number"
        self._rounded |= dict.fromkeys(kind for kind in kinds if _is_rounded(kind))
        if self._real:
            self._refuse_words()
            self._numbers.append(np.array([*values, np.nan], dtype=np.float64)[index])
            return
        codes = [self._known.setdefault(kind, len(self._known)) for kind in kinds]
        self._numbers.append(np.array([*codes, -1], dtype=np.int64)[index])
        # Only now can it be known that there are too many kinds to be classes.
        if self.target == "reals" or (len(self._known) > MOST_KINDS and self._look_real()):
            self._become_real()
        elif len(self._known) > MOST_CLASSES:
            raise DataError(
                f"{self.column} holds more than {MOST_CLASSES:,} classes; is it the right column?"
            )

    def finish(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return (n,) classes, -1 if unlabelled, and their sorted names; or (n,) real numbers and no names.

        Raises:
            DataError: if there are fewer than two classes.
        """
        if not self._real and self._look_real():
            self._become_real()
        if self._real:
            if self._rounded:
                count, first = len(self._rounded), next(iter(self._rounded))
                note = f"{count:,} whole numbers are rounded to float32, e.g. {first} to {float(first):.8g}"
                self.notes.append(f"{self.column}: {note}; --target classes keeps them apart")
            return np.concatenate(self._numbers).astype(np.float32), ()
        numeric = all(map(NUMBER.fullmatch, self._known))
        order = sorted(self._known, key=lambda name: (float(name), len(name), name) if numeric else name)
        if len(order) < 2:
            found = f"only class {order[0]!r}" if order else "no label"
            raise DataError(f"{self.column} holds {found}; there must be two classes or more to tell apart")
        self.notes += _alike(order, _value, "equal as numbers") + _alike(order, _look, "written almost alike")
        # Code -1 (unlabelled) indexes the last entry, which is -1 again.
        rank = np.empty(len(order) + 1, dtype=np.int64)
        rank[[self._known[name] for name in order]] = np.arange(len(order))
        rank[-1] = -1
        return rank[np.concatenate(self._numbers)], tuple(order)

    def paired(self, part: Part) -> Part:
        """Return the part unchanged: each sequence has one label."""
        return part

    def add(self, part: Part) -> None:
        """Add the labels of one part; see ``take``."""
        self.take(part.columns["label"], part.where)

    def told(self, lengths: np.ndarray) -> Told:
        """Return all labels; see ``finish``."""
        targets, names = self.finish()
        return Told(targets, names, lengths, "classes" if names else "reals")

    def _look_real(self) -> bool:
        """Return whether most labels are numbers that cannot be classes."""
        values = [float(word) for word in self._known if PLAIN.fullmatch(word)]
        many = len(self._known) > MOST_KINDS
        if self.target != "auto" or 2 * len(values) <= len(self._known):
            return False
        return many or any(value % 1 for value in values)

    def _become_real(self) -> None:
        self._refuse_words()
        if self.target == "auto":
            self.notes.append(f"{self.column} is taken for real numbers; --target classes makes it classes")
        values = np.array([*(float(kind) for kind in self._known), np.nan])
        self._numbers = [values[codes] for codes in self._numbers]
        self._real = True

    def _refuse_words(self) -> None:
        if self._odd:
            raise DataError(f"{self._odd}; correct it, empty it, or use --target classes")

    def _number(self, word: str) -> float | None:
        """Return a word as a real number, or None if it is not a number that float32 can hold."""
        written = (NUMBER if self.target == "reals" else PLAIN).fullmatch(word)
        value = float(word) if written else np.inf
        return value if abs(value) <= LARGEST else None


def _is_rounded(word: str) -> bool:
    """Return whether float32 would change this whole number."""
    if len(word) < 8 or not PLAIN.fullmatch(word) or abs(float(word)) < EXACT:
        return False
    with np.errstate(over="ignore"):
        kept = float(np.float32(float(word)))
    return bool(np.isfinite(kept)) and Decimal(word) != Decimal(kept)


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
