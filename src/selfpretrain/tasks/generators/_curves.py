"""Parameters of a layout of curves; in a file of its own since the generator is slow to import."""

from typing import NamedTuple


class CurveRules(NamedTuple):
    """Sizes and numbers of the curves in an image, in cells."""

    size: int  # cells per side of the image
    shortest: int  # minimum cells of a curve
    longest: int  # maximum cells of a curve
    distractors: int  # short curves
    short: int  # cells of a short curve
    gap: int  # free cells between curves, diagonals counted
