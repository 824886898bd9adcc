"""Missing values: refused, dropped, cut off, interpolated, or marked by a mask channel."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...errors import DataError
from .kinds import MissingPolicy
from .source import Part

CHOICES = "--missing drop leaves the row out, cut ends it there, fill interpolates, mask fills and marks"


def fill_missing(part: Part, policy: MissingPolicy, spot: Callable[[int, int], str]) -> Part:
    """Return the values (T, C) as float32 without NaN, except where a channel of a row is missing throughout.

    refuse  is the default: an error names the position
    drop    leaves out rows with a missing value
    cut     ends a row where only missing values follow; missing values before that are refused
    fill    interpolates linearly; before the first and after the last known value, repeats that value
    mask    fills, and adds one channel per channel: 1 where the value was known

    Raises:
        DataError: naming the first row and position of a missing value, and the choices.
    """
    with np.errstate(over="ignore"):
        flat = part.flat.astype(np.float32)
    unknown = ~np.isfinite(flat)
    if policy == "mask":
        flat = np.concatenate([_filled(flat, unknown, part.lengths), ~unknown], axis=1, dtype=np.float32)
        return replace(part, flat=flat)
    if not unknown.any():
        return replace(part, flat=flat)
    if policy == "fill":
        return replace(part, flat=_filled(flat, unknown, part.lengths))
    owner = np.repeat(np.arange(len(part.lengths)), part.lengths)
    place = np.arange(len(flat)) - (part.lengths.cumsum() - part.lengths)[owner]
    if policy == "drop":
        return replace(part, flat=flat).take(~np.isin(np.arange(len(part.lengths)), owner[unknown.any(1)]))
    if policy == "cut":
        lengths = np.zeros_like(part.lengths)
        np.maximum.at(lengths, owner, np.where(unknown.all(1), 0, place + 1))
        inside = place < lengths[owner]
        part, flat, unknown = replace(part, lengths=lengths), flat[inside], unknown[inside]
        if not unknown.any():
            return replace(part, flat=flat)
        owner, place = owner[inside], place[inside]
    at, channel = np.argwhere(unknown)[0].tolist()
    raise DataError(
        f"{part.where(int(owner[at]))}: {spot(int(place[at]), channel)} is missing, infinite or beyond "
        f"float32; {CHOICES}"
    )


def _filled(flat: np.ndarray, unknown: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    flat = flat.copy()
    flat[unknown] = np.nan
    ends = lengths.cumsum()
    for row in np.unique(np.searchsorted(ends, np.flatnonzero(unknown.any(1)), side="right")):
        span = slice(ends[row] - lengths[row], ends[row])
        for channel in np.flatnonzero(unknown[span].any(0)):
            known = np.flatnonzero(~unknown[span, channel])
            if len(known):
                line = np.arange(lengths[row])
                flat[span, channel] = np.interp(line, known, flat[span, channel][known])
    return flat
