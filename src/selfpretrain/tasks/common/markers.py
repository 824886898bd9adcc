"""Find the two markers of a Pathfinder image in its pixels; compiled by Numba."""

import numpy as np

from ...system.jit import jit

BRIGHT = 200
"""Minimum brightness of a marker everywhere except at its edge."""


@jit
def find_markers(images: np.ndarray, half: int, out: np.ndarray) -> None:
    """Find the centre of the brightest square, and of the brightest one that does not overlap it.

    Dashes may be as bright as markers, but are too thin to fill a square.

    Args:
        images: (n, side, side) uint8.
        half: squares have 2 half + 1 pixels per side, so that they fit into a marker.
        out: (n, 2, 2) receives rows and columns; -9 if no square is bright enough.
    """
    side = images.shape[1]
    for i in range(len(images)):
        for marker in range(2):
            brightest = -1
            out[i, marker] = -9
            for y in range(half, side - half):
                for x in range(half, side - half):
                    overlaps = max(abs(y - out[i, 0, 0]), abs(x - out[i, 0, 1])) <= 2 * half
                    if images[i, y, x] < BRIGHT or (marker == 1 and overlaps):
                        continue
                    total = 0
                    for dy in range(-half, half + 1):
                        for dx in range(-half, half + 1):
                            total += images[i, y + dy, x + dx]
                    if total > brightest:
                        brightest = total
                        out[i, marker, 0] = y
                        out[i, marker, 1] = x
