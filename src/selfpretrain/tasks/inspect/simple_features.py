"""Features of sequences for the simple methods of ``fit``: measured on training data, saved as tensors.

Features of symbols are hashed to 64-bit codes, whatever they are (n-grams, endings, symbols at a place), so
that a vocabulary is one sorted array. Features of values are numbers with their mean and spread.
"""

import abc
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ...data.dataset import SequenceDataset
from . import features as inspect_features
from .features import Matrix, Thresholds

GRAMS = 4
"""Length of the longest n-gram."""
ENDING = 9
"""Length of the longest ending, its sign included."""
BEGINNING = 4
"""Length of the longest beginning, its sign included."""
AROUND = 4
"""Neighbours on either side of a position."""
MOST_FEATURES = 200_000
"""Most features of symbols; the most frequent ones are kept."""
COHESION = ("information", "following 1", "following 2", "preceding 1", "preceding 2")
"""Numbers that describe the boundary between two symbols."""
BINS = 10
"""Bins of each of these numbers."""
WIDE = 12
"""Neighbours on either side of a position, for trees."""
MOST_NEIGHBOURS = 200
"""Most numbers of all of them: with several channels there are fewer."""
CLOCKS = (2, 3, 4, 6, 8, 12, 16)
"""Periods in which positions are counted."""
BANDS = 4
"""Octaves of frequency, from the highest down, of which the power is measured."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier that spreads codes over 64 bits: 2^64 divided by the golden ratio."""
HALF = np.uint64(32)
Codes = tuple[np.ndarray, np.ndarray]
"""Codes of features (uint64), and the number of the row that has each."""
State = dict[str, Tensor]


class Features(abc.ABC):
    """A (rows, features) matrix of sequences, whose parameters are measured on training data."""

    name: str

    def measure(self, everything: SequenceDataset) -> None:  # noqa: B027  # most features need nothing
        """Measure what needs no labels on all training sequences, before ``fit``."""

    @abc.abstractmethod
    def fit(self, examples: SequenceDataset) -> None:
        """Measure the parameters on the labelled training examples."""

    @abc.abstractmethod
    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return the features, one row per sequence, or per position."""

    @abc.abstractmethod
    def state(self) -> State:
        """Return the parameters."""

    @abc.abstractmethod
    def load(self, state: State) -> None:
        """Set the parameters."""


class SymbolFeatures(Features):
    """Features of symbols as 0 and 1, or with TF-IDF weights: those that training examples have."""

    weighted = False
    """Whether features have TF-IDF weights."""

    def __init__(self) -> None:
        self.codes = np.empty(0, dtype=np.uint64)
        self.idf = np.empty(0)

    @abc.abstractmethod
    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the features of concatenated sequences."""

    def rows(self, lengths: np.ndarray) -> int:
        """Return the number of rows for sequences of these lengths."""
        return len(lengths)

    def fit(self, examples: SequenceDataset) -> None:
        """Collect the features of the examples, at most ``MOST_FEATURES``."""
        lengths = examples.lengths[0].numpy()
        codes, _ = _distinct(*self.encode(_flat(examples), lengths))
        found, count = np.unique(codes, return_counts=True)
        if len(found) > MOST_FEATURES:
            kept = np.sort(np.argsort(-count, kind="stable")[:MOST_FEATURES])
            found = found[kept]
            count = count[kept]
        self.codes = found
        self.idf = np.log((1 + self.rows(lengths)) / (1 + count)) + 1

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a sparse matrix."""
        lengths = examples.lengths[0].numpy()
        codes, owner = self.encode(_flat(examples), lengths)
        place = np.searchsorted(self.codes, codes).clip(max=len(self.codes) - 1)
        known = self.codes[place] == codes
        shape = (self.rows(lengths), len(self.codes))
        ones = np.ones(int(known.sum()))
        x = sparse.csr_matrix((ones, (owner[known], place[known])), shape=shape)
        x.sum_duplicates()
        if not self.weighted:
            x.data[:] = 1.0
            return x
        x.data = 1 + np.log(x.data)
        x = (x @ sparse.diags(self.idf)).tocsr()
        norm = np.sqrt(np.asarray(x.multiply(x).sum(1))[:, 0])
        return (sparse.diags(1 / norm.clip(min=1e-12)) @ x).tocsr()

    def state(self) -> State:
        """Return the codes, whose 64 bits are stored as signed integers, and their weights."""
        return {"codes": torch.from_numpy(self.codes.view(np.int64)), "idf": torch.from_numpy(self.idf)}

    def load(self, state: State) -> None:
        """Set codes and weights."""
        self.codes = state["codes"].numpy().view(np.uint64)
        self.idf = state["idf"].numpy()


class NGrams(SymbolFeatures):
    """Runs of one to four symbols."""

    name = f"1-{GRAMS}-grams"
    weighted = True

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the n-grams that lie within a sequence."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = []
        for n, code in enumerate(_grams(flat, GRAMS), 1):
            inside = owner[: len(code)] == owner[n - 1 :]
            parts.append((code[inside], owner[: len(code)][inside]))
        return _joined(parts)


class Ends(SymbolFeatures):
    """Endings of up to eight symbols and beginnings of up to three, each as a whole."""

    name = "endings and beginnings"

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the endings and beginnings of sequences that are long enough for them."""
        ends = lengths.cumsum()
        parts = []
        for first, step, longest in ((ends - 1, -1, ENDING), (ends - lengths, 1, BEGINNING)):
            code = _hashed(step, len(lengths))
            for k in range(longest):
                long = np.flatnonzero(lengths > k)
                code[long] = _mix(code[long], flat[first[long] + step * k])
                parts.append((code[long], long))
        return _joined(parts)


class Places(SymbolFeatures):
    """Which symbol stands at which place, for sequences of equal length."""

    name = "symbols at their places"

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return one feature per position."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(flat)) - np.repeat(lengths.cumsum() - lengths, lengths)
        return _mix(_mix(np.zeros(len(flat), dtype=np.uint64), place), flat), owner


class Windows(SymbolFeatures):
    """The symbols around a position, and the pairs of neighbours among them; one row per position."""

    name = f"the {AROUND} symbols on either side"

    def rows(self, lengths: np.ndarray) -> int:
        """Return the number of positions."""
        return int(lengths.sum())

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the single symbols and pairs at every offset within the sequence."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = []
        for n, code in enumerate(_grams(flat, 2), 1):
            inside = owner[: len(code)] == owner[n - 1 :]
            start = np.flatnonzero(inside)
            for offset in range(-AROUND, AROUND + 2 - n):
                row = start - offset
                kept = (row >= 0) & (row < len(flat))
                kept[kept] = owner[row[kept]] == owner[start[kept]]
                marked = _mix(code[start[kept]], np.full(int(kept.sum()), offset + 100 * n))
                parts.append((marked, row[kept]))
        return _joined(parts)


class Cohesion(Windows):
    """The symbols around a position, and how strongly neighbours belong together in all training sequences.

    Five numbers describe the boundary between two symbols: their pointwise mutual information, the entropy of
    the symbol that follows the one or two symbols on the left, and of the symbol that precedes the one or two
    on the right. They are high and low at the boundaries of words. Each is divided into bins, at quantiles.

    Source: Jin and Tanaka-Ishii (2006), Unsupervised segmentation of Chinese text by branching entropy.
    """

    name = f"the {AROUND} symbols on either side, and statistics of all sequences"

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.edges = np.empty((len(COHESION), 0))

    def measure(self, everything: SequenceDataset) -> None:
        """Count n-grams, and choose the edges of the bins."""
        flat = _flat(everything)
        lengths = everything.lengths[0].numpy()
        owner = np.repeat(np.arange(len(lengths)), lengths)
        grams = list(_grams(flat, 3))
        inside = [owner[: len(code)] == owner[n:] for n, code in enumerate(grams)]
        self.tables = {}
        for n in (1, 2):
            codes, counts = np.unique(grams[n - 1][inside[n - 1]], return_counts=True)
            self.tables[f"log count {n}"] = codes, np.log(counts)
            whole = grams[n]
            self.tables[f"following {n}"] = _entropies(
                whole[inside[n]], grams[n - 1][: len(whole)][inside[n]]
            )
            self.tables[f"preceding {n}"] = _entropies(whole[inside[n]], grams[n - 1][1:][inside[n]])
        values = self._boundaries(flat)[:, inside[1]]
        self.edges = np.quantile(values, np.arange(1, BINS) / BINS, axis=1).T.copy()

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the symbols around every position, and the bins of the boundaries around it."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = [super().encode(flat, lengths)]
        inside = np.flatnonzero(owner[:-1] == owner[1:])
        values = self._boundaries(flat)[:, inside]
        for number, (edges, of_boundary) in enumerate(zip(self.edges, values, strict=True)):
            bins = np.searchsorted(edges, of_boundary)
            # From the boundary before the previous symbol to that after the next.
            for offset in range(-1, 3):
                row = inside + 1 - offset
                kept = (row >= 0) & (row < len(flat))
                kept[kept] = owner[row[kept]] == owner[inside[kept]]
                mark = _hashed(1000 + 10 * number + offset, int(kept.sum()))
                parts.append((_mix(mark, bins[kept]), row[kept]))
        return _joined(parts)

    def _boundaries(self, flat: np.ndarray) -> np.ndarray:
        """Return (numbers, T - 1) of the boundary after every position but the last."""
        one, two = list(_grams(flat, 2))
        ones = self._lookup("log count 1", one)
        right = self._lookup("following 2", two)
        left = self._lookup("preceding 2", two)
        found = {
            "information": self._lookup("log count 2", two) - ones[:-1] - ones[1:],
            "following 1": self._lookup("following 1", one)[:-1],
            "following 2": np.concatenate([right[:1], right[:-1]]),
            "preceding 1": self._lookup("preceding 1", one)[1:],
            "preceding 2": np.concatenate([left[1:], left[-1:]]),
        }
        return np.stack([found[name] for name in COHESION])

    def _lookup(self, table: str, codes: np.ndarray) -> np.ndarray:
        """Return the values of codes in a table; 0 where it has none."""
        known, values = self.tables[table]
        if not len(known):
            return np.zeros(len(codes))
        place = np.searchsorted(known, codes).clip(max=len(known) - 1)
        return np.where(known[place] == codes, values[place], 0.0)

    def state(self) -> State:
        """Return codes, tables and edges."""
        state = super().state() | {"edges": torch.from_numpy(self.edges)}
        for name, (codes, values) in self.tables.items():
            state[f"codes of {name}"] = torch.from_numpy(codes.view(np.int64))
            state[f"values of {name}"] = torch.from_numpy(values)
        return state

    def load(self, state: State) -> None:
        """Set codes, tables and edges."""
        super().load(state)
        self.edges = state["edges"].numpy()
        names = [name.removeprefix("values of ") for name in state if name.startswith("values of ")]
        self.tables = {
            name: (state[f"codes of {name}"].numpy().view(np.uint64), state[f"values of {name}"].numpy())
            for name in names
        }


class Numbers(Features):
    """Features that are numbers, shifted and scaled to mean 0 and standard deviation 1 on training data."""

    def __init__(self) -> None:
        self.mean = np.zeros(1)
        self.spread = np.ones(1)

    @abc.abstractmethod
    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return the features before they are standardised."""

    def fit(self, examples: SequenceDataset) -> None:
        """Measure mean and spread."""
        x = self.compute(examples)
        self.mean = x.mean(0, dtype=np.float64)
        self.spread = x.std(0, dtype=np.float64)
        self.spread[self.spread < 1e-9] = 1.0

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a dense matrix."""
        return (self.compute(examples) - self.mean) / self.spread

    def state(self) -> State:
        """Return mean and spread."""
        return {"mean": torch.from_numpy(self.mean), "spread": torch.from_numpy(self.spread)}

    def load(self, state: State) -> None:
        """Set mean and spread."""
        self.mean = state["mean"].numpy()
        self.spread = state["spread"].numpy()


class FlatValues(Numbers):
    """All values of sequences of equal length."""

    name = "values"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, positions * channels)."""
        return inspect_features.values(examples)


class Summary(Numbers):
    """Mean, standard deviation, minimum and maximum of every channel."""

    name = "mean, sd, min, max"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, 4 * channels)."""
        return inspect_features.summary(examples)


class Statistics(Numbers):
    """Level, spread, shape and power of every channel, and the length of the sequence."""

    name = "statistics of values"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, 1 + 17 * channels)."""
        return np.stack([_statistics(examples.sequence(row)) for row in range(len(examples))])


class Symbols(Numbers):
    """The number of the symbol at every place, for sequences of equal length."""

    name = "symbols at their places, as numbers"

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, positions)."""
        return examples.stack(0).numpy().astype(np.float64)


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


class KernelShares(Numbers):
    """MiniRocket: shares of positions at which the outputs of dilated kernels exceed thresholds."""

    name = "kernels (MiniRocket)"

    def __init__(self, longest: int = 0, total: int = 0) -> None:
        super().__init__()
        self.longest = longest
        self.total = total
        self.thresholds: Thresholds = []

    def fit(self, examples: SequenceDataset) -> None:
        """Measure the thresholds, and mean and spread of the shares."""
        self.thresholds = inspect_features.minirocket_thresholds(examples, self.longest, self.total) or []
        super().fit(examples)

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, some 2,000 features)."""
        return inspect_features.minirocket_shares(examples, self.thresholds)

    def state(self) -> State:
        """Return mean, spread and thresholds."""
        return super().state() | {f"dilation {dilation}": x.contiguous() for dilation, x in self.thresholds}

    def load(self, state: State) -> None:
        """Set mean, spread and thresholds."""
        super().load(state)
        found = [(int(name.split()[1]), x) for name, x in state.items() if name.startswith("dilation")]
        self.thresholds = sorted(found, key=lambda pair: pair[0])


KINDS: dict[str, type[Features]] = {
    kind.name: kind
    for kind in (
        *(NGrams, Ends, Places, Windows, Cohesion),
        *(FlatValues, Summary, Statistics, Symbols, ValueWindows, Rhythm, KernelShares),
    )
}
"""Name of the features -> class."""


def _flat(examples: SequenceDataset) -> np.ndarray:
    """Return the sequences of some examples, concatenated in their order."""
    rows = [examples.sequence(row) for row in range(len(examples))]
    return np.concatenate(rows)


def _windows(examples: SequenceDataset, around: int, beyond: float) -> np.ndarray:
    """Return the symbols or values around every position: (positions, (2 * around + 1) * channels).

    Args:
        beyond: what stands beyond the ends of a sequence.
    """
    lengths = examples.lengths[0].numpy()
    flat = _flat(examples).astype(np.float64)
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


def _mix(code: np.ndarray, symbol: Any) -> np.ndarray:
    """Return hashes of the pairs of a hash and a symbol."""
    mixed = (code + np.asarray(symbol).astype(np.uint64) + np.uint64(1)) * MIXER
    return np.asarray(mixed ^ (mixed >> HALF))


def _hashed(number: int, times: int) -> np.ndarray:
    """Return the hash of a number, repeated: small numbers themselves would collide with sums of symbols."""
    return _mix(np.zeros(times, dtype=np.uint64), np.full(times, number))


def _grams(flat: np.ndarray, longest: int) -> Iterator[np.ndarray]:
    """Yield the hashes of the n-grams that start at each position, for n = 1, 2, ..."""
    code = _mix(np.zeros(len(flat), dtype=np.uint64), flat)
    yield code
    for n in range(2, longest + 1):
        code = _mix(code[:-1], flat[n - 1 :])
        yield code


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


def _joined(parts: list[Codes]) -> Codes:
    return np.concatenate([code for code, _ in parts]), np.concatenate([owner for _, owner in parts])


def _distinct(codes: np.ndarray, owner: np.ndarray) -> Codes:
    """Return every pair of a code and a row once."""
    order = np.lexsort((owner, codes))
    codes = codes[order]
    owner = owner[order]
    first = np.ones(len(codes), dtype=bool)
    first[1:] = (codes[1:] != codes[:-1]) | (owner[1:] != owner[:-1])
    return codes[first], owner[first]
