"""What a layout of curves is like; apart from what draws it, which takes a while to load."""

from typing import NamedTuple


class CurveRules(NamedTuple):
    """Sizes and numbers, in cells."""

    size: int  # cells a side
    shortest: int  # cells of a curve
    longest: int
    distractors: int  # short curves
    short: int  # cells of each of them
    gap: int  # free cells between curves, diagonals counted
