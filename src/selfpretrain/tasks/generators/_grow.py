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
TRIES = 3  # positions tried for a dash before its contour fails
RETRIES = 5  # times a distractor is started before it is omitted
MIN_WEIGHT = 1e-4 * 255 * 2**16  # sum of weights below which a dash cannot be placed
RANDOM_TRIES = 64  # random pixels tried for the start of a distractor before all are enumerated


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


def make_field(tables: Tables) -> Field:
    """Allocate the buffers for an image."""
    return Field(
        state=np.zeros(1, dtype=np.uint64),
        trail=np.zeros((max_dashes(tables), 9), dtype=np.int64),
        sums=np.zeros(tables.turns.shape[1], dtype=np.int64),
        blocked=np.ones((tables.size, tables.size), dtype=np.bool_),
    )


def max_dashes(tables: Tables) -> int:
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
        facts.labels[i] = label
        facts.margins[i] = tables.margin
        facts.marked[i, 0] = first
        facts.marked[i, 1] = 2 * tables.length - 2 + (first if label == 1 else 1 - first)
        facts.tries[i] = _grow_pair(tables, field)
        facts.distractors[i] = _grow_distractors(tables, field)
        for index in range(2 * tables.length + facts.distractors[i] * tables.short):
            for j in range(3):
                facts.dashes[i, index, j] = field.trail[index, j]


@jit
def _grow_pair(tables: Tables, field: Field) -> int:
    """Grow both contours, one dash of each in turn, until a pair is complete; return the number of tries.

    Contour 2 starts at a fixed distance from the start of contour 1, in a random direction. Contour 1 starts
    so far inside that neither first dash can leave the image. Both end so far apart that a marker is clearly
    on one of them.
    """
    state = field.state
    trail = field.trail
    stop = 2 * tables.length
    tries = 0
    while True:
        tries += 1
        angle = below(state, ANGLES)
        top, bottom, left, right = tables.boxes[FIRST, angle]
        if bottom < top or right < left:
            continue
        y = top + below(state, bottom - top + 1)
        x = left + below(state, right - left + 1)
        _write_first_dash(tables, trail, 0, (y, x, angle))
        angle = below(state, ANGLES)
        side = below(state, ANGLES)
        y = round(y + tables.steps[side, APART])
        x = round(x + tables.steps[side, APART + 1])
        _write_first_dash(tables, trail, 1, (y, x, angle))
        if _extend(tables, field, 2, stop, 2):
            down = abs(trail[stop - 2, Y] - trail[stop - 1, Y])
            across = abs(trail[stop - 2, X] - trail[stop - 1, X])
            if max(down, across) >= tables.least:
                return tries


@jit
def _grow_distractors(tables: Tables, field: Field) -> int:
    """Grow distractors after a pair of contours; return the number of those that were placed.

    The last dash of contour 1 does not stop them: the published generator omits it. That generator also
    stops when less than 1 % of the pixels are free; this never happens, so it is not implemented.
    """
    n_placed = 0
    number = 2 * tables.length
    ignored = 2 * tables.length - 2
    inside = slice(tables.padding, tables.size - tables.padding)
    field.blocked[inside, inside] = False
    for index in range(number):
        if index != ignored:
            _block_pixels(tables, field, index)
    field.trail[ignored, TOP] = 4 * tables.size  # far away
    for _ in range(tables.distractors):
        for _ in range(RETRIES):
            if _start_distractor(tables, field, number) and _extend(
                tables, field, number + 1, number + tables.short, 1
            ):
                for index in range(number, number + tables.short):
                    _block_pixels(tables, field, index)
                number += tables.short
                n_placed += 1
                break
    return n_placed


@jit
def _start_distractor(tables: Tables, field: Field, index: int) -> bool:
    """Start a distractor at a random angle on a random free pixel; return False if there is none."""
    for _ in range(TRIES):
        angle = below(field.state, ANGLES)
        y, x = _free_pixel(tables, field, angle)
        if y < 0:
            return False
        least, most = _write_first_dash(tables, field.trail, index, (y, x, angle))
        if least >= 0 and most < tables.size:
            return True
    return False


@jit
def _write_first_dash(
    tables: Tables, trail: np.ndarray, index: int, dash: tuple[int, int, int]
) -> tuple[int, int]:
    """Write a first dash to the trail; return the minimum and maximum coordinate of its end and its pivot."""
    y, x, angle = dash
    steps = tables.steps
    end_y = math.ceil(y + steps[angle, HEAD])
    end_x = math.ceil(x + steps[angle, HEAD + 1])
    pivot_y = math.ceil(end_y + steps[angle, BACK])
    pivot_x = math.ceil(end_x + steps[angle, BACK + 1])
    _write_dash(trail, tables.boxes, steps, index, (y, x, angle, pivot_y, pivot_x))
    return min(end_y, end_x, pivot_y, pivot_x), max(end_y, end_x, pivot_y, pivot_x)


@jit
def _write_dash(
    trail: np.ndarray, boxes: np.ndarray, steps: np.ndarray, index: int, dash: tuple[int, int, int, int, int]
) -> None:
    """Write a dash, given with its pivot, to the trail."""
    y, x, direction, pivot_y, pivot_x = dash
    trail[index, Y] = y
    trail[index, X] = x
    trail[index, DIRECTION] = direction
    trail[index, NEXT_Y] = math.ceil(pivot_y + steps[direction, AHEAD])
    trail[index, NEXT_X] = math.ceil(pivot_x + steps[direction, AHEAD + 1])
    trail[index, TOP] = y + boxes[NEAR, direction, 0]
    trail[index, BOTTOM] = y + boxes[NEAR, direction, 1]
    trail[index, LEFT] = x + boxes[NEAR, direction, 2]
    trail[index, RIGHT] = x + boxes[NEAR, direction, 3]


@jit
def _free_pixel(tables: Tables, field: Field, angle: int) -> tuple[int, int]:
    """Return a uniformly random free pixel, or (-1, -1); enumerate all only if random draws find none."""
    top, bottom, left, right = tables.boxes[OTHERS, angle]
    high = bottom - top + 1
    wide = right - left + 1
    if high < 1 or wide < 1:
        return -1, -1
    for _ in range(RANDOM_TRIES):
        y = top + below(field.state, high)
        x = left + below(field.state, wide)
        if _is_free(tables.seats, field.blocked, angle, y, x):
            return y, x
    free = 0
    chosen = -1
    for index in range(high * wide):
        if _is_free(tables.seats, field.blocked, angle, top + index // wide, left + index % wide):
            free += 1
            if below(field.state, free) == 0:
                chosen = index
    return (-1, -1) if chosen < 0 else (top + chosen // wide, left + chosen % wide)


@jit
def _is_free(seats: np.ndarray, blocked: np.ndarray, angle: int, y: int, x: int) -> bool:
    """Return whether all pixels that a first dash at (y, x) needs are free."""
    i = 0
    number = seats.shape[1]
    while i < number and not blocked[y + seats[angle, i, 0], x + seats[angle, i, 1]]:
        i += 1
    return i == number


@jit
def _extend(tables: Tables, field: Field, first: int, stop: int, stride: int) -> bool:
    """Place dashes first..stop-1, each after the one ``stride`` before it; return False if one does not fit.

    The start of a dash is drawn from the pixels around its pivot with probability proportional to
    weight * (255 - occupied near it); it must not cross any dash before the last one of its contour.
    """
    trail, sums = field.trail, field.sums
    turns, boxes, steps = tables.turns, tables.boxes, tables.steps
    reach, masks, cores = tables.reach, tables.masks, tables.cores
    for index in range(first, stop):
        old = index - stride
        before = trail[old, DIRECTION]
        pivot_y = trail[old, NEXT_Y]
        pivot_x = trail[old, NEXT_X]
        total = _weigh_pixels(trail, turns, boxes, reach, sums, old)
        if total < MIN_WEIGHT:
            return False
        for _ in range(TRIES):
            i = np.searchsorted(sums, below(field.state, total), side="right")
            y = pivot_y + turns[before, i, 0]
            x = pivot_x + turns[before, i, 1]
            if not _crosses(trail, boxes, masks, cores, old, (y, x, turns[before, i, 2])):
                _write_dash(trail, boxes, steps, index, (y, x, turns[before, i, 2], pivot_y, pivot_x))
                break
        else:
            return False
    return True


@jit
def _weigh_pixels(
    trail: np.ndarray, turns: np.ndarray, boxes: np.ndarray, reach: np.ndarray, sums: np.ndarray, old: int
) -> int:
    """Write the cumulative weights of the pixels after dash ``old`` to ``sums``; return the total.

    The weight of a pixel falls with the most that any earlier dash occupies near it.
    """
    before = trail[old, DIRECTION]
    pivot_y = trail[old, NEXT_Y]
    pivot_x = trail[old, NEXT_X]
    rows = reach.shape[1]
    sums[:] = 0
    for other in range(old):
        if _meets(boxes, WINDOW, before, trail, other, pivot_y, pivot_x):
            direction = trail[other, DIRECTION]
            top = rows // 2 + pivot_y - trail[other, Y]
            left = rows // 2 + pivot_x - trail[other, X]
            for i in range(len(sums)):
                row = top + turns[before, i, 0]
                column = left + turns[before, i, 1]
                if 0 <= row < rows and 0 <= column < rows:
                    sums[i] = max(sums[i], reach[direction, row, column])
    total = 0
    for i in range(len(sums)):
        if _is_inside(boxes, INSIDE, before, pivot_y + turns[before, i, 0], pivot_x + turns[before, i, 1]):
            total += turns[before, i, 3] * (255 - sums[i])
        sums[i] = total
    return total


@jit
def _is_inside(boxes: np.ndarray, box: int, direction: int, y: int, x: int) -> bool:
    high = boxes[box, direction, 0] <= y <= boxes[box, direction, 1]
    return high and boxes[box, direction, 2] <= x <= boxes[box, direction, 3]


@jit
def _meets(
    boxes: np.ndarray, box: int, direction: int, trail: np.ndarray, other: int, y: int, x: int
) -> bool:
    """Return whether a box around (y, x) meets that of an earlier dash."""
    below_top = trail[other, TOP] <= y + boxes[box, direction, 1]
    right_of = trail[other, LEFT] <= x + boxes[box, direction, 3]
    high = below_top and trail[other, BOTTOM] >= y + boxes[box, direction, 0]
    return high and right_of and trail[other, RIGHT] >= x + boxes[box, direction, 2]


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
    if not _is_inside(boxes, FITS, direction, y, x):
        return True
    rows = masks.shape[1]
    for other in range(old):
        if _meets(boxes, CORE, direction, trail, other, y, x):
            hit = trail[other, DIRECTION]
            top = rows // 2 + y - trail[other, Y]
            left = rows // 2 + x - trail[other, X]
            for i in range(cores.shape[1]):
                row = top + cores[direction, i, 0]
                column = left + cores[direction, i, 1]
                inside = 0 <= row < rows and 0 <= column < rows
                if inside and masks[hit, row, column] >= cores[direction, i, 2]:
                    return True
    return False


@jit
def _block_pixels(tables: Tables, field: Field, index: int) -> None:
    """Mark the pixels that a dash of the trail occupies as blocked."""
    direction = field.trail[index, DIRECTION]
    rows = tables.masks.shape[1]
    top = field.trail[index, Y] - rows // 2
    left = field.trail[index, X] - rows // 2
    for y in range(max(top, 0), min(top + rows, tables.size)):
        for x in range(max(left, 0), min(left + rows, tables.size)):
            if tables.masks[direction, y - top, x - left] > FREE:
                field.blocked[y, x] = True
