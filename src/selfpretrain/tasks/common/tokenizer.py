"""Texts as sequences of numbers: which characters are known, and what is written of a text.

A text is cut to its beginning. No symbol marks its end: which positions are real is said apart from what
stands there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...data.store import DatasetWriter
from ...system.events import progress

Unit = Literal["characters", "bytes"]
"""What a position holds: a Unicode character, or a byte of UTF-8."""

POINTS = 0x110000
"""Unicode code points."""
CHUNK = 4096
"""Texts encoded at a time."""
FILLING = ("the", "a", "of", "and", "to", "it", "was", "in", "this", "that", "with", "for", "on", "as", "but")


@dataclass(frozen=True)
class Tokenizer:
    """The number of every character, 0 for those that are not known; a byte is its own number."""

    unit: Unit
    length: int  # characters or bytes of a text that are read
    numbers: np.ndarray  # (code points or byte values,) in the smallest dtype that holds them

    @property
    def vocab(self) -> int:
        """How many numbers there are."""
        return int(self.numbers.max()) + 1

    @property
    def symbols(self) -> tuple[str, ...]:
        """How each number is written; the unknown character as U+FFFD, a byte as Latin-1 has it."""
        if self.unit == "bytes":
            return tuple(map(chr, range(256)))
        return "\ufffd", *map(chr, np.flatnonzero(self.numbers).tolist())

    def append(self, out: DatasetWriter, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Put texts at the end of a set; (n,) where each of them starts, and (n,) how long it is."""
        out.symbols = self.symbols
        starts, lengths, done = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for points, sizes in _chunks(texts, self.unit, self.length):
            starts.append(out.append(self.numbers[points]) + sizes.cumsum() - sizes)
            lengths.append(sizes)
            done += len(sizes)
            progress("texts written", done, len(texts))
        return np.concatenate(starts), np.concatenate(lengths)


def alphabet(texts: Sequence[str], unit: Unit, length: int, least: int = 1) -> Tokenizer:
    """Characters that occur at least ``least`` times in the beginnings of texts, in Unicode's order."""
    if unit == "bytes":
        return Tokenizer(unit, length, np.arange(256, dtype=np.uint8))
    counts = np.zeros(POINTS, dtype=np.int64)
    for points, _ in _chunks(texts, unit, length):
        some = np.bincount(points)
        counts[: len(some)] += some
    counts[0] = 0  # stands for an empty text
    known = np.flatnonzero(counts >= least)
    numbers = np.zeros(POINTS, dtype=np.uint8 if len(known) < 256 else np.int32)
    numbers[known] = np.arange(1, len(known) + 1)
    return Tokenizer(unit, length, numbers)


def held_out(classes: np.ndarray, groups: np.ndarray, share: float, seed: int) -> np.ndarray:
    """(n,) which rows to hold out: whole groups in random order, while no class exceeds its share."""
    _, group = np.unique(groups, return_inverse=True)
    count = np.zeros((group.max() + 1, classes.max() + 1))
    np.add.at(count, (group, classes), 1)
    room, held = share * count.sum(0), np.zeros(len(count), dtype=bool)
    for at in np.random.RandomState(seed).permutation(len(count)):
        if (count[at] <= room).all():
            held[at] = True
            room -= count[at]
    return held[group]


def invent(random: np.random.RandomState, words: Sequence[str], number: int = 12) -> str:
    """A text of that many words: every third one of ``words``, the others without a meaning."""
    said = [
        words[random.randint(len(words))] if i % 3 == 0 else random.choice(FILLING) for i in range(number)
    ]
    return f"{' '.join(said).capitalize()}."


def _chunks(texts: Sequence[str], unit: Unit, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(T,) code points or bytes of some texts end to end, and (n,) how many each of them has.

    An empty text counts as one unknown character: a sequence has at least one position.
    """
    for at in range(0, len(texts), CHUNK):
        some = [text[:length] or "\0" for text in texts[at : at + CHUNK]]
        if unit == "bytes":
            cut = [text.encode()[:length] for text in some]
            yield np.frombuffer(b"".join(cut), dtype=np.uint8), np.array([len(part) for part in cut])
        else:
            points = np.frombuffer("".join(some).encode("utf-32-le"), dtype="<u4")
            yield points, np.array([len(part) for part in some])
