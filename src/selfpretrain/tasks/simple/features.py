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
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from torch import Tensor

from ...data.dataset import SequenceDataset, concatenated, sequences
from ...system.time_limit import check_time

ALL = "all sequences"  # end of the names of features that are measured on sequences without a label, too
MAX_DIRECTIONS = 100  # maximum number of directions in which features vary
MANY = 1_000_000  # maximum number of values of sequences whose positions' features are in memory at a time
SMALL = 1e-3  # range of values below which a channel is measured in units of its own
RELATIVE = 1e-6
"""Range of values, as a share of the largest, up to which a channel is constant, as for networks."""
CONSTANT = 1e-9  # standard deviation of a feature below which it is constant up to rounding
Matrix = Any  # (rows, features) matrix, dense or sparse, or ``Rows``
State = dict[str, Tensor]
AROUND = 4  # neighbours on either side of a position
WIDE = 12  # neighbours on either side of a position, for trees
MAX_REMEMBERED = 20_000_000  # maximum number of features that are remembered, of a method: 160 MB
MAX_NEIGHBOURS = 200  # maximum for all of them together: with several channels there are fewer
CLOCKS = (2, 3, 4, 6, 8, 12, 16)  # periods in which positions are counted
BANDS = 4  # octaves of frequency, from the highest down, of which the power is measured
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


class Features(abc.ABC):
    """A (rows, features) matrix of sequences, whose parameters are measured on training data."""

    name: str
    of_all = False  # whether the parameters are measured on all training sequences, labelled or not
    of_positions = False  # whether there is a row per position, not per example
    parameters: tuple[str, ...] = ()  # names of the attributes, arrays or whole numbers, that are saved
    computed: "Computed | None" = None  # what is remembered to save time

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

    def forgetful(self) -> Self:
        """Return a copy that remembers nothing."""
        again = copy.copy(self)
        again.computed = None
        return again

    @abc.abstractmethod
    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return the features, one row per example, or per position."""

    def state(self) -> State:
        """Return the parameters: codes, whose 64 bits are stored as signed integers, and numbers."""
        found = {name: np.atleast_1d(getattr(self, name)) for name in self.parameters}
        found = {k: x.view(np.int64) if x.dtype == np.uint64 else x for k, x in found.items()}
        return {name: torch.from_numpy(x) for name, x in found.items()}

    def load(self, state: State) -> None:
        """Set the parameters."""
        for name in self.parameters:
            known = getattr(self, name)
            found = state[name].numpy()
            setattr(self, name, int(found[0]) if isinstance(known, int) else found.view(known.dtype))


class Computed:
    """Features that were computed before, by where a sequence begins in a tensor, and its length."""

    def __init__(self, flat: Tensor) -> None:
        self.flat = flat
        self.rows: dict[tuple[int, int], np.ndarray] = {}

    def of(self, examples: SequenceDataset, compute: Callable[[SequenceDataset], np.ndarray]) -> np.ndarray:
        """Return the features (n, K) of examples of one sequence each, and compute those that are missing."""
        if examples.flat is not self.flat:
            return compute(examples)
        places = list(zip(examples.starts[0].tolist(), examples.lengths[0].tolist(), strict=True))
        missing = [row for row, place in enumerate(places) if place not in self.rows]
        found = compute(examples.take(torch.tensor(missing))) if missing else np.empty((0, 0))
        if found.size + sum(row.size for row in self.rows.values()) > MAX_REMEMBERED:
            return found if len(missing) == len(places) else compute(examples)
        self.rows |= zip((places[row] for row in missing), found, strict=True)
        return np.stack([self.rows[place] for place in places])


class Numbers(Features):
    """Features that are numbers, shifted and scaled to mean 0 and standard deviation 1 on training data."""

    parameters: tuple[str, ...] = ("mean", "spread")
    once = False  # whether ``compute`` needs nothing that ``fit`` measures, so that folds share its results
    mean = np.zeros(1)
    spread = np.ones(1)

    def measure(self, everything: SequenceDataset) -> None:
        """Remember from here on what was computed, if that is of use; see ``once``."""
        self.computed = Computed(everything.flat) if self.once else None

    @abc.abstractmethod
    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return the features of examples of one sequence each, before they are standardised."""

    def fit(self, examples: SequenceDataset) -> None:
        """Measure mean and spread."""
        parts = map(self._views, self._parts(examples))
        found = [(len(x), x.mean(0, dtype=np.float64), x.var(0, dtype=np.float64)) for x in parts]
        sizes, means, variances = (np.array(each) for each in zip(*found, strict=True))
        share = sizes / sizes.sum()
        self.mean = share @ means
        self.spread = np.sqrt(share @ (variances + (means - self.mean) ** 2))
        self.spread[self.spread < CONSTANT] = 1.0

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a dense matrix, of pairs of sequences one view after the other, or ``Rows``."""
        return in_parts(self._standardised, self._parts(examples))

    def _parts(self, examples: SequenceDataset) -> list[SequenceDataset]:
        """Return the examples, in parts if the features of their positions would be many."""
        return parted(examples, MANY // examples.flat.shape[1:].numel()) if self.of_positions else [examples]

    def _standardised(self, examples: SequenceDataset) -> np.ndarray:
        return (self._views(examples) - self.mean) / self.spread

    def _views(self, examples: SequenceDataset) -> np.ndarray:
        check_time()
        each = sequences(examples)
        found = self.computed.of(each, self.compute) if self.computed else self.compute(each)
        return np.concatenate(np.split(found, examples.views), axis=1)


class NumbersOfValues(Numbers):
    """Numbers that do not depend on the units of values, be they volts or picovolts.

    A channel whose values are small is divided by a unit of its own, a power of two that changes no digit.
    """

    unit = np.ones(1)

    def fit(self, examples: SequenceDataset) -> None:
        """Measure the units, and mean and spread."""
        self.unit = _units(examples)
        super().fit(examples)

    def state(self) -> State:
        """Return mean and spread, and the units if values are small."""
        return super().state() | ({"unit": torch.from_numpy(self.unit)} if (self.unit < 1).any() else {})

    def load(self, state: State) -> None:
        """Set mean, spread and units."""
        super().load(state)
        self.unit = state["unit"].numpy() if "unit" in state else np.ones(1)

    def _views(self, examples: SequenceDataset) -> np.ndarray:
        if (self.unit < 1).any():
            values = concatenated(sequences(examples))
            lengths = examples.lengths.flatten()
            starts = (lengths.cumsum(0) - lengths).view_as(examples.starts)
            flat = torch.from_numpy(values / self.unit.astype(values.dtype))
            examples = replace(examples, flat=flat, starts=starts)
        return super()._views(examples)


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
        if x.shape[1] == 1:  # the only direction
            self.components = np.eye(1)
            return
        most = min(MAX_DIRECTIONS, *(size - 1 for size in x.shape))
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


def parted(examples: SequenceDataset, positions: int) -> list[SequenceDataset]:
    """Return some sequences after the other, of about as many positions; so few are one part."""
    lengths = examples.lengths.sum(0)
    if int(lengths.sum()) <= positions:
        return [examples]
    number = (lengths.cumsum(0) - lengths) // max(1, positions)
    sizes = number.unique(return_counts=True)[1].tolist()
    return [examples.take(rows) for rows in torch.arange(len(examples)).split(sizes)]


class Rows:
    """A matrix with a row per position, computed part by part when it is needed."""

    def __init__(self, matrix: Callable[[SequenceDataset], Matrix], parts: list[SequenceDataset]) -> None:
        self.matrix = matrix
        self.parts = parts
        self.taken: tuple[np.ndarray, Matrix] | None = None

    def __getitem__(self, rows: np.ndarray) -> Matrix:
        """Return some rows, in ascending order; those taken last are kept for the next setting of a model."""
        if self.taken is None or not np.array_equal(self.taken[0], rows):
            ends = np.cumsum([int(part.lengths.sum()) for part in self.parts])
            own = np.split(rows, np.searchsorted(rows, ends[:-1]))
            firsts = [0, *ends[:-1]]
            each = zip(self.parts, own, firsts, strict=True)
            found = [self.matrix(part)[some - first] for part, some, first in each]
            stack = sparse.vstack(found).tocsr() if sparse.issparse(found[0]) else np.concatenate(found)
            self.taken = rows, stack
        return self.taken[1]

    def scores(self, of_matrix: Callable[[Matrix], np.ndarray]) -> np.ndarray:
        """Return the scores (rows, K) that a function gives the rows."""
        return np.concatenate([of_matrix(self.matrix(part)) for part in self.parts])


def in_parts(matrix: Callable[[SequenceDataset], Matrix], parts: list[SequenceDataset]) -> Matrix:
    """Return the matrix of the only part, or ``Rows`` of several."""
    return Rows(matrix, parts) if len(parts) > 1 else matrix(parts[0])


class FlatValues(NumbersOfValues):
    """All values of sequences of equal length.

    A longer sequence is cut to that length. A shorter one has training means where it has ended.
    """

    name = "values"
    absent = np.nan  # what stands where a sequence has ended, before it is standardised; NaN: the mean
    width = 0  # numbers of a sequence

    def fit(self, examples: SequenceDataset) -> None:
        """Measure the length, and mean and spread."""
        self.width = int(examples.lengths.max()) * examples.sequence(0)[:1].size
        super().fit(examples)

    def load(self, state: State) -> None:
        """Set mean, spread and units, and the length, which the means show: no saved model takes pairs."""
        super().load(state)
        self.width = len(self.mean)

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, positions * channels)."""
        found = np.full((len(examples), self.width), self.absent)
        for row, numbers in enumerate(found):
            values = examples.sequence(row).reshape(-1)[: self.width]
            numbers[: len(values)] = values
        return found

    def _standardised(self, examples: SequenceDataset) -> np.ndarray:
        x = super()._standardised(examples)
        return np.where(np.isnan(x), 0.0, x)


class NumbersOfSequences(NumbersOfValues):
    """Numbers that are computed of one sequence after the other."""

    @abc.abstractmethod
    def of_sequence(self, x: np.ndarray) -> np.ndarray:
        """Return the numbers (K,) of one sequence of values (length, channels)."""

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, K)."""
        found = []
        for row in range(len(examples)):
            check_time()
            found.append(self.of_sequence(examples.sequence(row).astype(np.float64)))
        return np.stack(found)


class Summary(NumbersOfSequences):
    """Mean, standard deviation, minimum and maximum of every channel."""

    name = "mean, sd, min, max"
    once = True

    def of_sequence(self, x: np.ndarray) -> np.ndarray:
        """Return (4 * channels,)."""
        return np.concatenate([x.mean(0), x.std(0), x.min(0), x.max(0)])


class HandMade(NumbersOfValues):
    """Statistics that a task defines for its examples."""

    name = "statistics"

    def __init__(self, statistics: Callable[[SequenceDataset], Any]) -> None:
        self.statistics = statistics

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, statistics)."""
        return self.statistics(examples)


class Statistics(NumbersOfSequences):
    """Level, spread, shape and power of every channel, and the length of the sequence."""

    name = "statistics of values"
    once = True

    def of_sequence(self, x: np.ndarray) -> np.ndarray:
        """Return (1 + 17 * channels,)."""
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


class Symbols(FlatValues):
    """The number of the symbol at every place, for sequences of equal length."""

    name = "symbols at their places, as numbers"
    absent = -1.0  # no symbol


class ValueWindows(NumbersOfValues):
    """The values around a position, zero beyond the ends of a sequence; one row per position."""

    name = f"the {AROUND} positions on either side"
    of_positions = True

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (positions, (2 * AROUND + 1) * channels)."""
        return _windows(examples, AROUND, 0.0)


class Rhythm(NumbersOfValues):
    """The symbols or values around a position, and its place from both ends and on clocks; one row each."""

    name = "a wide window and the place of a position"
    of_positions = True

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (positions, features); -1 stands beyond the ends of a sequence."""
        lengths = examples.lengths[0].numpy()
        channels = int(np.prod(examples.sequence(0).shape[1:]))
        around = max(1, min(WIDE, (MAX_NEIGHBOURS // channels - 1) // 2))
        place = np.concatenate([np.arange(length) for length in lengths])
        left = np.repeat(lengths, lengths) - place
        clocks = [place % clock for clock in CLOCKS]
        return np.hstack([_windows(examples, around, -1.0), np.stack([place, left, *clocks], axis=1)])


def _units(examples: SequenceDataset) -> np.ndarray:
    """Return the unit of every channel of values: near their range if that is small, else 1.

    A channel that is constant up to rounding has the unit 1. So have symbols.
    """
    if not examples.flat.is_floating_point():
        return np.ones(1)
    low = np.inf
    high = -np.inf
    every = sequences(examples)
    for row in range(len(every)):
        x = every.sequence(row).astype(np.float64)
        low = np.fmin(low, np.fmin.reduce(x))
        high = np.fmax(high, np.fmax.reduce(x))
        if (high - low >= SMALL).all():  # of most data, after the first sequence
            break
    span = np.atleast_1d(high - low)
    small = (span < SMALL) & (span > RELATIVE * np.maximum(abs(low), abs(high)))
    return np.exp2(np.floor(np.log2(np.where(small, span, 1.0))))


def _windows(examples: SequenceDataset, around: int, beyond: float) -> np.ndarray:
    """Return the symbols or values around each position, ``beyond`` past the ends: (T, (2 around + 1) C)."""
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
