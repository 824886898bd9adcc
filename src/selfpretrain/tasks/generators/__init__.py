"""Generators of synthetic examples, in NumPy and Numba without torch."""

from typing import NamedTuple


# Here and not next to the generator of paths, which is slow to import.
class CurveRules(NamedTuple):
    """Sizes and numbers of the curves in an image, in cells."""

    size: int  # cells per side of the image
    shortest: int  # minimum cells of a curve
    longest: int  # maximum cells of a curve
    distractors: int  # short curves
    short: int  # cells of a short curve
    gap: int  # free cells between curves, diagonals counted
