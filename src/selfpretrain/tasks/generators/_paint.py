"""Render Pathfinder images from their dashes; compiled by Numba."""

import numpy as np

from ...system.jit import jit
from ._grow import Facts
from ._tables import Tables


@jit
def paint(tables: Tables, facts: Facts, images: np.ndarray) -> None:
    """Draw into the black images with the margin of ``tables``; the brightest pixel becomes 255.

    The published generator stores dashes as float32, which decides how halves are rounded.
    """
    ink = tables.ink
    contrast = tables.contrast
    contours = 2 * tables.length
    for i in range(len(images)):
        if facts.margins[i] != tables.margin:
            continue
        dashes = contours + facts.distractors[i] * tables.short
        brightest = contrast[2]
        for index in range(dashes):
            peak = ink[facts.dashes[i, index, 2], 0, 2] / 255 * contrast[int(index >= contours)]
            brightest = max(brightest, np.float64(np.float32(peak)))
        for index in range(dashes):
            y, x, direction = facts.dashes[i, index]
            _draw_dash(images[i], ink[direction], (y, x), contrast[int(index >= contours)], 255 / brightest)
        for index in facts.marked[i]:
            y, x, _ = facts.dashes[i, index]
            _draw_marker(images[i], tables.markers, (y, x), contrast[2] / brightest)


@jit
def _draw_dash(
    image: np.ndarray, ink: np.ndarray, start: tuple[int, int], contrast: float, scale: float
) -> None:
    for i in range(len(ink)):
        y = start[0] + ink[i, 0]
        x = start[1] + ink[i, 1]
        if 0 <= y < len(image) and 0 <= x < len(image):
            light = np.float64(np.float32(ink[i, 2] / 255 * contrast))
            image[y, x] = max(image[y, x], np.uint8(light * scale + 0.5))


@jit
def _draw_marker(image: np.ndarray, markers: np.ndarray, centre: tuple[int, int], scale: float) -> None:
    row = _marker_coordinate(centre[0], len(image), len(markers))
    column = _marker_coordinate(centre[1], len(image), len(markers))
    for i in range(len(markers)):
        for j in range(len(markers)):
            y = centre[0] - row + i
            x = centre[1] - column + j
            image[y, x] = max(image[y, x], np.uint8(markers[row, column, i, j] * scale + 0.5))


@jit
def _marker_coordinate(index: int, size: int, small: int) -> int:
    """Return the coordinate in a small image where a marker looks the same as at ``index`` in this size."""
    middle = small // 2
    if index < middle:
        return index
    return middle if index < size - middle else index - size + small
