"""Duplicates and near-duplicates among sequences (overlapping windows, for example), by MinHash."""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from ..errors import DataError
from ..system.jit import jit, scramble_one

RUN = 24  # length of the runs of positions (shingles) that are compared
SKETCHES = 4  # numbers in the MinHash sketch of a sequence
STEP = np.uint64(0x9E3779B97F4A7C15)
"""An odd constant with scattered bits, by which hashes are multiplied before others are added."""
MIN_SHARED = 0.5  # minimum share of common runs of similar sequences
MAX_COMPARED = 20_000  # about how many sequences are compared at most


def fingerprints(flat: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) hashes that equal sequences share, and (n, 4) sketches that similar ones mostly share.

    Two sequences share each of the four numbers with the probability that a run of 24 positions found in one
    of them is found in both (min-wise hashing, Broder 1997). Sequences shorter than 24 share none.
    """
    if int(lengths.sum()) != len(flat) or int(lengths.min(initial=0)) < 0:
        raise DataError(f"sequences of {int(lengths.sum()):,} positions in all, but there are {len(flat):,}")
    rows = np.ascontiguousarray(flat).view(np.uint8).reshape(len(flat), -1)
    whole = np.zeros(len(lengths), np.uint64)
    sketch = np.zeros((len(lengths), SKETCHES), np.uint64)
    _fingerprints(rows, lengths, whole, sketch)
    return whole, sketch


def find_similar(
    held: np.ndarray,
    train: np.ndarray,
    held_sequence: Callable[[int], np.ndarray],
    train_sequence: Callable[[int], np.ndarray],
) -> np.ndarray:
    """Return the indices of ``held`` whose sequences share half of their runs with one in ``train``.

    Sketches, (m, 4) each, propose pairs; comparing the sequences decides, because images on one background
    share runs as well. Among more than 20,000 candidates, only every second, third ... is compared, and its
    result applies to the following ones, too.
    """
    pairs = _candidates(held, train)
    rows, first = np.unique(pairs[:, 0], return_index=True)
    edges = np.append(first, len(pairs))
    every = 1 + len(rows) // MAX_COMPARED
    alike = [
        any(
            shared_fraction(held_sequence(i), train_sequence(row)) >= MIN_SHARED
            for i, row in pairs[begin:end].tolist()
        )
        for begin, end in zip(edges[:-1:every], edges[1::every], strict=True)
    ]
    return rows[np.repeat(np.array(alike, dtype=bool), every)[: len(rows)]]


def shared_fraction(a: np.ndarray, b: np.ndarray) -> float:
    """Return the share of distinct runs of one sequence that occur in the other, in [0, 1].

    The share is that of the sequence with fewer distinct runs.
    """
    first = _runs(a)
    second = _runs(b)
    return len(np.intersect1d(first, second, assume_unique=True)) / max(min(len(first), len(second)), 1)


def _candidates(held: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return (pairs, 2) indices of ``held`` and ``train`` that share at least two of their four numbers."""
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    if not len(train):
        return pairs[0]
    for a, b in combinations(range(SKETCHES), 2):
        wanted = held[:, a] * STEP + held[:, b]
        known = train[:, a] * STEP + train[:, b]
        order = np.argsort(known)  # join on equal pairs of numbers, by binary search
        position = np.searchsorted(known[order], wanted).clip(max=len(known) - 1)
        hit = (known[order][position] == wanted) & (held != 0).all(1)
        pairs.append(np.stack([np.flatnonzero(hit), order[position[hit]]], axis=1))
    return np.unique(np.concatenate(pairs), axis=0)


def _runs(sequence: np.ndarray) -> np.ndarray:
    """Return the hashes of the distinct runs of 24 positions of a sequence."""
    rows = np.ascontiguousarray(sequence).view(np.uint8).reshape(len(sequence), -1)
    symbols = np.zeros(len(rows), dtype=np.uint64)
    run = np.zeros(len(rows) - RUN + 1, dtype=np.uint64)
    for column in rows.T:
        symbols = (symbols + column + np.uint64(1)) * STEP
        symbols ^= symbols >> np.uint64(31)
    for offset in range(RUN):
        run = (run + symbols[offset : offset + len(run)]) * STEP
    return np.unique(run)


@jit
def _fingerprints(rows: np.ndarray, lengths: np.ndarray, whole: np.ndarray, sketch: np.ndarray) -> None:
    base = np.uint64(0x100000001B3)
    # base ** RUN removes the position that leaves the rolling hash.
    leaving = np.uint64(1)
    for _ in range(RUN):
        leaving *= base
    symbols = np.empty(lengths.max() if len(lengths) else 0, np.uint64)
    start = 0
    for i in range(len(lengths)):
        total = np.uint64(lengths[i])
        rolling = np.uint64(0)
        for j in range(lengths[i]):
            symbol = np.uint64(0xCBF29CE484222325)
            for k in range(rows.shape[1]):
                symbol = (symbol ^ np.uint64(rows[start + j, k])) * base
            symbols[j] = scramble_one(symbol)
            total = scramble_one(total ^ symbols[j])
            rolling = rolling * base + symbols[j]
            if j >= RUN:
                rolling -= leaving * symbols[j - RUN]
            if j >= RUN - 1:
                for s in range(SKETCHES):
                    value = scramble_one(rolling + np.uint64(s + 1) * np.uint64(0x9E3779B97F4A7C15))
                    if j == RUN - 1 or value < sketch[i, s]:
                        sketch[i, s] = value
        whole[i] = total
        start += lengths[i]
