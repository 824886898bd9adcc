"""Grow two contours and distractors that do not touch, dash by dash; compiled by Numba.

Collisions are checked against the few earlier dashes that are close, not on a map. So a pair of contours that
fails, as almost all do, needs no clean-up. Only the starts of distractors need a map of blocked pixels.
"""

import math
from typing import NamedTuple

import numpy as np

from ...system.jit import jit
from ._random import below
from ._tables import (
    AHEAD,
    ANGLES,
    APART,
    BACK,
    CORE,
    FIRST,
    FITS,
    FREE,
    HEAD,
    INSIDE,
    NEAR,
    OTHERS,
    WINDOW,
    Tables,
)

Y, X, DIRECTION, NEXT_Y, NEXT_X, TOP, BOTTOM, LEFT, RIGHT = range(9)
"""Columns of the trail: start and direction of a dash, pivot of the next dash, box that it may affect."""
TRIES = 3
"""Positions tried for a dash before its contour fails."""
RETRIES = 5
"""Times a distractor is started before it is omitted."""
LEAST = 1e-4 * 255 * 2**16
"""Sum of weights below which a dash cannot be placed."""
GLANCES = 64
"""Random pixels tried for the start of a distractor before all are enumerated."""


class Facts(NamedTuple):
    """Labels and geometry of n images with contours of l dashes."""

    labels: np.ndarray  # (n,) int8, 1 if both markers are on the same contour
    margins: np.ndarray  # (n,) int8, half the gap between two dashes, in pixels
    tries: np.ndarray  # (n,) int64, pairs of contours started until one was complete
    distractors: np.ndarray  # (n,) int8, distractors that were placed
    dashes: np.ndarray  # (n, most, 3) int16: row, column, direction; of contours 1 and 2 in turn, then others
    marked: np.ndarray  # (n, 2) int8, the dashes with a marker: 0 or 1, and 2l-2 or 2l-1


class Field(NamedTuple):
    """Buffers that change while contours grow; reused for all images."""

    state: np.ndarray  # (1,) of the random number generator
    trail: np.ndarray  # (dashes, 9) in the order of ``Facts.dashes``
    sums: np.ndarray  # (R,) cumulative weights of the pixels where the next dash may start
    blocked: np.ndarray  # (size, size) pixels that are not free


def field(tables: Tables) -> Field:
    """Allocate the buffers for an image."""
    return Field(
        state=np.zeros(1, dtype=np.uint64),
        trail=np.zeros((most(tables), 9), dtype=np.int64),
        sums=np.zeros(tables.turns.shape[1], dtype=np.int64),
        blocked=np.ones((tables.size, tables.size), dtype=np.bool_),
    )


def most(tables: Tables) -> int:
    """Return the maximum number of dashes of an image."""
    return 2 * tables.length + tables.distractors * tables.short


@jit
def grow(seeds: np.ndarray, choice: tuple[int, int], tables: Tables, field: Field, facts: Facts) -> None:
    """Fill in the facts of the images with the margin of ``tables``: number choice[0] of choice[1]."""
    for i in range(len(seeds)):
        field.state[0] = seeds[i]
        label = below(field.state, 2)
        if below(field.state, choice[1]) != choice[0]:
            continue
        first = below(field.state, 2)
        facts.labels[i], facts.margins[i] = label, tables.margin
        facts.marked[i, 0] = first
        facts.marked[i, 1] = 2 * tables.length - 2 + (first if label == 1 else 1 - first)
        facts.tries[i] = _pair(tables, field)
        facts.distractors[i] = _distract(tables, field)
        for at in range(2 * tables.length + facts.distractors[i] * tables.short):
            for j in range(3):
                facts.dashes[i, at, j] = field.trail[at, j]


@jit
def _pair(tables: Tables, field: Field) -> int:
    """Grow both contours, one dash of each in turn, until a pair is complete; return the number of tries.

    Contour 2 starts at a fixed distance from the start of contour 1, in a random direction. Contour 1 starts
    so far inside that neither first dash can leave the image.
    """
    state, trail, boxes, steps, tries = field.state, field.trail, tables.boxes, tables.steps, 0
    while True:
        tries += 1
        angle = below(state, ANGLES)
        top, bottom, left, right = boxes[FIRST, angle]
        if bottom < top or right < left:
            continue
        y, x = top + below(state, bottom - top + 1), left + below(state, right - left + 1)
        _start(trail, boxes, steps, 0, (y, x, angle))
        angle, side = below(state, ANGLES), below(state, ANGLES)
        y, x = round(y + steps[side, APART]), round(x + steps[side, APART + 1])
        _start(trail, boxes, steps, 1, (y, x, angle))
        if _extend(tables, field, 2, 2 * tables.length, 2) and _parted(tables, trail):
            return tries


@jit
def _parted(tables: Tables, trail: np.ndarray) -> bool:
    """Return whether both contours end so far apart that a marker is clearly on one of them."""
    one, other = 2 * tables.length - 2, 2 * tables.length - 1
    down, right = abs(trail[one, Y] - trail[other, Y]), abs(trail[one, X] - trail[other, X])
    return max(down, right) >= tables.least


@jit
def _distract(tables: Tables, field: Field) -> int:
    """Grow distractors after a pair of contours; return the number of those that were placed.

    The last dash of contour 1 is no obstacle to them: the published generator omits it. That generator also
    stops when less than 1 % of the pixels are free; this never happens, so it is not implemented.
    """
    placed, number, forgotten = 0, 2 * tables.length, 2 * tables.length - 2
    inside = slice(tables.padding, tables.size - tables.padding)
    field.blocked[inside, inside] = False
    for at in range(number):
        if at != forgotten:
            _block(tables, field, at)
    field.trail[forgotten, TOP] = 4 * tables.size  # far away
    for _ in range(tables.distractors):
        for _ in range(RETRIES):
            if _begin(tables, field, number) and _extend(tables, field, number + 1, number + tables.short, 1):
                for at in range(number, number + tables.short):
                    _block(tables, field, at)
                number, placed = number + tables.short, placed + 1
                break
    return placed


@jit
def _begin(tables: Tables, field: Field, at: int) -> bool:
    """Start a distractor at a random angle on a random free pixel; return False if there is none."""
    for _ in range(TRIES):
        angle = below(field.state, ANGLES)
        y, x = _free(field.state, field.blocked, tables.seats, tables.boxes, angle)
        if y < 0:
            return False
        least, most = _start(field.trail, tables.boxes, tables.steps, at, (y, x, angle))
        if least >= 0 and most < tables.size:
            return True
    return False


@jit
def _start(
    trail: np.ndarray, boxes: np.ndarray, steps: np.ndarray, at: int, dash: tuple[int, int, int]
) -> tuple[int, int]:
    """Write a first dash to the trail; return the minimum and maximum coordinate of its end and its pivot."""
    y, x, angle = dash
    end_y, end_x = math.ceil(y + steps[angle, HEAD]), math.ceil(x + steps[angle, HEAD + 1])
    pivot_y, pivot_x = math.ceil(end_y + steps[angle, BACK]), math.ceil(end_x + steps[angle, BACK + 1])
    _write(trail, boxes, steps, at, (y, x, angle, pivot_y, pivot_x))
    return min(end_y, end_x, pivot_y, pivot_x), max(end_y, end_x, pivot_y, pivot_x)


@jit
def _write(
    trail: np.ndarray, boxes: np.ndarray, steps: np.ndarray, at: int, dash: tuple[int, int, int, int, int]
) -> None:
    """Write a dash, given with its pivot, to the trail."""
    y, x, direction, pivot_y, pivot_x = dash
    trail[at, Y], trail[at, X], trail[at, DIRECTION] = y, x, direction
    trail[at, NEXT_Y] = math.ceil(pivot_y + steps[direction, AHEAD])
    trail[at, NEXT_X] = math.ceil(pivot_x + steps[direction, AHEAD + 1])
    trail[at, TOP], trail[at, BOTTOM] = y + boxes[NEAR, direction, 0], y + boxes[NEAR, direction, 1]
    trail[at, LEFT], trail[at, RIGHT] = x + boxes[NEAR, direction, 2], x + boxes[NEAR, direction, 3]


@jit
def _free(
    state: np.ndarray, blocked: np.ndarray, seats: np.ndarray, boxes: np.ndarray, angle: int
) -> tuple[int, int]:
    """Return a uniformly random free pixel, or (-1, -1); enumerate all only if random draws find none."""
    top, bottom, left, right = boxes[OTHERS, angle]
    high, wide = bottom - top + 1, right - left + 1
    if high < 1 or wide < 1:
        return -1, -1
    for _ in range(GLANCES):
        y, x = top + below(state, high), left + below(state, wide)
        if _seated(blocked, seats, angle, y, x):
            return y, x
    free, chosen = 0, -1
    for at in range(high * wide):
        if _seated(blocked, seats, angle, top + at // wide, left + at % wide):
            free += 1
            if below(state, free) == 0:
                chosen = at
    return (-1, -1) if chosen < 0 else (top + chosen // wide, left + chosen % wide)


@jit
def _seated(blocked: np.ndarray, seats: np.ndarray, angle: int, y: int, x: int) -> bool:
    """Return whether all pixels that a first dash at (y, x) needs are free."""
    i, number = 0, seats.shape[1]
    while i < number and not blocked[y + seats[angle, i, 0], x + seats[angle, i, 1]]:
        i += 1
    return i == number


@jit
def _extend(tables: Tables, field: Field, first: int, stop: int, stride: int) -> bool:
    """Place dashes first..stop-1, each after the one ``stride`` before it; return False if one does not fit.

    The start of a dash is drawn from the pixels around its pivot with probability proportional to
    weight * (255 - occupied near it); it must not cross any dash before the last one of its contour.
    """
    state, trail, sums, steps = field.state, field.trail, field.sums, tables.steps
    turns, boxes, masks, reach, cores = tables.turns, tables.boxes, tables.masks, tables.reach, tables.cores
    for at in range(first, stop):
        old = at - stride
        before, pivot_y, pivot_x = trail[old, DIRECTION], trail[old, NEXT_Y], trail[old, NEXT_X]
        total = _weigh(trail, turns, boxes, reach, sums, old)
        if total < LEAST:
            return False
        for _ in range(TRIES):
            i = _pick(sums, below(state, total))
            y, x = pivot_y + turns[before, i, 0], pivot_x + turns[before, i, 1]
            if not _crosses(trail, boxes, masks, cores, old, (y, x, turns[before, i, 2])):
                _write(trail, boxes, steps, at, (y, x, turns[before, i, 2], pivot_y, pivot_x))
                break
        else:
            return False
    return True


@jit
def _weigh(
    trail: np.ndarray, turns: np.ndarray, boxes: np.ndarray, reach: np.ndarray, sums: np.ndarray, old: int
) -> int:
    """Write the cumulative weights of the pixels after dash ``old`` to ``sums``; return the total."""
    before, pivot_y, pivot_x = trail[old, DIRECTION], trail[old, NEXT_Y], trail[old, NEXT_X]
    top, bottom = pivot_y + boxes[WINDOW, before, 0], pivot_y + boxes[WINDOW, before, 1]
    left, right = pivot_x + boxes[WINDOW, before, 2], pivot_x + boxes[WINDOW, before, 3]
    for i in range(len(sums)):
        sums[i] = 0
    for i in range(old):
        high = trail[i, TOP] <= bottom and trail[i, BOTTOM] >= top
        if high and trail[i, LEFT] <= right and trail[i, RIGHT] >= left:
            down, across = pivot_y - trail[i, Y], pivot_x - trail[i, X]
            _shade(sums, reach, turns, (trail[i, DIRECTION], before), down, across)
    total = 0
    for i in range(len(sums)):
        y, x, weight = pivot_y + turns[before, i, 0], pivot_x + turns[before, i, 1], turns[before, i, 3]
        if _within(boxes, INSIDE, before, y, x):
            total += weight * (255 - sums[i])
        sums[i] = total
    return total


@jit
def _shade(
    sums: np.ndarray, reach: np.ndarray, turns: np.ndarray, which: tuple[int, int], down: int, right: int
) -> None:
    """Raise ``sums`` to what a dash occupies near each pixel around a pivot ``down`` and ``right`` of it."""
    rows = reach.shape[1]
    for i in range(len(sums)):
        row, column = rows // 2 + down + turns[which[1], i, 0], rows // 2 + right + turns[which[1], i, 1]
        if 0 <= row < rows and 0 <= column < rows:
            sums[i] = max(sums[i], reach[which[0], row, column])


@jit
def _within(boxes: np.ndarray, which: int, direction: int, y: int, x: int) -> bool:
    high = boxes[which, direction, 0] <= y <= boxes[which, direction, 1]
    return high and boxes[which, direction, 2] <= x <= boxes[which, direction, 3]


@jit
def _pick(sums: np.ndarray, chosen: int) -> int:
    """Return the first index at which the cumulative sum exceeds ``chosen``."""
    at = 0
    while sums[at] <= chosen:
        at += 1
    return at


@jit
def _crosses(
    trail: np.ndarray,
    boxes: np.ndarray,
    masks: np.ndarray,
    cores: np.ndarray,
    old: int,
    dash: tuple[int, int, int],
) -> bool:
    """Return whether the core of a dash hits the border, or the mask of a dash before ``old``."""
    y, x, direction = dash
    if not _within(boxes, FITS, direction, y, x):
        return True
    top, bottom = y + boxes[CORE, direction, 0], y + boxes[CORE, direction, 1]
    left, right = x + boxes[CORE, direction, 2], x + boxes[CORE, direction, 3]
    for i in range(old):
        high = trail[i, TOP] <= bottom and trail[i, BOTTOM] >= top
        if high and trail[i, LEFT] <= right and trail[i, RIGHT] >= left:
            which, down, across = (trail[i, DIRECTION], direction), y - trail[i, Y], x - trail[i, X]
            if _overlap(masks, cores, which, down, across):
                return True
    return False


@jit
def _overlap(masks: np.ndarray, cores: np.ndarray, which: tuple[int, int], down: int, right: int) -> bool:
    """Return whether the core of a dash that starts ``down`` and ``right`` of another hits its mask."""
    rows = masks.shape[1]
    for i in range(cores.shape[1]):
        row, column = rows // 2 + down + cores[which[1], i, 0], rows // 2 + right + cores[which[1], i, 1]
        if 0 <= row < rows and 0 <= column < rows and masks[which[0], row, column] >= cores[which[1], i, 2]:
            return True
    return False


@jit
def _block(tables: Tables, field: Field, at: int) -> None:
    """Mark the pixels that a dash of the trail occupies as blocked."""
    direction, rows = field.trail[at, DIRECTION], tables.masks.shape[1]
    top, left = field.trail[at, Y] - rows // 2, field.trail[at, X] - rows // 2
    for y in range(max(top, 0), min(top + rows, tables.size)):
        for x in range(max(left, 0), min(left + rows, tables.size)):
            if tables.masks[direction, y - top, x - left] > FREE:
                field.blocked[y, x] = True
