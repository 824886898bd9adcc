"""The output function of SplitMix64, which scatters the bits of a number; compiled by Numba."""

from typing import Any

import numpy as np

from .jit import jit


def scramble(x: Any) -> Any:
    """Return SplitMix64's output function (Steele, Lea, Flood 2014) of uint64 of any shape, a bijection."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


scramble_one = jit(scramble)  # ``scramble`` for one number, in compiled code
