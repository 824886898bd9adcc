"""Generate Pathfinder images: are both markers on the same one of two dashed contours among distractors?

The rules are those of Linsley et al. (2018), Learning long-range spatial dependencies with horizontal gated
recurrent units, drewlinsley/pathfinder snakes.py and snakes2.py, with the parameters that Long Range Arena
(Tay et al. 2021) names in google-research/long-range-arena lra_benchmarks/data/pathfinder.py; the images
differ from those in the released files. An image depends on its seed and the settings only.
"""

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from ...system.jit import jit, scramble
from ._grow import Facts, grow, make_field, max_dashes
from ._tables import Rules, Tables, tables

RULES = {  # size, margins, padding, dash, thickness, marker, apart, continuity, distractors, contrast
    32: Rules(32, (1,), 1, 2, 0.5, 1.5, 7, 1.0, 20, (1.5, 2.0, 1.0)),
    64: Rules(64, (1,), 1, 5, 1.0, 2.5, 12, 1.8, 22, (0.8, 0.8, 1.0)),
    128: Rules(128, (2, 3), 1, 5, 1.5, 3.0, 20, 1.8, 35, (0.9, 0.9, 1.0)),
    256: Rules(256, (3,), 22, 5, 2.0, 5.0, 27, 1.8, 30, (1.0, 1.0, 1.0)),
}
"""Parameters by resolution, in pixels."""
BLOCK = 32  # images per thread and call
BRIGHT = 200  # minimum brightness of a marker everywhere except at its edge


@dataclass(frozen=True)
class Settings:
    """Resolution, contour length and quirks of the images.

    With quirks "none", first dashes take all angles, and start where the pixels that they fill are free;
    distractors are as bright as contours, and contours end more than a pixel apart. With "lra", images are as
    in the published generator, see ``_tables``: at 32 pixels, contour 1 and distractors start towards the
    upper left only, distractors are brighter, and both contours end on the same pixel in 0.4 % of the images,
    or within one pixel in 2 %, so that the contour of a marker is ambiguous.
    """

    resolution: int = 32  # 32, 64, 128 or 256 pixels high and wide
    length: int = 14  # dashes per contour: 6, 9 or 14; easy, intermediate and hard in Long Range Arena
    quirks: str = "lra"  # "lra" or "none"


def seeds(seed: int, rows: np.ndarray) -> np.ndarray:
    """Return the (n,) uint64 seeds of images: a function of the dataset's seed and the image's index."""
    return scramble(scramble(np.array([seed], dtype=np.uint64)) ^ rows.astype(np.uint64))


def images(seeds: np.ndarray, settings: Settings, threads: int = 1) -> tuple[np.ndarray, np.ndarray, Facts]:
    """Generate one image per seed, independent of the other seeds and of the number of threads.

    Returns:
        (n, size, size) uint8 images, (n,) int8 labels, 1 for connected, and the facts of the images.
    """
    margins = _tables(settings)
    n = len(seeds)
    out = np.zeros((n, settings.resolution, settings.resolution), dtype=np.uint8)
    facts = Facts(
        labels=np.zeros(n, dtype=np.int8),
        margins=np.zeros(n, dtype=np.int8),
        tries=np.zeros(n, dtype=np.int64),
        distractors=np.zeros(n, dtype=np.int8),
        dashes=np.zeros((n, max_dashes(margins[0]), 3), dtype=np.int16),
        marked=np.zeros((n, 2), dtype=np.int8),
    )

    def make(start: int) -> None:
        rows = slice(start, start + BLOCK)
        block_facts = Facts(*(fact[rows] for fact in facts))
        for i, tables_of_margin in enumerate(margins):
            grow(seeds[rows], (i, len(margins)), tables_of_margin, make_field(tables_of_margin), block_facts)
            paint(tables_of_margin, block_facts, out[rows])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(make, range(0, n, BLOCK)))
    return out, facts.labels, facts


@functools.lru_cache(maxsize=16)
def _tables(settings: Settings) -> tuple[Tables, ...]:
    """Return the tables for every margin."""
    rules = RULES[settings.resolution]
    quirks = settings.quirks == "lra"
    if not quirks:
        contour, _, marker = rules.contrast
        rules = replace(rules, contrast=(contour, contour, marker))
    return tuple(tables(rules, margin, settings.length, quirks) for margin in rules.margins)


@jit
def paint(tables: Tables, facts: Facts, images: np.ndarray) -> None:
    """Draw into the black images whose margin is that of ``tables``; the brightest pixel becomes 255.

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
            out[i, marker] = -9  # far from every pixel
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
