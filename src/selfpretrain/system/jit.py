"""Numba compilation with a cache on disk."""

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

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
