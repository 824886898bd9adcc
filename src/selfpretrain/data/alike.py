"""Which sequences are equal, and which share most of their content, as overlapping windows do."""

from itertools import combinations

import numpy as np

from ..compiled import compiled

RUN = 24
"""Positions that are compared at a time."""
SKETCHES = 4
"""Numbers kept of every sequence: the smallest of its runs, in as many orders."""


def fingerprints(flat: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) a number that equal sequences share; (n, 4) numbers most of which are shared by similar ones.

    Two sequences share each of the four with the probability that a run of 24 positions found in one of them
    is found in both (min-wise hashing, Broder 1997). Sequences shorter than that share none.
    """
    rows = np.ascontiguousarray(flat).view(np.uint8).reshape(len(flat), -1)
    whole, sketch = np.zeros(len(lengths), np.uint64), np.zeros((len(lengths), SKETCHES), np.uint64)
    _fingerprints(rows, lengths, whole, sketch)
    return whole, sketch


def shared(sketch: np.ndarray, split: np.ndarray) -> int:
    """How many sequences of val and test have at least two of four numbers in common with one of train."""
    told = (sketch != 0).all(1)
    train, held = told & (split == 0), told & (split > 0)
    found = np.zeros(int(held.sum()), dtype=bool)
    for a, b in combinations(range(SKETCHES), 2):
        both = sketch[:, a] * np.uint64(0x9E3779B97F4A7C15) + sketch[:, b]
        found |= np.isin(both[held], both[train])
    return int(found.sum())


@compiled
def _mix(x: np.uint64) -> np.uint64:
    """Scatter 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _fingerprints(rows: np.ndarray, lengths: np.ndarray, whole: np.ndarray, sketch: np.ndarray) -> None:
    base = np.uint64(0x100000001B3)
    leaving = np.uint64(1)
    for _ in range(RUN):
        leaving *= base
    symbols = np.empty(lengths.max() if len(lengths) else 0, np.uint64)
    at = 0
    for i in range(len(lengths)):
        total, rolling = np.uint64(lengths[i]), np.uint64(0)
        for j in range(lengths[i]):
            symbol = np.uint64(0xCBF29CE484222325)
            for k in range(rows.shape[1]):
                symbol = (symbol ^ np.uint64(rows[at + j, k])) * base
            symbols[j] = _mix(symbol)
            total = _mix(total ^ symbols[j])
            rolling = rolling * base + symbols[j]
            if j >= RUN:
                rolling -= leaving * symbols[j - RUN]
            if j >= RUN - 1:
                for s in range(SKETCHES):
                    value = _mix(rolling + np.uint64(s + 1) * np.uint64(0x9E3779B97F4A7C15))
                    if j == RUN - 1 or value < sketch[i, s]:
                        sketch[i, s] = value
        whole[i] = total
        at += lengths[i]
