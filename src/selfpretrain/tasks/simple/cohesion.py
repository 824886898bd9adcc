"""How strongly neighbouring symbols belong together, counted in all training sequences, labelled or not.

Source: Jin and Tanaka-Ishii (2006), Unsupervised segmentation of Chinese text by branching entropy.
"""

from collections.abc import Iterator

import numpy as np
import torch

from ...data.dataset import SequenceDataset
from .features import ALL, Numbers, State, concatenated
from .symbols import AROUND, Codes, Windows, gram_codes, hashed, joined, mix

BOUNDARIES = ("information", "following 1", "following 2", "preceding 1", "preceding 2")
"""Numbers that describe the boundary between two symbols."""
BINS = 10
"""Bins of each of these numbers."""
LONGEST = 3
"""Symbols of the longest n-gram that is counted."""
NEAR = 2
"""Positions on either side whose numbers are features."""
BEYOND = -1.0
"""A number that a position has none of, since the sequence ends."""


class GramStatistics:
    """Counts of n-grams, and entropies of the symbols that follow and precede them."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # name -> sorted codes, their values

    def measure(self, everything: SequenceDataset) -> None:
        """Count the n-grams of all sequences."""
        flat = concatenated(everything)
        owner = _owners(everything)
        grams = list(gram_codes(flat, LONGEST))
        inside = [owner[: len(code)] == owner[n:] for n, code in enumerate(grams)]
        self.tables = {}
        for n, (code, kept) in enumerate(zip(grams, inside, strict=True), 1):
            codes, counts = np.unique(code[kept], return_counts=True)
            self.tables[f"log count {n}"] = codes, np.log(counts)
        for n in (1, 2):
            whole = grams[n][inside[n]]
            self.tables[f"following {n}"] = _entropies(whole, grams[n - 1][: len(grams[n])][inside[n]])
            self.tables[f"preceding {n}"] = _entropies(whole, grams[n - 1][1:][inside[n]])

    def boundaries(self, flat: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Return (numbers, T - 1) of the boundary after every position but the last.

        They are the pointwise mutual information of the two symbols, the entropy of the symbol that follows
        the one or two symbols on the left, and of the symbol that precedes the one or two on the right. They
        are high and low at the boundaries of words. At the ends of a sequence, where one side has one symbol
        only, its entropy stands for that of two.

        Args:
            owner: (T,) the sequence of every position; values between two sequences mean nothing.
        """
        one, two = list(gram_codes(flat, 2))
        ones = self.values("log count 1", one)
        right = self.values("following 2", two)
        left = self.values("preceding 2", two)
        inner = np.zeros(len(flat), dtype=bool)  # neither first nor last of a sequence
        inner[1:-1] = (owner[:-2] == owner[1:-1]) & (owner[1:-1] == owner[2:])
        following = self.values("following 1", one)[:-1]
        preceding = self.values("preceding 1", one)[1:]
        found = {
            "information": self.values("log count 2", two) - ones[:-1] - ones[1:],
            "following 1": following,
            "following 2": np.where(inner[:-1], np.roll(right, 1), following),
            "preceding 1": preceding,
            "preceding 2": np.where(inner[1:], np.roll(left, -1), preceding),
        }
        return np.stack([found[name] for name in BOUNDARIES])

    def values(self, table: str, codes: np.ndarray) -> np.ndarray:
        """Return the values of codes in a table; 0 where it has none."""
        known, values = self.tables[table]
        if not len(known):
            return np.zeros(len(codes))
        place = np.searchsorted(known, codes).clip(max=len(known) - 1)
        return np.where(known[place] == codes, values[place], 0.0)

    def state(self) -> State:
        """Return codes and values of all tables."""
        state = {}
        for name, (codes, values) in self.tables.items():
            state[f"codes of {name}"] = torch.from_numpy(codes.view(np.int64))
            state[f"values of {name}"] = torch.from_numpy(values)
        return state

    def load(self, state: State) -> None:
        """Set the tables."""
        names = [name.removeprefix("values of ") for name in state if name.startswith("values of ")]
        self.tables = {
            name: (state[f"codes of {name}"].numpy().view(np.uint64), state[f"values of {name}"].numpy())
            for name in names
        }


class CohesionWindows(Windows):
    """The symbols around a position, and the numbers of the boundaries around it, in bins at quantiles."""

    name = f"the {AROUND} symbols on either side, and statistics of {ALL}"
    parameters = ("codes", "idf", "edges")

    def __init__(self) -> None:
        super().__init__()
        self.statistics = GramStatistics()
        self.edges = np.empty((len(BOUNDARIES), 0))

    def measure(self, everything: SequenceDataset) -> None:
        """Count n-grams, and choose the edges of the bins."""
        self.statistics.measure(everything)
        owner = _owners(everything)
        values = self.statistics.boundaries(concatenated(everything), owner)[:, owner[:-1] == owner[1:]]
        self.edges = np.quantile(values, np.arange(1, BINS) / BINS, axis=1).T.copy()

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the symbols around every position, and the bins of the boundaries around it."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = [super().encode(flat, lengths)]
        inside = np.flatnonzero(owner[:-1] == owner[1:])
        values = self.statistics.boundaries(flat, owner)[:, inside]
        for number, (edges, of_boundary) in enumerate(zip(self.edges, values, strict=True)):
            bins = np.searchsorted(edges, of_boundary)
            # From the boundary before the previous symbol to that after the next.
            for offset in range(-1, 3):
                row = inside + 1 - offset
                kept = (row >= 0) & (row < len(flat))
                kept[kept] = owner[row[kept]] == owner[inside[kept]]
                mark = hashed(1000 + 10 * number + offset, int(kept.sum()))
                parts.append((mix(mark, bins[kept]), row[kept]))
        return joined(parts)

    def state(self) -> State:
        """Return codes, edges and tables."""
        return super().state() | self.statistics.state()

    def load(self, state: State) -> None:
        """Set codes, edges and tables."""
        super().load(state)
        self.statistics.load(state)


class CohesionNumbers(Numbers):
    """The numbers of the boundaries around a position, and counts of the n-grams there, for trees."""

    name = f"statistics of {ALL}"
    of_positions = True

    def __init__(self) -> None:
        super().__init__()
        self.statistics = GramStatistics()

    def measure(self, everything: SequenceDataset) -> None:
        """Count n-grams."""
        self.statistics.measure(everything)

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (positions, features)."""
        return np.stack(list(self._columns(concatenated(examples), _owners(examples))), axis=1)

    def _columns(self, flat: np.ndarray, owner: np.ndarray) -> Iterator[np.ndarray]:
        boundaries = self.statistics.boundaries(flat, owner)
        for offset in range(-NEAR, NEAR):
            for values in boundaries:
                yield _at(values, owner, offset, 2)
        for n, codes in enumerate(gram_codes(flat, LONGEST), 1):
            values = self.statistics.values(f"log count {n}", codes)
            for offset in range(1 - n - NEAR, NEAR + 1):
                yield _at(values, owner, offset, n)

    def state(self) -> State:
        """Return mean, spread and tables."""
        return super().state() | self.statistics.state()

    def load(self, state: State) -> None:
        """Set mean, spread and tables."""
        super().load(state)
        self.statistics.load(state)


def _owners(examples: SequenceDataset) -> np.ndarray:
    """Return the number of the sequence that every position of concatenated sequences belongs to."""
    return np.repeat(np.arange(len(examples)), examples.lengths[0].numpy())


def _at(values: np.ndarray, owner: np.ndarray, offset: int, width: int) -> np.ndarray:
    """Return the value of the ``width`` symbols that begin ``offset`` after every position.

    It is ``BEYOND`` where these symbols are not all in the sequence of the position.
    """
    start = np.arange(len(owner)) + offset
    known = (start >= 0) & (start < len(values))
    start = start.clip(0, max(0, len(values) - 1))
    known &= (owner[start] == owner) & (owner[(start + width - 1).clip(max=len(owner) - 1)] == owner)
    return np.where(known, values[start], BEYOND) if len(values) else np.full(len(owner), BEYOND)


def _entropies(whole: np.ndarray, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct contexts, sorted, and the entropy in nats of what stands next to each.

    Args:
        whole: (T,) codes of n-grams.
        context: (T,) codes of the part of each that is the context.
    """
    _, first, count = np.unique(whole, return_index=True, return_counts=True)
    contexts, owner = np.unique(context[first], return_inverse=True)
    total = np.bincount(owner, count)
    return contexts, np.log(total) - np.bincount(owner, count * np.log(count)) / total
