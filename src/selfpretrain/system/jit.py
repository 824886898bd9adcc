"""Numba compilation with a cache on disk, and SplitMix64, which scatters the bits of a number."""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function with Numba; it releases the GIL, so that threads can run it in parallel.

    The cache is renewed if the file of the function changes, but not if a file that it imports does.
    """
    plain = inspect.unwrap(function)  # tests wrap every function to check its annotations
    try:
        compiled = numba.njit(cache=True, nogil=True)(plain)
    except RuntimeError:
        # Neither the module's folder nor the home folder is writable: compile in every process.
        compiled = numba.njit(nogil=True)(plain)
    return cast(Callable[P, R], compiled)


def scramble(x: Any) -> Any:
    """Return SplitMix64's output function (Steele, Lea, Flood 2014) of uint64 of any shape, a bijection."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


scramble_one = jit(scramble)  # ``scramble`` for one number, in compiled code
