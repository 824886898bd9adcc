"""Labels as they come, in words, to numbers of classes or to real numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ...errors import DataError
from .options import TargetKind

MOST_KINDS, MOST_CLASSES = 100, 10_000
"""Whole numbers of more kinds than the first are amounts; of more classes than the second nobody learns."""


@dataclass
class Labels:
    """The labels of all sequences so far.

    If nobody says what they are, words are classes, and so are whole numbers of at most 100 kinds; other
    numbers are real numbers.
    """

    target: TargetKind = "auto"
    column: str = "label"
    _known: dict[str, int] = field(default_factory=dict)
    _numbers: list[np.ndarray] = field(default_factory=list)  # codes of the known words, or real numbers
    _real: bool = False
    _odd: str = ""  # where the first word that is no number stands

    def take(self, labels: pa.Array, where: Callable[[int], str]) -> None:
        """Take down the labels of one part, null where there is none.

        Raises:
            DataError: if there are too many classes, or words among real numbers.
        """
        encoded = labels.dictionary_encode()
        kinds = encoded.dictionary.to_pylist()
        index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        values = [_number(kind) for kind in kinds]
        if None in values and not self._odd:
            odd = values.index(None)
            row = int((index == odd).argmax())
            self._odd = f"{where(row)}: {self.column} is {kinds[odd]!r}, which is no finite number"
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

    def _look_real(self) -> bool:
        """Whether labels are numbers, but for a few, that can be no classes."""
        values = [value for value in map(_number, self._known) if value is not None]
        amounts = len(self._known) > MOST_KINDS or any(value % 1 for value in values)
        return self.target == "auto" and amounts and 2 * len(values) > len(self._known)

    def _become_real(self) -> None:
        self._refuse_words()
        values = np.array([*(float(kind) for kind in self._known), np.nan])
        self._numbers = [values[codes] for codes in self._numbers]
        self._real = True

    def _refuse_words(self) -> None:
        if self._odd:
            raise DataError(f"{self._odd}; correct it, empty it, or use --target classes")

    def finish(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """(n,) real numbers and no names; or classes, -1 where unlabelled, and their names in order.

        Raises:
            DataError: if there is nothing to tell apart.
        """
        if not self._real and self._look_real():
            self._become_real()
        if self._real:
            return np.concatenate(self._numbers).astype(np.float32), ()
        all_numbers = not self._odd
        names = {kind: _plain(kind) if all_numbers else kind for kind in self._known}
        order = sorted(set(names.values()), key=float if all_numbers else None)
        if len(order) < 2:
            found = f"only class {order[0]!r}" if order else "no label"
            raise DataError(f"{self.column} holds {found}; there must be two classes or more to tell apart")
        number = {name: i for i, name in enumerate(order)}
        rank = np.array([*(number[names[kind]] for kind in self._known), -1])
        return rank[np.concatenate(self._numbers)], tuple(order)


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _plain(word: str) -> str:
    """One name for equal whole numbers, "1" for "1.0"."""
    value = float(word)
    return str(int(value)) if value % 1 == 0 else word
