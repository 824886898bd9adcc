"""Features, matrices of sequences: their base classes, and those that are numbers.

Parameters are measured on training data. Numbers are values, symbols as numbers, statistics, and windows
around positions.
"""

import abc
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from torch import Tensor

from ...data.dataset import SequenceDataset

ALL = "all sequences"
"""End of the names of features that are measured on sequences without a label, too."""
MOST_DIRECTIONS = 100
"""Most directions in which features vary."""
Matrix = Any
"""(rows, features) matrix, dense or sparse."""
State = dict[str, Tensor]
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


class Features(abc.ABC):
    """A (rows, features) matrix of sequences, whose parameters are measured on training data."""

    name: str
    of_all = False
    """Whether the parameters are measured on all training sequences, labelled or not."""
    parameters: tuple[str, ...] = ()
    """Names of the attributes, all of them arrays, that are saved."""

    def measure(self, everything: SequenceDataset) -> None:  # noqa: B027  # most features need nothing
        """Measure what needs no labels on all training sequences, before ``fit``."""

    @abc.abstractmethod
    def fit(self, examples: SequenceDataset) -> None:
        """Measure the parameters on training examples."""

    def fitted(self, labelled: SequenceDataset) -> Self:
        """Return a copy whose parameters are measured on labelled examples, or itself if on all sequences."""
        if self.of_all:
            return self
        again = copy.copy(self)  # shares what needs no labels
        again.fit(labelled)
        return again

    @abc.abstractmethod
    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return the features, one row per example, or per position."""

    def state(self) -> State:
        """Return the parameters: codes, whose 64 bits are stored as signed integers, and numbers."""
        found = {name: np.asarray(getattr(self, name)) for name in self.parameters}
        return {
            k: torch.from_numpy(x.view(np.int64) if x.dtype == np.uint64 else x) for k, x in found.items()
        }

    def load(self, state: State) -> None:
        """Set the parameters."""
        for name in self.parameters:
            setattr(self, name, state[name].numpy().view(getattr(self, name).dtype))


class Numbers(Features):
    """Features that are numbers, shifted and scaled to mean 0 and standard deviation 1 on training data."""

    parameters = ("mean", "spread")

    def __init__(self) -> None:
        self.mean = np.zeros(1)
        self.spread = np.ones(1)

    @abc.abstractmethod
    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return the features of examples of one sequence each, before they are standardised."""

    def fit(self, examples: SequenceDataset) -> None:
        """Measure mean and spread."""
        x = self._views(examples)
        self.mean = x.mean(0, dtype=np.float64)
        self.spread = x.std(0, dtype=np.float64)
        self.spread[self.spread < 1e-9] = 1.0

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a dense matrix, of pairs of sequences one view after the other."""
        return (self._views(examples) - self.mean) / self.spread

    def _views(self, examples: SequenceDataset) -> np.ndarray:
        return np.concatenate(np.split(self.compute(sequences(examples)), examples.views), axis=1)


class SingularDirections(Features):
    """The directions in which features vary most, those first; they are not saved.

    Source: Deerwester et al. (1990), Indexing by latent semantic analysis.
    """

    def __init__(self, inner: Features) -> None:
        self.inner = inner
        self.name = f"directions of {inner.name}"
        self.components = np.empty((0, 0))  # (directions, features)

    def fit(self, examples: SequenceDataset) -> None:
        """Find the directions."""
        self.inner.fit(examples)
        x = self.inner.transform(examples)
        most = min(MOST_DIRECTIONS, *(size - 1 for size in x.shape))
        self.components = TruncatedSVD(most, random_state=0).fit(x).components_

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a dense matrix with one column per direction."""
        return np.asarray(self.inner.transform(examples) @ self.components.T)


def of_all(kind: Callable[[], Features]) -> Features:
    """Return features whose parameters are measured on all training sequences, labelled or not."""
    found = kind()
    found.of_all = True
    found.name = f"{found.name}, {ALL}"
    return found


def directions(kind: Callable[[], Features]) -> Features:
    """Return the directions in which features vary most over all training sequences."""
    return of_all(lambda: SingularDirections(kind()))


def sequences(examples: SequenceDataset) -> SequenceDataset:
    """Return an example for every sequence: all first views, then all second ones."""
    if examples.views == 1:
        return examples
    n = examples.starts.numel()
    return replace(
        examples,
        starts=examples.starts.reshape(1, n),
        lengths=examples.lengths.reshape(1, n),
        targets=torch.zeros(n),  # not looked at
        groups=None,
        weights=None,
    )


def concatenated(examples: SequenceDataset) -> np.ndarray:
    """Return the sequences of examples of one sequence each, concatenated in their order."""
    return np.concatenate([examples.sequence(row) for row in range(len(examples))])


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
