"""How strongly neighbouring symbols belong together, counted in all training sequences, labelled or not.

Source: Jin and Tanaka-Ishii (2006), Unsupervised segmentation of Chinese text by branching entropy.
"""

from collections.abc import Iterator

import numpy as np

from ...data.dataset import SequenceDataset, concatenated
from ...data.ngrams import BOUNDARIES, LONGEST, NgramCounts, gram_codes, mix, owners
from .features import ALL, AROUND, Features, Numbers, State
from .symbols import Codes, Windows, hashed, joined

BINS = 10  # bins of each of these numbers
NEAR = 2  # positions on either side whose numbers are features
BEYOND = -1.0  # a number that a position has none of, since the sequence ends


class Counted(Features):
    """Features of the n-grams that all training sequences contain, whose counts are saved with them."""

    def __init__(self) -> None:
        self.statistics = NgramCounts()

    def measure(self, everything: SequenceDataset) -> None:
        """Count n-grams."""
        self.statistics.measure(concatenated(everything), owners(everything.lengths[0]))

    def state(self) -> State:
        """Return the parameters and the counts."""
        return super().state() | self.statistics.state()

    def load(self, state: State) -> None:
        """Set the parameters and the counts."""
        super().load(state)
        self.statistics.load(state)


class CohesionWindows(Counted, Windows):
    """The symbols around a position, and the numbers of the boundaries around it, in bins at quantiles."""

    name = f"the {AROUND} symbols on either side, and statistics of {ALL}"
    parameters = ("codes", "idf", "edges")
    edges = np.empty((len(BOUNDARIES), 0))

    def measure(self, everything: SequenceDataset) -> None:
        """Count n-grams, and choose the edges of the bins."""
        super().measure(everything)
        owner = owners(everything.lengths[0])
        inside = owner[:-1] == owner[1:]
        values = self.statistics.boundaries(concatenated(everything), owner)[:, inside]
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


class CohesionNumbers(Counted, Numbers):
    """The numbers of the boundaries around a position, and counts of the n-grams there, for trees."""

    name = f"statistics of {ALL}"
    of_positions = True

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (positions, features)."""
        return np.stack(list(self._columns(concatenated(examples), owners(examples.lengths[0]))), axis=1)

    def _columns(self, flat: np.ndarray, owner: np.ndarray) -> Iterator[np.ndarray]:
        boundaries = self.statistics.boundaries(flat, owner)
        for offset in range(-NEAR, NEAR):
            for values in boundaries:
                yield _at(values, owner, offset, 2)
        for n, codes in enumerate(gram_codes(flat, LONGEST), 1):
            values = self.statistics.values(f"log count {n}", codes)
            for offset in range(1 - n - NEAR, NEAR + 1):
                yield _at(values, owner, offset, n)


def _at(values: np.ndarray, owner: np.ndarray, offset: int, width: int) -> np.ndarray:
    """Return the value of the ``width`` symbols that begin ``offset`` after every position.

    It is ``BEYOND`` where these symbols are not all in the sequence of the position.
    """
    start = np.arange(len(owner)) + offset
    known = (start >= 0) & (start < len(values))
    start = start.clip(0, max(0, len(values) - 1))
    known &= (owner[start] == owner) & (owner[(start + width - 1).clip(max=len(owner) - 1)] == owner)
    return np.where(known, values[start], BEYOND) if len(values) else np.full(len(owner), BEYOND)
