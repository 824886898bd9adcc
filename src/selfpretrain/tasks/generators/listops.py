"""Generate random ListOps trees as tokens and evaluate them in one pass; compiled by Numba, one core.

A tree is written in pre-order while it is drawn. A stack holds, for every open operator, what its value needs
(a histogram of the ten possible arguments, their number and sum) and the number of missing arguments. A lower
bound of the final length is always known, so a tree that must become too long is discarded at once. Attempt
number a draws from its own random stream, a pure function of seed and a.
"""

from typing import Any

import numpy as np

from ...system.jit import jit, scramble_one
from ._random import add_hash

MIN, MAX, MED, SM, CLOSE = range(10, 15)


@jit
def grow(
    seed: int,
    attempts: tuple[int, int],
    shape: tuple[int, int, int, int],
    flat: np.ndarray,
    lengths: np.ndarray,
    values: np.ndarray,
    seen: np.ndarray,
) -> tuple[int, int, int]:
    """Write distinct trees until ``lengths`` is full or the attempts are used up.

    Args:
        attempts: first attempt, and the last one plus 1.
        shape: min_length and max_length (both exclusive), max_depth, max_args.
        flat: room for ``len(lengths) * max_length`` tokens.
        seen: hash set of trees, with room for all.

    Returns:
        The number of trees and of tokens written, and the next attempt.
    """
    shortest, longest, depth, widest = shape
    stack = np.empty((depth + 1, 4), dtype=np.int64)  # operator, missing and present arguments, their sum
    histogram = np.empty((depth + 1, 10), dtype=np.int64)
    n_found = 0
    n_used = 0
    attempt = attempts[0]
    while n_found < len(lengths) and attempt < attempts[1]:
        state = scramble_one(scramble_one(np.uint64(seed)) ^ np.uint64(attempt))
        length, value, digest = _tree(state, longest, widest, flat[n_used:], stack, histogram)
        attempt += 1
        if length > shortest and add_hash(seen, digest):
            lengths[n_found] = length
            values[n_found] = value
            n_found += 1
            n_used += length
    return n_found, n_used, attempt


@jit
def _tree(
    state: np.uint64, longest: int, widest: int, out: np.ndarray, stack: np.ndarray, histogram: np.ndarray
) -> tuple[int, Any, Any]:
    """Write one tree whose root is an operator to ``out``; return its length (0: discarded), value, hash."""
    deepest = len(stack) - 1
    top = 0
    length = 0
    least: Any = 1
    digest = np.uint64(0)
    one_bit = np.uint64(1)
    while True:
        state = state + np.uint64(0x9E3779B97F4A7C15)
        # One draw per node. Bits 62-63: operator (1/4) or digit; bits 60-61: which operator;
        # bits 0-31: the number of arguments, or the digit.
        bits = scramble_one(state)
        if top == 0 or (top + 1 < deepest and bits >> np.uint64(62) == 0):
            missing = 2 + np.int64(((bits & np.uint64(0xFFFFFFFF)) * np.uint64(widest - 1)) >> np.uint64(32))
            token = MIN + np.int64((bits >> np.uint64(60)) & np.uint64(3))
            least += 1 + missing
            if least >= longest:
                return 0, 0, digest
            top += 1
            stack[top, 0] = token
            stack[top, 1] = missing
            stack[top, 2] = 0
            stack[top, 3] = 0
            histogram[top] = 0
            out[length] = token
            digest = scramble_one(digest ^ np.uint64(token + 1))
            length += 1
            continue
        value: Any = np.int64(((bits & np.uint64(0xFFFFFFFF)) * np.uint64(10)) >> np.uint64(32))
        out[length] = value
        digest = scramble_one(digest ^ np.uint64(value + 1))
        length += 1
        while True:
            histogram[top, value] += 1
            stack[top, 1] -= 1
            stack[top, 2] += 1
            stack[top, 3] += value
            if stack[top, 1] > 0:
                break
            value = np.int64(_value(stack[top], histogram[top]))
            out[length] = CLOSE
            digest = scramble_one(digest ^ np.uint64(CLOSE + 1))
            length += 1
            top -= 1
            if top == 0:
                return length, value, digest | one_bit


@jit
def _value(operator: np.ndarray, histogram: np.ndarray) -> int:
    """Return the value of a complete operator: minimum, maximum, median rounded down, or sum modulo ten."""
    if operator[0] == SM:
        return operator[3] % 10
    count = operator[2]
    if operator[0] == MIN:
        return _nth(histogram, 0)
    if operator[0] == MAX:
        return _nth(histogram, count - 1)
    return (_nth(histogram, (count - 1) // 2) + _nth(histogram, count // 2)) // 2


@jit
def _nth(histogram: np.ndarray, n: int) -> int:
    """Return the n-th smallest argument, counted from 0."""
    passed = 0
    for digit in range(10):
        passed += histogram[digit]
        if passed > n:
            return digit
    return 9
