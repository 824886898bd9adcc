"""Generate images of two curves among short ones with two marked ends: are both ends of one curve?

A curve is a chain of adjacent cells that never touches itself; other curves keep their distance. It grows
from a random cell, with weight 3/2 for straight on against 1 for either turn. Every layout has six pairs of
ends, two of one curve and four of both curves. Images are produced in pairs, one of each class, whose marked
ends are equally many rows and columns apart; unmatched images are discarded, so that the distance of the ends
does not predict the label. All images are distinct. Layout number a draws from its own random stream, a pure
function of seed and a; compiled by Numba, one core.
"""

from typing import NamedTuple

import numpy as np

from ...system.jit import jit, scramble_one
from . import CurveRules, _random
from ._random import below

EMPTY, CURVE, END = range(3)  # values of a cell; END is a marked end
MAX_STARTS = 50  # maximum starts of a curve, after which the layout is discarded
MAX_WAITING = 4  # maximum images that wait for a partner, per displacement of their ends
STRAIGHT = 3  # weight of the direction straight on, for the next cell of a curve
TURN = 2  # weight of either turn


class CurveCanvas(NamedTuple):
    """Buffers of a layout while it is drawn, with a border of one cell."""

    curve: np.ndarray  # (size + 2, size + 2) uint8, 1 on a curve
    closed: np.ndarray  # (size + 2, size + 2) uint8, 1 where no further curve may pass
    cells: np.ndarray  # (room, 2) cells of the current curve
    ends: np.ndarray  # (2, 2, 2) coordinates of the first and last cell of both curves


class WaitingImages(NamedTuple):
    """Images that wait for a partner of the other class with the same displacement of ends."""

    images: np.ndarray  # (size^2, MAX_WAITING, size^2) uint8
    number: np.ndarray  # (size^2,) number of waiting images
    label: np.ndarray  # (size^2,) class of the waiting images, the same for all


class PathImages:
    """A deterministic stream of images for a seed and rules."""

    def __init__(self, seed: int, rules: CurveRules, number: int) -> None:
        size = rules.size
        room = max(rules.longest, rules.short)
        area = size**2
        self.seed = seed
        self.rules = rules
        self.attempt = 0
        curve = np.zeros((size + 2, size + 2), dtype=np.uint8)
        ends = np.zeros((2, 2, 2), dtype=np.int64)
        self.canvas = CurveCanvas(curve, curve.copy(), np.zeros((room, 2), dtype=np.int64), ends)
        images = np.zeros((area, MAX_WAITING, area), dtype=np.uint8)
        self.waiting = WaitingImages(images, np.zeros(area, dtype=np.int64), np.zeros(area, dtype=np.int64))
        self.seen = _random.make_hash_set(number + area * MAX_WAITING)

    def fill(self, images: np.ndarray, labels: np.ndarray, attempts: int) -> int:
        """Fill (n, size^2) cells and (n,) labels, 1 for one curve, from at most ``attempts`` layouts.

        Returns:
            Number of images drawn.
        """
        span = self.attempt, self.attempt + attempts
        out = (images, labels)
        n_found, self.attempt = _fill(self.seed, span, self.rules, self.canvas, self.waiting, self.seen, out)
        return n_found


@jit
def _fill(
    seed: int,
    attempts: tuple[int, int],
    rules: CurveRules,
    canvas: CurveCanvas,
    waiting: WaitingImages,
    seen: np.ndarray,
    out: tuple[np.ndarray, np.ndarray],
) -> tuple[int, int]:
    """Return the number of images drawn, always even, and the next attempt."""
    images, labels = out
    state = np.empty(1, dtype=np.uint64)
    n_found = 0
    attempt = attempts[0]
    while n_found + 1 < len(labels) and attempt < attempts[1]:
        state[0] = scramble_one(scramble_one(np.uint64(seed)) ^ np.uint64(attempt))
        attempt += 1
        if _draw_layout(state, rules, canvas):
            n_found += _write_pair(
                state, rules.size, canvas, waiting, seen, (images[n_found:], labels[n_found:])
            )
    return n_found, attempt


@jit
def _draw_layout(state: np.ndarray, rules: CurveRules, canvas: CurveCanvas) -> bool:
    """Draw two curves and the distractors; return False if one does not fit."""
    size = rules.size
    canvas.curve[:] = 0
    canvas.closed[:] = 1
    canvas.closed[1 : size + 1, 1 : size + 1] = 0
    for i in range(2 + rules.distractors):
        number = rules.short
        if i < 2:
            number = rules.shortest + below(state, rules.longest - rules.shortest + 1)
        tries = 0
        while not _draw_curve(state, size, number, canvas):
            tries += 1
            if tries == MAX_STARTS:
                return False
        if i < 2:
            canvas.ends[i, 0] = canvas.cells[0]
            canvas.ends[i, 1] = canvas.cells[number - 1]
        for k in range(number):
            r, c = canvas.cells[k]
            top = max(r - rules.gap, 0)
            left = max(c - rules.gap, 0)
            canvas.closed[top : r + rules.gap + 1, left : c + rules.gap + 1] = 1
    return True


@jit
def _draw_curve(state: np.ndarray, size: int, number: int, canvas: CurveCanvas) -> bool:
    """Draw one curve; if it reaches a dead end, erase it and return False."""
    r = 1 + below(state, size)
    c = 1 + below(state, size)
    previous = -1
    if canvas.closed[r, c]:
        return False
    curve = canvas.curve
    weight = np.empty(4, dtype=np.int64)
    for k in range(number):
        canvas.cells[k, 0] = r
        canvas.cells[k, 1] = c
        curve[r, c] = 1
        if k + 1 == number:
            return True
        total = 0
        for direction in range(4):
            y, x = _neighbour(r, c, direction)
            weight[direction] = 0
            drawn = curve[y - 1, x] + curve[y + 1, x] + curve[y, x - 1] + curve[y, x + 1]
            # One drawn neighbour, which is the current cell: otherwise the curve would touch itself.
            if drawn == 1 and not canvas.closed[y, x] and not curve[y, x]:
                weight[direction] = STRAIGHT if direction == previous else TURN
            total += weight[direction]
        if total == 0:
            for j in range(k + 1):
                canvas.curve[canvas.cells[j, 0], canvas.cells[j, 1]] = 0
            return False
        draw = below(state, total)
        previous = 0
        while draw >= weight[previous]:
            draw -= weight[previous]
            previous += 1
        r, c = _neighbour(r, c, previous)
    return True


@jit
def _neighbour(r: int, c: int, direction: int) -> tuple[int, int]:
    """Return the adjacent cell: down (0), right (1), up (2) or left (3)."""
    if direction % 2:
        return r, c + 2 - direction
    return r + 1 - direction, c


@jit
def _write_pair(
    state: np.ndarray,
    size: int,
    canvas: CurveCanvas,
    waiting: WaitingImages,
    seen: np.ndarray,
    out: tuple[np.ndarray, np.ndarray],
) -> int:
    """Write this layout and its waiting partner; return the number of images written, 2 or 0.

    The ends are the first pair for which a partner waits. If there is none, this layout waits, with ends of
    either class equally often.
    """
    images, labels = out
    first = below(state, 6)
    for i in range(6):
        a, b, label, offset = _choose_ends(canvas, (first + i) % 6)
        if (
            waiting.number[offset]
            and waiting.label[offset] != label
            and _random.add_hash(seen, _hash_layout(canvas, a, b))
        ):
            last = waiting.number[offset] - 1
            images[0] = waiting.images[offset, last]
            _paint(canvas, a, b, images[1])
            labels[0] = 1 - label
            labels[1] = label
            waiting.number[offset] = last
            return 2
    # Choices 0-1 are the ends of one curve, 2-5 of both: draw the class first, each with probability 1/2.
    a, b, label, offset = _choose_ends(canvas, below(state, 2) if below(state, 2) else 2 + below(state, 4))
    full = waiting.number[offset] == MAX_WAITING or (
        waiting.number[offset] > 0 and waiting.label[offset] != label
    )
    if not full and _random.add_hash(seen, _hash_layout(canvas, a, b)):
        _paint(canvas, a, b, waiting.images[offset, waiting.number[offset]])
        waiting.number[offset] += 1
        waiting.label[offset] = label
    return 0


@jit
def _choose_ends(canvas: CurveCanvas, choice: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return two ends, 1 if they are of one curve, and their displacement: rows * size + columns."""
    if choice < 2:
        a = canvas.ends[choice, 0]
        b = canvas.ends[choice, 1]
        label = 1
    else:
        a = canvas.ends[0, choice % 2]
        b = canvas.ends[1, choice // 2 - 1]
        label = 0
    return a, b, label, abs(a[0] - b[0]) * (len(canvas.curve) - 2) + abs(a[1] - b[1])


@jit
def _paint(canvas: CurveCanvas, a: np.ndarray, b: np.ndarray, image: np.ndarray) -> None:
    """Write the layout with these ends marked into (size^2,) cells."""
    size = len(canvas.curve) - 2
    for r in range(size):
        image[r * size : (r + 1) * size] = canvas.curve[r + 1, 1 : size + 1]
    for end in (a, b):
        image[(end[0] - 1) * size + end[1] - 1] = END


@jit
def _hash_layout(canvas: CurveCanvas, a: np.ndarray, b: np.ndarray) -> np.uint64:
    """Return a nonzero hash of the layout with these ends marked."""
    side = len(canvas.curve)
    digest = scramble_one(np.uint64(min(a[0] * side + a[1], b[0] * side + b[1])))
    digest = scramble_one(digest ^ np.uint64(max(a[0] * side + a[1], b[0] * side + b[1])))
    for r in range(1, side - 1):
        row = np.uint64(1)
        for c in range(1, side - 1):
            row = row << np.uint64(1) | np.uint64(canvas.curve[r, c])
        # A row of 64 cells shifts the leading 1 out, which is harmless: all rows have the same length.
        digest = scramble_one(digest ^ row) + np.uint64(r)
    return digest | np.uint64(1)
