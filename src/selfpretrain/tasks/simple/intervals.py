"""Quantiles of values, differences and frequencies in intervals of a sequence.

Source: Dempster, Schmidt and Webb (2024), QUANT: a minimalist interval method for time series classification.
"""

from itertools import pairwise

import numpy as np
from jaxtyping import Float64

from ...data.dataset import SequenceDataset
from ...system.time_limit import check_time
from .features import NumbersOfValues, State

DEPTH = 6  # a sequence is divided into 1, 2, 4, ..., 32 parts
EVERY = 4  # values of an interval for each of its quantiles
SMOOTH = 5  # neighbouring differences whose mean is taken
GROUP = 2**22  # maximum number of values that are computed with at a time

Series = Float64[np.ndarray, "n T"]
Interval = tuple[int, int, int]  # begin, end, number of quantiles


class IntervalQuantiles(NumbersOfValues):
    """Quantiles of intervals of a channel, of its first and second differences, and of its spectrum."""

    name = "quantiles of intervals (QUANT)"
    parameters = ("mean", "spread", "length")
    once = True
    length = 1  # of the longest sequence: the intervals of others are stretched

    def measure(self, everything: SequenceDataset) -> None:
        """Measure the length."""
        super().measure(everything)
        self.length = int(everything.lengths.max())

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, channels times some 12 per position of the longest sequence)."""
        lengths = examples.lengths[0].numpy()
        parts = []
        order = []
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            for some in np.array_split(rows, -(-len(rows) * int(length) // GROUP)):
                check_time()
                x = np.stack([examples.sequence(int(row)) for row in some]).astype(np.float64)
                parts.append(
                    np.concatenate([self._of_channel(channel) for channel in np.moveaxis(x, 2, 0)], axis=1)
                )
                order.append(some)
        return np.concatenate(parts)[np.concatenate(order).argsort()]

    def _of_channel(self, x: Series) -> Float64[np.ndarray, "n K"]:
        longest = (*(self.length,) * 3, self.length // 2 + 1)  # lengths of what a sequence becomes
        found = []
        for series, full in zip(_transformed(x), longest, strict=True):
            for begin, end, number in intervals(full):
                first = begin * series.shape[1] // full
                last = max(first + 1, end * series.shape[1] // full)
                found.append(quantiles(series[:, first:last], number))
        return np.concatenate(found, axis=1)

    def load(self, state: State) -> None:
        """Set mean, spread, units and length.

        Raises:
            ValueError: if there are fewer features than positions.
        """
        super().load(state)
        if not 1 <= self.length <= len(self.mean):
            raise ValueError(f"{len(self.mean)} features of {self.length} positions")


def _transformed(x: Series) -> list[Float64[np.ndarray, "n _"]]:
    """Return the values, their first and second differences, and the sizes of their frequencies."""
    edge = SMOOTH // 2
    steps = np.pad(np.diff(x, axis=1, append=x[:, -1:]), ((0, 0), (edge, edge)), mode="edge")
    smooth = np.lib.stride_tricks.sliding_window_view(steps, SMOOTH, axis=1).mean(-1)
    curve = np.diff(x, n=2, axis=1, prepend=x[:, :1], append=x[:, -1:])
    return [x, smooth, curve, np.abs(np.fft.rfft(x, axis=1))]


def intervals(length: int) -> list[Interval]:
    """Return equal parts of a sequence, ever more of them, and such that begin in the middle of these."""
    found = []
    for number in 2 ** np.arange(min(DEPTH, int(np.log2(length)) + 1)):
        edges = np.linspace(0, length, number + 1).astype(int)
        pairs = list(pairwise(edges))
        size = int(np.median(np.diff(edges)))
        if number > 1 and size > 1:
            shift = -(-size // 2)
            pairs += [(begin + shift, end + shift) for begin, end in pairs[:-1]]
        found += [(int(begin), int(end), 1 + (int(end - begin) - 1) // EVERY) for begin, end in pairs]
    return found


def quantiles(x: Series, number: int) -> Float64[np.ndarray, "n number"]:
    """Return evenly spaced quantiles, every other less the mean: they then tell of the shape alone.

    A single one is the median.
    """
    places = np.linspace(0, x.shape[1] - 1, number) if number > 1 else np.array([(x.shape[1] - 1) / 2])
    low = places.astype(int)
    high = np.minimum(low + 1, x.shape[1] - 1)
    share = places - low
    ordered = np.sort(x, axis=1)
    found = ordered[:, low] * (1 - share) + ordered[:, high] * share
    found[:, 1::2] -= x.mean(1, keepdims=True)
    return found
