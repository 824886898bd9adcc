"""Character and byte tokenizer: its vocabulary, and texts written as sequences of tokens.

Texts are truncated at the end. There is no end-of-sequence token: lengths are stored with the sequences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...data.store import DatasetWriter
from ...system.events import report_progress

Unit = Literal["characters", "bytes"]  # kind of token: a Unicode character, or a byte of UTF-8

POINTS = 0x110000  # number of Unicode code points
CHUNK = 4096  # texts encoded at a time
FILLING = ("the", "a", "of", "and", "to", "it", "was", "in", "this", "that", "with", "for", "on", "as", "but")


@dataclass(frozen=True)
class Tokenizer:
    """A map from characters to tokens, 0 for unknown characters; a byte is its own token."""

    unit: Unit
    length: int  # maximum tokens of a text; longer ones are truncated
    numbers: np.ndarray  # (code points or byte values,) token ids, uint8 where they fit

    @property
    def vocab(self) -> int:
        """Return the vocabulary size."""
        return int(self.numbers.max()) + 1

    @property
    def symbols(self) -> tuple[str, ...]:
        """Return the text of each token; U+FFFD for the unknown character, Latin-1 for bytes."""
        if self.unit == "bytes":
            return tuple(map(chr, range(256)))
        return "\ufffd", *map(chr, np.flatnonzero(self.numbers).tolist())

    def append(self, out: DatasetWriter, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Append texts to a dataset; return their (n,) starts and (n,) lengths."""
        out.symbols = self.symbols
        starts = [np.zeros(0, np.int64)]
        lengths = [np.zeros(0, np.int64)]
        n_written = 0
        for points, sizes in _chunks(texts, self.unit, self.length):
            starts.append(out.append(self.numbers[points]) + sizes.cumsum() - sizes)
            lengths.append(sizes)
            n_written += len(sizes)
            report_progress("texts written", n_written, len(texts))
        return np.concatenate(starts), np.concatenate(lengths)


def build_tokenizer(texts: Sequence[str], unit: Unit, length: int, least: int = 1) -> Tokenizer:
    """Build a tokenizer of the characters with ``least`` occurrences in truncated texts, in Unicode order."""
    if unit == "bytes":
        return Tokenizer(unit, length, np.arange(256, dtype=np.uint8))
    counts = np.zeros(POINTS, dtype=np.int64)
    for points, _ in _chunks(texts, unit, length):
        chunk_counts = np.bincount(points)
        counts[: len(chunk_counts)] += chunk_counts
    counts[0] = 0  # placeholder of an empty text, always unknown
    known = np.flatnonzero(counts >= least)
    numbers = np.zeros(POINTS, dtype=np.uint8 if len(known) < 256 else np.int32)
    numbers[known] = np.arange(1, len(known) + 1)
    return Tokenizer(unit, length, numbers)


def hold_out_groups(classes: np.ndarray, groups: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return an (n,) mask of held-out rows: whole groups in random order, at most ``share`` of each class."""
    _, group = np.unique(groups, return_inverse=True)
    count = np.zeros((group.max() + 1, classes.max() + 1))
    np.add.at(count, (group, classes), 1)
    quota = share * count.sum(0)
    is_held_out = np.zeros(len(count), dtype=bool)
    for group_id in np.random.RandomState(seed).permutation(len(count)):
        if (count[group_id] <= quota).all():
            is_held_out[group_id] = True
            quota -= count[group_id]
    return is_held_out[group]


def make_sentence(random: np.random.RandomState, words: Sequence[str]) -> str:
    """Return a synthetic text of twelve words: every third is from ``words``, the others are filler."""
    sentence = [
        words[random.randint(len(words))] if i % 3 == 0 else random.choice(FILLING) for i in range(12)
    ]
    return f"{' '.join(sentence).capitalize()}."


def _chunks(texts: Sequence[str], unit: Unit, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield concatenated code points or bytes (T,) of a chunk of n texts, and their lengths (n,).

    An empty text counts as one unknown character: a sequence has at least one position.
    """
    for start in range(0, len(texts), CHUNK):
        chunk = [text[:length] or "\0" for text in texts[start : start + CHUNK]]
        if unit == "bytes":
            encoded = [text.encode()[:length] for text in chunk]
            points = np.frombuffer(b"".join(encoded), dtype=np.uint8)
            yield points, np.array([len(text) for text in encoded])
        else:
            points = np.frombuffer("".join(chunk).encode("utf-32-le"), dtype="<u4")
            yield points, np.array([len(text) for text in chunk])
