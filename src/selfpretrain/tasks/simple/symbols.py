"""Features of symbols: n-grams, endings, symbols at places and around a position.

They are hashed to 64-bit codes, so that a vocabulary is one sorted array.
"""

import abc
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from ...data.dataset import SequenceDataset, concatenated, sequences
from ...data.ngrams import gram_codes, mix
from ...system.time_limit import check_time
from .features import AROUND, Features, Matrix, in_parts, parted

GRAMS = 4  # length of the longest n-gram
ENDING = 9  # length of the longest ending, its sign included
BEGINNING = 4  # length of the longest beginning, its sign included
MAX_FEATURES = 200_000  # maximum number of features of symbols; the most frequent ones are kept
CHUNK = 1_000_000  # positions that are encoded at a time
Codes = tuple[np.ndarray, np.ndarray]  # codes of features (uint64), and the number of the row that has each


class SymbolFeatures(Features):
    """Features of symbols as 0 and 1, or with TF-IDF weights: those that training examples have."""

    parameters: tuple[str, ...] = ("codes", "idf")
    weighted = False  # whether features have TF-IDF weights
    codes = np.empty(0, dtype=np.uint64)
    idf = np.empty(0)

    @abc.abstractmethod
    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the features of concatenated sequences."""

    def rows(self, lengths: np.ndarray) -> int:
        """Return the number of rows for sequences of these lengths."""
        return len(lengths)

    def fit(self, examples: SequenceDataset) -> None:
        """Collect the features of the examples, at most ``MAX_FEATURES``."""
        number = 0
        parts = []
        for flat, lengths in _chunks(examples):
            number += self.rows(lengths)
            codes, owner = self.encode(flat, lengths)
            found, times = np.unique(codes, return_counts=True)
            order = np.lexsort((owner, codes))
            new = np.diff(codes[order], prepend=~codes[order[:1]]) != 0  # another code, or another row
            new |= np.diff(owner[order], prepend=-1) != 0
            parts.append((found, times, np.unique(codes[order][new], return_counts=True)[1]))
        codes, times, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
        self.codes, place = np.unique(codes, return_inverse=True)
        times = np.bincount(place, times)
        rows = np.bincount(place, rows)
        if len(times) > MAX_FEATURES:
            # Those as frequent as the first that is left out are left out, too: nothing ranks them.
            least = min(np.sort(times)[-MAX_FEATURES] + 1, times.max())
            self.codes = self.codes[times >= least]
            rows = rows[times >= least]
        self.idf = np.log((1 + number) / (1 + rows)) + 1

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a sparse matrix, of many positions ``Rows``."""
        return in_parts(self._whole, parted(examples, CHUNK) if self.of_positions else [examples])

    def _whole(self, examples: SequenceDataset) -> Matrix:
        parts = []
        for flat, lengths in _chunks(examples):
            codes, owner = self.encode(flat, lengths)
            place = np.searchsorted(self.codes, codes).clip(max=len(self.codes) - 1)
            known = self.codes[place] == codes
            shape = (self.rows(lengths), len(self.codes))
            ones = np.ones(int(known.sum()))
            x = sparse.csr_matrix((ones, (owner[known], place[known])), shape=shape)
            x.sum_duplicates()
            if self.weighted:
                x.data = 1 + np.log(x.data)
                x = (x @ sparse.diags(self.idf)).tocsr()
                norm = np.sqrt(np.asarray(x.multiply(x).sum(1))[:, 0])
                x = (sparse.diags(1 / norm.clip(min=1e-12)) @ x).tocsr()
            else:
                x.data[:] = 1.0
            parts.append(x)
        x = sparse.vstack(parts).tocsr()
        return x if examples.views == 1 else self.join_views(x[: len(examples)], x[len(examples) :])

    def join_views(self, first: Matrix, second: Matrix) -> Matrix:
        """Return the features of pairs of sequences, of which both have a row."""
        return sparse.hstack([first, second]).tocsr()


class NGrams(SymbolFeatures):
    """Runs of one to four symbols."""

    name = "1-4-grams"
    weighted = True

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the n-grams that lie within a sequence."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = []
        for n, code in enumerate(gram_codes(flat, GRAMS), 1):
            inside = owner[: len(code)] == owner[n - 1 :]
            parts.append((code[inside], owner[: len(code)][inside]))
        return joined(parts)

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
            code = hashed(step, len(lengths))
            for k in range(longest):
                long = np.flatnonzero(lengths > k)
                code[long] = mix(code[long], flat[first[long] + step * k])
                parts.append((code[long], long))
        return joined(parts)


class Places(SymbolFeatures):
    """Which symbol stands at which place, for sequences of equal length."""

    name = "symbols at their places"

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return one feature per position."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(flat)) - np.repeat(lengths.cumsum() - lengths, lengths)
        return mix(mix(np.zeros(len(flat), dtype=np.uint64), place), flat), owner


class Windows(SymbolFeatures):
    """The symbols around a position, and the pairs of neighbours among them; one row per position."""

    name = f"the {AROUND} symbols on either side"
    of_positions = True
    runs = 2  # symbols of the longest run of neighbours that is a feature

    def rows(self, lengths: np.ndarray) -> int:
        """Return the number of positions."""
        return int(lengths.sum())

    def encode(self, flat: np.ndarray, lengths: np.ndarray) -> Codes:
        """Return the single symbols and pairs at every offset within the sequence."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        parts = []
        for n, code in enumerate(gram_codes(flat, self.runs), 1):
            inside = owner[: len(code)] == owner[n - 1 :]
            start = np.flatnonzero(inside)
            for offset in range(-AROUND, AROUND + 2 - n):
                row = start - offset
                kept = (row >= 0) & (row < len(flat))
                kept[kept] = owner[row[kept]] == owner[start[kept]]
                marked = mix(code[start[kept]], np.full(int(kept.sum()), offset + 100 * n))
                parts.append((marked, row[kept]))
        return joined(parts)


class Neighbours(Windows):
    """The symbols around a position, one by one."""

    name = f"the {AROUND} positions on either side"
    runs = 1


def _chunks(examples: SequenceDataset) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield some sequences after the other, concatenated, and their lengths: all first views come first."""
    for part in parted(sequences(examples), CHUNK):
        check_time()
        yield concatenated(part), part.lengths[0].numpy()


def hashed(number: int, times: int) -> np.ndarray:
    """Return the hash of a number, repeated: small numbers themselves would collide with sums of symbols."""
    return mix(np.zeros(times, dtype=np.uint64), np.full(times, number))


def joined(parts: list[Codes]) -> Codes:
    """Return the features of several parts, one after the other."""
    return np.concatenate([code for code, _ in parts]), np.concatenate([owner for _, owner in parts])
