"""Counter-based random numbers (SplitMix64), and a hash set to discard duplicates; compiled by Numba.

Each draw is a pure function of the seed and its index.
"""

from typing import Any

import numpy as np

from ...system.jit import jit, scramble_one


@jit
def bits(state: np.ndarray) -> np.uint64:
    """Return 64 random bits and advance ``state`` (1,) uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return scramble_one(state[0])


@jit
def below(state: np.ndarray, n: int) -> int:
    """Return a random integer in 0..n-1, for n up to 2^31."""
    drawn: Any = np.int64(((bits(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
    return drawn


def make_hash_set(number: int) -> np.ndarray:
    """Allocate an empty set that is at most half full with ``number`` hashes."""
    return np.zeros(1 << (2 * number).bit_length(), dtype=np.uint64)


@jit
def add_hash(seen: np.ndarray, digest: np.uint64) -> bool:
    """Add a nonzero hash to the set; return False if it was already there."""
    mask = np.uint64(len(seen) - 1)
    # The lowest bit is always 1, which keeps hashes nonzero, and does not help to choose the slot.
    slot = (digest >> np.uint64(1)) & mask
    while seen[slot] != 0:
        if seen[slot] == digest:
            return False
        slot = (slot + np.uint64(1)) & mask
    seen[slot] = digest
    return True
