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
    ink, contrast, contours = tables.ink, tables.contrast, 2 * tables.length
    for i in range(len(images)):
        if facts.margins[i] != tables.margin:
            continue
        dashes, brightest = contours + facts.distractors[i] * tables.short, contrast[2]
        for at in range(dashes):
            peak = ink[facts.dashes[i, at, 2], 0, 2] / 255 * contrast[int(at >= contours)]
            brightest = max(brightest, np.float64(np.float32(peak)))
        for at in range(dashes):
            y, x, direction = facts.dashes[i, at]
            _dash(images[i], ink[direction], (y, x), contrast[int(at >= contours)], 255 / brightest)
        for at in facts.marked[i]:
            y, x, _ = facts.dashes[i, at]
            _mark(images[i], tables.markers, (y, x), contrast[2] / brightest)


@jit
def _dash(image: np.ndarray, ink: np.ndarray, start: tuple[int, int], contrast: float, scale: float) -> None:
    for i in range(len(ink)):
        y, x = start[0] + ink[i, 0], start[1] + ink[i, 1]
        if 0 <= y < len(image) and 0 <= x < len(image):
            light = np.float64(np.float32(ink[i, 2] / 255 * contrast))
            image[y, x] = max(image[y, x], np.uint8(light * scale + 0.5))


@jit
def _mark(image: np.ndarray, markers: np.ndarray, centre: tuple[int, int], scale: float) -> None:
    row, column = _alike(centre[0], len(image), len(markers)), _alike(centre[1], len(image), len(markers))
    for i in range(len(markers)):
        for j in range(len(markers)):
            y, x = centre[0] - row + i, centre[1] - column + j
            image[y, x] = max(image[y, x], np.uint8(markers[row, column, i, j] * scale + 0.5))


@jit
def _alike(at: int, size: int, small: int) -> int:
    """Return the coordinate in a small image where a marker looks the same as at ``at`` in this size."""
    middle = small // 2
    if at < middle:
        return at
    return middle if at < size - middle else at - size + small
