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

from ...errors import SpecError
from ._grow import Facts, grow, make_field, max_dashes
from ._paint import paint
from ._random import scramble
from ._tables import Rules, Tables, tables

RULES = {  # size, margins, padding, dash, thickness, marker, apart, continuity, distractors, contrast
    32: Rules(32, (1,), 1, 2, 0.5, 1.5, 7, 1.0, 20, (1.5, 2.0, 1.0)),
    64: Rules(64, (1,), 1, 5, 1.0, 2.5, 12, 1.8, 22, (0.8, 0.8, 1.0)),
    128: Rules(128, (2, 3), 1, 5, 1.5, 3.0, 20, 1.8, 35, (0.9, 0.9, 1.0)),
    256: Rules(256, (3,), 22, 5, 2.0, 5.0, 27, 1.8, 30, (1.0, 1.0, 1.0)),
}
"""Parameters by resolution, in pixels."""
LENGTHS = (6, 9, 14)
"""Dashes per contour: easy, intermediate and hard in Long Range Arena."""
QUIRKS = ("lra", "none")
BLOCK = 32
"""Images per thread and call."""


@dataclass(frozen=True)
class Settings:
    """Resolution, contour length and quirks of the images.

    With quirks "none", first dashes take all angles and need exactly the pixels that they fill, distractors
    are as bright as contours, and contours end more than a pixel apart. With "lra", images are as in the
    published generator, see ``_tables``: at 32 pixels, contour 1 and distractors start towards the upper left
    only, distractors are brighter, and both contours end on the same pixel in 0.4 % of the images, or within
    one pixel in 2 %, so that the contour of a marker is ambiguous.

    Raises:
        SpecError: if there is no such resolution, length or choice of quirks.
    """

    resolution: int = 32  # 32, 64, 128 or 256 pixels high and wide
    length: int = 14  # dashes per contour: 6, 9 or 14
    quirks: str = "lra"  # "lra" or "none"

    def __post_init__(self) -> None:
        known = {"resolution": tuple(RULES), "length": LENGTHS, "quirks": QUIRKS}
        for name, values in known.items():
            if getattr(self, name) not in values:
                choice = ", ".join(map(str, values))
                raise SpecError(f"{name}={getattr(self, name)!r} is not known; choose one of {choice}")


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
