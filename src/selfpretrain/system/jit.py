"""Functions compiled by Numba, with their types, and kept on disk between processes where that can be."""

import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Numba's decorator; the function runs without the interpreter's lock, so threads can share the work.

    What is kept is renewed when the file of the function changes, not when a file that it imports does.
    """
    bare = inspect.unwrap(function)  # the tests wrap every function to check its annotations
    try:
        made = numba.njit(cache=True, nogil=True)(bare)
    except RuntimeError:
        # Neither the folder of the module nor the home folder can be written: compile in every process.
        made = numba.njit(nogil=True)(bare)
    return cast(Callable[P, R], made)
