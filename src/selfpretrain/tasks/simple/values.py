"""Features that are numbers: values, symbols as numbers, statistics, and windows around positions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.dataset import SequenceDataset
from .features import Numbers, concatenated

AROUND = 4
"""Neighbours on either side of a position."""
WIDE = 12
"""Neighbours on either side of a position, for trees."""
MOST_NEIGHBOURS = 200
"""Most numbers of all of them: with several channels there are fewer."""
CLOCKS = (2, 3, 4, 6, 8, 12, 16)
"""Periods in which positions are counted."""
BANDS = 4
"""Octaves of frequency, from the highest down, of which the power is measured."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


class FlatValues(Numbers):
    """All values of sequences of equal length."""

    name = "values"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, positions * channels)."""
        return np.stack([examples.sequence(row).reshape(-1) for row in range(len(examples))]).astype(float)


class Summary(Numbers):
    """Mean, standard deviation, minimum and maximum of every channel."""

    name = "mean, sd, min, max"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, 4 * channels)."""
        return np.stack([_summary(examples.sequence(row)) for row in range(len(examples))])


class HandMade(Numbers):
    """Statistics that a task defines for its examples."""

    name = "statistics"

    def __init__(self, statistics: Callable[[SequenceDataset], Any]) -> None:
        super().__init__()
        self.statistics = statistics

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, statistics)."""
        return self.statistics(examples)


class Statistics(Numbers):
    """Level, spread, shape and power of every channel, and the length of the sequence."""

    name = "statistics of values"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, 1 + 17 * channels)."""
        return np.stack([_statistics(examples.sequence(row)) for row in range(len(examples))])


class Symbols(FlatValues):
    """The number of the symbol at every place, for sequences of equal length."""

    name = "symbols at their places, as numbers"


class ValueWindows(Numbers):
    """The values around a position, zero beyond the ends of a sequence; one row per position."""

    name = f"the {AROUND} positions on either side"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (positions, (2 * AROUND + 1) * channels)."""
        return _windows(examples, AROUND, 0.0)


class Rhythm(Numbers):
    """The symbols or values around a position, and its place from both ends and on clocks; one row each."""

    name = "a wide window and the place of a position"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (positions, features); -1 stands beyond the ends of a sequence."""
        lengths = examples.lengths[0].numpy()
        channels = int(np.prod(examples.sequence(0).shape[1:]))
        around = max(1, min(WIDE, (MOST_NEIGHBOURS // channels - 1) // 2))
        place = np.concatenate([np.arange(length) for length in lengths])
        left = np.repeat(lengths, lengths) - place
        clocks = [place % clock for clock in CLOCKS]
        return np.hstack([_windows(examples, around, -1.0), np.stack([place, left, *clocks], axis=1)])


def _summary(sequence: np.ndarray) -> np.ndarray:
    x = sequence.astype(np.float64)
    return np.concatenate([x.mean(0), x.std(0), x.min(0), x.max(0)])


def _windows(examples: SequenceDataset, around: int, beyond: float) -> np.ndarray:
    """Return the symbols or values around every position: (positions, (2 * around + 1) * channels).

    Args:
        beyond: what stands beyond the ends of a sequence.
    """
    lengths = examples.lengths[0].numpy()
    flat = concatenated(examples).astype(np.float64)
    flat = flat.reshape(len(flat), -1)
    owner = np.repeat(np.arange(len(examples)), lengths)
    padded = np.pad(flat, ((around, around), (0, 0)))
    owners = np.pad(owner, around, constant_values=-1)
    parts = []
    for offset in range(2 * around + 1):
        shifted = slice(offset, offset + len(flat))
        parts.append(np.where((owners[shifted] == owner)[:, None], padded[shifted], beyond))
    return np.concatenate(parts, axis=1)


def _statistics(sequence: np.ndarray) -> np.ndarray:
    """Return the statistics of one sequence of values (length, channels)."""
    x = sequence.astype(np.float64)
    steps = np.abs(np.diff(x, axis=0))
    centred = x - x.mean(0)
    crossings = (np.diff(centred > 0, axis=0) != 0).sum(0) / len(x)
    power = np.abs(np.fft.rfft(centred, axis=0)) ** 2 / len(x)
    # Octaves from the highest frequency down; the lowest one takes all that is left.
    edges = [len(power) // 2**octave for octave in range(BANDS)]
    bands = [np.log1p(power[low:high].sum(0)) for high, low in zip(edges, [*edges[1:], 0], strict=True)]
    of_channels = [
        *(x.mean(0), x.std(0), x.min(0), x.max(0), x[0], x[-1]),
        *np.quantile(x, QUANTILES, axis=0),
        *(steps.mean(0) if len(steps) else np.zeros(x.shape[1]), crossings),
        *bands,
    ]
    return np.concatenate([np.array([len(x)]), *of_channels])
