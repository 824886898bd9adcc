"""A hash set of 64-bit hashes in one array, to discard duplicates; compiled by Numba."""

import numpy as np

from ...system.jit import jit


def make_set(number: int) -> np.ndarray:
    """Allocate an empty set that is at most half full with ``number`` hashes."""
    return np.zeros(1 << (2 * number).bit_length(), dtype=np.uint64)


@jit
def add(seen: np.ndarray, digest: np.uint64) -> bool:
    """Add a nonzero hash to the set; return False if it was already there."""
    mask = np.uint64(len(seen) - 1)
    # The lowest bit is always 1, which keeps hashes nonzero, and is no use for the slot.
    slot = (digest >> np.uint64(1)) & mask
    while seen[slot] != 0:
        if seen[slot] == digest:
            return False
        slot = (slot + np.uint64(1)) & mask
    seen[slot] = digest
    return True
