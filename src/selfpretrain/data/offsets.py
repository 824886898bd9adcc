"""Offsets: what is subtracted, in float64, from values and real targets before they become float32.

float32 keeps 24 binary digits: epoch seconds or pressures that vary by 1 around a level of 1e9 would all be
equal. A channel is therefore centred if its level is so far from zero that rounding to float32 may change a
value by more than 1e-4 of the range of the channel. All others keep their bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

ROUNDING = 2.0**-24  # largest relative error of float32
RESOLVED = 1e-4  # share of the range of a channel that rounding may change
EXACT = 1 << 24  # whole numbers up to this one are exact in float32
BLURRED = 0.01  # share of the range of a sequence from which its rounding is reported

BLUR = "vary less than float32 resolves so far from 0; subtract the first value of each, or take differences"
"""What is said of sequences that rounding blurs."""


@dataclass(frozen=True)
class Offsets:
    """What was subtracted from the sequences and targets of a data set."""

    values: tuple[float, ...] = ()  # one per channel; empty: nothing
    target: float = 0.0

    @classmethod
    def load(cls, plain: Mapping[str, Any] | None) -> "Offsets":
        """Return saved offsets; none if there are none.

        Raises:
            ValueError: if one is not a finite number.
        """
        plain = plain or {}
        found = cls(tuple(map(float, plain.get("values", ()))), float(plain.get("target", 0.0)))
        if not np.isfinite([*found.values, found.target]).all():
            raise ValueError(f"offsets {found}")
        return found

    def padded(self, channels: int) -> "Offsets":
        """Return the offsets of data with more channels, from which nothing was subtracted."""
        more = (0.0,) * (channels - len(self.values)) if self.values else ()
        return Offsets(self.values + more, self.target)

    def notes(self) -> list[str]:
        """Return notes on what was subtracted."""
        channels = {i: level for i, level in enumerate(self.values) if level}
        shown = ", ".join(f"{level!r} (channel {i})" for i, level in list(channels.items())[:3])
        notes = [f"values are counted from {shown}, because float32 would round them"] if channels else []
        if self.target:
            notes.append(f"targets are counted from {self.target!r}, because float32 would round them")
        return notes


def offset_of(x: np.ndarray) -> float:
    """Return what to subtract from numbers (n,): their median if float32 would round them, else 0.

    The median is one of them: whole numbers stay whole, and it is the same on every machine. NaN and
    infinity do not count.
    """
    low = float(np.fmin.reduce(x, initial=np.nan))
    high = float(np.fmax.reduce(x, initial=np.nan))
    if np.isinf(low) or np.isinf(high):
        return offset_of(x[np.isfinite(x)])
    largest = max(abs(low), abs(high))
    constant = low == high and largest <= EXACT
    if constant or not largest * ROUNDING > RESOLVED * (high - low):  # not: NaN, if nothing is known
        return 0.0
    known = x[~np.isnan(x)]
    middle = (len(known) - 1) // 2
    return float(np.partition(known, middle)[middle])


def offsets_of(flat: np.ndarray) -> tuple[float, ...]:
    """Return what to subtract from every channel of values (T,) or (T, C); empty if nothing."""
    if flat.dtype.kind != "f" and flat.dtype.itemsize <= 2:  # exact in float32, and stored as they are
        return ()
    found = tuple(offset_of(channel) for channel in np.atleast_2d(flat.T.astype(np.float64, copy=False)))
    return found if any(found) else ()


def centred(flat: np.ndarray, offsets: tuple[float, ...]) -> np.ndarray:
    """Return values (T, C) minus their offsets, in float64; unchanged if there are none for C channels."""
    return flat - np.array(offsets) if flat.shape[1:] == (len(offsets),) else flat


def blurred(flat: np.ndarray, lengths: np.ndarray) -> int:
    """Return the number of sequences whose rounding to float32 exceeds 1 % of their range in a channel.

    Args:
        flat: (T, C) values in float64, after ``centred``.
        lengths: (n,) of the sequences.
    """
    lengths = lengths[lengths > 0]
    if flat.dtype != np.float64 or not len(lengths):
        return 0
    starts = lengths.cumsum() - lengths
    low = np.fmin.reduceat(flat, starts)
    high = np.fmax.reduceat(flat, starts)
    largest = np.fmax(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):
        return int(((high > low) & (largest * ROUNDING > BLURRED * (high - low))).any(1).sum())
