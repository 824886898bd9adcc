"""n-grams of symbols: hashes, counts, and how strongly neighbouring symbols belong together.

Source: Jin and Tanaka-Ishii (2006), Unsupervised segmentation of Chinese text by branching entropy.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

BOUNDARIES = ("information", "following 1", "following 2", "preceding 1", "preceding 2")
"""Numbers that describe the boundary between two symbols."""
LONGEST = 3  # symbols of the longest n-gram that is counted
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Odd multiplier that spreads codes over 64 bits: 2^64 divided by the golden ratio."""
HALF = np.uint64(32)


class NgramCounts:
    """Counts of n-grams, and entropies of the symbols that follow and precede them."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # name -> sorted codes, their values

    def measure(self, flat: np.ndarray, owner: np.ndarray) -> None:
        """Count the n-grams of concatenated sequences.

        Args:
            owner: (T,) the sequence of every position.
        """
        grams = list(gram_codes(flat, LONGEST))
        inside = [owner[: len(code)] == owner[n:] for n, code in enumerate(grams)]
        self.tables = {}
        for n, (code, kept) in enumerate(zip(grams, inside, strict=True), 1):
            codes, counts = np.unique(code[kept], return_counts=True)
            self.tables[f"log count {n}"] = codes, np.log(counts)
        for n in (1, 2):
            whole = grams[n][inside[n]]
            self.tables[f"following {n}"] = _entropies(whole, grams[n - 1][: len(grams[n])][inside[n]])
            self.tables[f"preceding {n}"] = _entropies(whole, grams[n - 1][1:][inside[n]])

    def boundaries(self, flat: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Return (numbers, T - 1) of the boundary after every position but the last.

        They are the pointwise mutual information of the two symbols, the entropy of the symbol that follows
        the one or two symbols on the left, and of the symbol that precedes the one or two on the right. They
        are high and low at the boundaries of words. At the ends of a sequence, where one side has one symbol
        only, its entropy stands for that of two.

        Args:
            owner: (T,) the sequence of every position; values between two sequences mean nothing.
        """
        one, two = list(gram_codes(flat, 2))
        ones = self.values("log count 1", one)
        right = self.values("following 2", two)
        left = self.values("preceding 2", two)
        inner = np.zeros(len(flat), dtype=bool)  # neither first nor last of a sequence
        inner[1:-1] = (owner[:-2] == owner[1:-1]) & (owner[1:-1] == owner[2:])
        following = self.values("following 1", one)[:-1]
        preceding = self.values("preceding 1", one)[1:]
        found = {
            "information": self.values("log count 2", two) - ones[:-1] - ones[1:],
            "following 1": following,
            "following 2": np.where(inner[:-1], np.roll(right, 1), following),
            "preceding 1": preceding,
            "preceding 2": np.where(inner[1:], np.roll(left, -1), preceding),
        }
        return np.stack([found[name] for name in BOUNDARIES])

    def values(self, table: str, codes: np.ndarray) -> np.ndarray:
        """Return the values of codes in a table; 0 where it has none."""
        known, values = self.tables[table]
        if not len(known):
            return np.zeros(len(codes))
        place = np.searchsorted(known, codes).clip(max=len(known) - 1)
        return np.where(known[place] == codes, values[place], 0.0)

    def state(self) -> dict[str, Tensor]:
        """Return codes and values of all tables."""
        state = {}
        for name, (codes, values) in self.tables.items():
            state[f"codes of {name}"] = torch.from_numpy(codes.view(np.int64))
            state[f"values of {name}"] = torch.from_numpy(values)
        return state

    def load(self, state: dict[str, Tensor]) -> None:
        """Set the tables."""
        names = [name.removeprefix("values of ") for name in state if name.startswith("values of ")]
        self.tables = {
            name: (state[f"codes of {name}"].numpy().view(np.uint64), state[f"values of {name}"].numpy())
            for name in names
        }


def owners(lengths: Tensor) -> np.ndarray:
    """Return the number of the sequence that every position of concatenated sequences belongs to."""
    return np.repeat(np.arange(len(lengths)), lengths.numpy())


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


def mix(code: np.ndarray, symbol: Any) -> np.ndarray:
    """Return hashes of the pairs of a hash and a symbol."""
    mixed = (code + np.asarray(symbol).astype(np.uint64) + np.uint64(1)) * MIXER
    return np.asarray(mixed ^ (mixed >> HALF))


def gram_codes(flat: np.ndarray, longest: int) -> Iterator[np.ndarray]:
    """Yield the hashes of the n-grams that start at each position, for n = 1, 2, ..."""
    code = mix(np.zeros(len(flat), dtype=np.uint64), flat)
    yield code
    for n in range(2, longest + 1):
        code = mix(code[:-1], flat[n - 1 :])
        yield code
