"""Labels as they come, in words, to numbers of classes or to real numbers; no two words become one class."""

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
"""Whole numbers of more kinds than the first are amounts; of more classes than the second nobody learns."""
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
"""How a number may be written."""
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?")
"""How programs write numbers; 01 and +1 are names unless somebody says that they are numbers."""
LARGEST = float(np.finfo(np.float32).max)
EXACT = 1 << 24
"""Whole numbers up to this are all kept as float32."""


@dataclass(frozen=True)
class Told:
    """All labels that were read, and what is to be predicted."""

    targets: np.ndarray  # (n,) classes or real numbers, or (n, K) sets, or (T,) the classes of all positions
    names: tuple[str, ...]  # of classes; none: they are real numbers
    lengths: np.ndarray  # (n,) of the sequences
    kind: TargetName

    @cached_property
    def present(self) -> np.ndarray:
        """(n, K) whether a sequence has a class, anywhere."""
        if self.kind == "sets":
            return self.targets > 0
        found = np.zeros((len(self.lengths), len(self.names)), dtype=bool)
        known, owner = self.targets >= 0, np.repeat(np.arange(len(self.lengths)), self.lengths)
        found[owner[known], self.targets[known]] = True
        return found

    @property
    def strata(self) -> np.ndarray:
        """(n,) what sequences are divided by: their class, if they have one; -1 where they are unlabelled."""
        if self.kind == "classes":
            return self.targets
        if self.kind == "reals":
            return np.where(np.isnan(self.targets), -1, 0)
        if self.kind == "sets":
            return np.where((self.targets >= 0).all(1), 0, -1)
        return np.where(self.present.any(1), 0, -1)

    def checked(self, split: np.ndarray, kept: np.ndarray) -> list[str]:
        """What is odd about the labels in each split, of the sequences that are ``kept`` (n,).

        Raises:
            DataError: if a split cannot be used.
        """
        if self.kind in ("classes", "reals"):
            return check_splits(split[kept], self.targets[kept], self.names)
        return check_present(split[kept], self.present[kept], self.strata[kept] >= 0, self.names)

    def targets_of(self, starts: np.ndarray, lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Those of examples: whole sequences, or stretches of them.

        Args:
            starts, lengths: where they lie among all positions.
            rows: the sequence that each is of.
        """
        if self.kind != "positions":
            return self.targets[rows]
        found = np.full((len(starts), int(lengths.max(initial=0))), -1, dtype=np.int16)
        for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            found[row, :length] = self.targets[start : start + length]
        return found

    def target(self, split: np.ndarray) -> Target:
        """What is to be predicted; real numbers as measured on the training split."""
        if self.kind != "reals":
            return {"classes": Classes, "sets": ClassSets, "positions": PositionClasses}[self.kind](
                self.names
            )
        known = self.targets[(split == 0) & ~np.isnan(self.targets)]
        return Reals(centre=float(known.mean(dtype=np.float64)), spread=float(known.std(dtype=np.float64)))


@dataclass
class Labels:
    """The labels of all sequences so far.

    If nobody says what they are, words are classes, and so are whole numbers of at most 100 kinds; other
    numbers are real numbers. Every word is a class of its own: "1", "01", "1.0" and "1e0" are four.
    """

    target: TargetKind = "auto"
    column: str = "label"
    notes: list[str] = field(default_factory=list)  # what people should know of how labels were read
    _known: dict[str, int] = field(default_factory=dict)
    _numbers: list[np.ndarray] = field(default_factory=list)  # codes of the known words, or real numbers
    _real: bool = False
    _odd: str = ""  # where the first word that is no number stands
    _rounded: dict[str, None] = field(default_factory=dict)  # whole numbers that float32 does not hold

    def take(self, labels: pa.Array, where: Callable[[int], str]) -> None:
        """Take down the labels of one part, null where there is none.

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
        if self.target == "reals" or (len(self._known) > MOST_KINDS and self._look_real()):
            self._become_real()
        elif len(self._known) > MOST_CLASSES:
            raise DataError(
                f"{self.column} holds more than {MOST_CLASSES:,} classes; is it the right column?"
            )

    def finish(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """(n,) real numbers and no names; or classes, -1 where unlabelled, and their names in order.

        Raises:
            DataError: if there is nothing to tell apart.
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
        rank = np.empty(len(order) + 1, dtype=np.int64)
        rank[[self._known[name] for name in order]] = np.arange(len(order))
        rank[-1] = -1
        return rank[np.concatenate(self._numbers)], tuple(order)

    def paired(self, part: Part) -> Part:
        """A part as it is: there is one label for each of its sequences."""
        return part

    def add(self, part: Part) -> None:
        """Take down the labels of one part; see ``take``."""
        self.take(part.columns["label"], part.where)

    def told(self, lengths: np.ndarray) -> Told:
        """All of them; see ``finish``."""
        targets, names = self.finish()
        return Told(targets, names, lengths, "classes" if names else "reals")

    def _look_real(self) -> bool:
        """Whether labels are numbers, but for a few, that can be no classes."""
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
        """What a word is as a real number, None if it is none that float32 can hold."""
        written = (NUMBER if self.target == "reals" else PLAIN).fullmatch(word)
        value = float(word) if written else np.inf
        return value if abs(value) <= LARGEST else None


def _is_rounded(word: str) -> bool:
    """Whether a whole number is another one as float32."""
    if len(word) < 8 or not PLAIN.fullmatch(word) or abs(float(word)) < EXACT:
        return False
    with np.errstate(over="ignore"):
        kept = float(np.float32(float(word)))
    return bool(np.isfinite(kept)) and Decimal(word) != Decimal(kept)


def _alike(names: Iterable[str], what: Callable[[str], Hashable], said: str) -> list[str]:
    """A note on classes that are the same in some respect, of which people may have meant one."""
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
    """A name without what is easily overlooked: case, spaces within, and how accents are coded."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
