"""Features of symbols: n-grams, endings, symbols at places and around a position, statistics of neighbours.

They are hashed to 64-bit codes, so that a vocabulary is one sorted array.
"""

import abc
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse

from ...data.dataset import SequenceDataset
from .features import Features, Matrix, State, concatenated, sequences

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
CHUNK = 1_000_000
"""Positions that are encoded at a time."""
COHESION = ("information", "following 1", "following 2", "preceding 1", "preceding 2")
"""Numbers that describe the boundary between two symbols."""
BINS = 10
"""Bins of each of these numbers."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier that spreads codes over 64 bits: 2^64 divided by the golden ratio."""
HALF = np.uint64(32)
Codes = tuple[np.ndarray, np.ndarray]
"""Codes of features (uint64), and the number of the row that has each."""


class SymbolFeatures(Features):
    """Features of symbols as 0 and 1, or with TF-IDF weights: those that training examples have."""

    parameters: tuple[str, ...] = ("codes", "idf")
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
        number = 0
        parts = []
        for flat, lengths in _chunks(examples):
            number += self.rows(lengths)
            codes, owner = self.encode(flat, lengths)
            found, times = np.unique(codes, return_counts=True)
            parts.append((found, times, np.unique(_distinct(codes, owner), return_counts=True)[1]))
        codes, times, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
        self.codes, place = np.unique(codes, return_inverse=True)
        times = np.bincount(place, times)
        rows = np.bincount(place, rows)
        if len(times) > MOST_FEATURES:
            # Those as frequent as the first that is left out are left out, too: nothing ranks them.
            least = min(np.sort(times)[-MOST_FEATURES] + 1, times.max())
            self.codes = self.codes[times >= least]
            rows = rows[times >= least]
        self.idf = np.log((1 + number) / (1 + rows)) + 1

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a sparse matrix."""
        x = sparse.vstack([self._matrix(*part) for part in _chunks(examples)]).tocsr()
        return x if examples.views == 1 else self.join_views(x[: len(examples)], x[len(examples) :])

    def join_views(self, first: Matrix, second: Matrix) -> Matrix:
        """Return the features of pairs of sequences, of which both have a row."""
        return sparse.hstack([first, second]).tocsr()

    def _matrix(self, flat: np.ndarray, lengths: np.ndarray) -> Matrix:
        codes, owner = self.encode(flat, lengths)
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


class NGrams(SymbolFeatures):
    """Runs of one to four symbols."""

    name = "1-4-grams"
    weighted = True

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the n-grams that lie within a sequence."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = []
        for n, code in enumerate(_grams(flat, GRAMS), 1):
            inside = owner[: len(code)] == owner[n - 1 :]
            parts.append((code[inside], owner[: len(code)][inside]))
        return _joined(parts)

    def join_views(self, first: Matrix, second: Matrix) -> Matrix:
        """Return product and absolute difference of the features of pairs of sequences."""
        return sparse.hstack([first.multiply(second), abs(first - second)]).tocsr()


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
    runs = 2
    """Symbols of the longest run of neighbours that is a feature."""

    def rows(self, lengths: np.ndarray) -> int:
        """Return the number of positions."""
        return int(lengths.sum())

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the single symbols and pairs at every offset within the sequence."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = []
        for n, code in enumerate(_grams(flat, self.runs), 1):
            inside = owner[: len(code)] == owner[n - 1 :]
            start = np.flatnonzero(inside)
            for offset in range(-AROUND, AROUND + 2 - n):
                row = start - offset
                kept = (row >= 0) & (row < len(flat))
                kept[kept] = owner[row[kept]] == owner[start[kept]]
                marked = _mix(code[start[kept]], np.full(int(kept.sum()), offset + 100 * n))
                parts.append((marked, row[kept]))
        return _joined(parts)


class Neighbours(Windows):
    """The symbols around a position, one by one."""

    name = f"the {AROUND} positions on either side"
    runs = 1


class Cohesion(Windows):
    """The symbols around a position, and how strongly neighbours belong together in all training sequences.

    Five numbers describe the boundary between two symbols: their pointwise mutual information, the entropy of
    the symbol that follows the one or two symbols on the left, and of the symbol that precedes the one or two
    on the right. They are high and low at the boundaries of words. Each is divided into bins, at quantiles.

    Source: Jin and Tanaka-Ishii (2006), Unsupervised segmentation of Chinese text by branching entropy.
    """

    name = f"the {AROUND} symbols on either side, and statistics of all sequences"
    parameters = ("codes", "idf", "edges")

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.edges = np.empty((len(COHESION), 0))

    def measure(self, everything: SequenceDataset) -> None:
        """Count n-grams, and choose the edges of the bins."""
        flat = concatenated(everything)
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
        """Return codes, edges and tables."""
        state = super().state()
        for name, (codes, values) in self.tables.items():
            state[f"codes of {name}"] = torch.from_numpy(codes.view(np.int64))
            state[f"values of {name}"] = torch.from_numpy(values)
        return state

    def load(self, state: State) -> None:
        """Set codes, edges and tables."""
        super().load(state)
        names = [name.removeprefix("values of ") for name in state if name.startswith("values of ")]
        self.tables = {
            name: (state[f"codes of {name}"].numpy().view(np.uint64), state[f"values of {name}"].numpy())
            for name in names
        }


def _chunks(examples: SequenceDataset) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield some sequences after the other, concatenated, and their lengths: all first views come first."""
    examples = sequences(examples)
    lengths = examples.lengths[0]
    chunk = (lengths.cumsum(0) - lengths) // CHUNK
    for rows in torch.arange(len(examples)).split(chunk.unique(return_counts=True)[1].tolist()):
        yield concatenated(examples.take(rows)), lengths[rows].numpy()


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


def _distinct(codes: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Return every code once for every row that has it."""
    order = np.lexsort((owner, codes))
    codes = codes[order]
    owner = owner[order]
    first = np.ones(len(codes), dtype=bool)
    first[1:] = (codes[1:] != codes[:-1]) | (owner[1:] != owner[:-1])
    return codes[first]
