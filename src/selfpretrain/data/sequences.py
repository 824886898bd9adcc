"""Sequences of unequal lengths, end to end, as they are read from files and from the X of an estimator."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from ..errors import DataError
from .dataset import SequenceDataset
from .offsets import BLUR, blurred, centred, offsets_of
from .spec import Signal, Tokens, Values

T = TypeVar("T")
SequenceKind = Literal["text", "tokens", "values"]
MAX_TOKENS = 1 << 24
NAMED = 3  # most rows named in an error message
NOTHING = "there is no sequence"
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair of UTF-16, which is not a letter by itself; or a byte that the encoding of a file lacks."""


@dataclass(frozen=True)
class Sequences:
    """Sequences that were read, concatenated, and for every other row why it cannot be used."""

    kind: SequenceKind
    flat: np.ndarray  # (T,) symbols or (T, C) values; NaN is missing
    lengths: np.ndarray  # (n,)
    rows: np.ndarray  # (n,) their row numbers in X or in the file
    wrong: dict[int, str] = field(default_factory=dict)  # row number -> why it cannot be used
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Arrow arrays (n,) of strings by role: label (null: unlabelled), group, split."""
    cut: int = 0  # number of sequences that were cut to the maximum length
    offsets: tuple[float, ...] = ()  # what was subtracted from the values of every channel
    blurred: int = 0  # number of sequences that rounding to float32 blurs all the same

    @property
    def given(self) -> int:
        """Return the number of rows, usable or not."""
        return len(self.rows) + len(self.wrong)

    def take(self, keep: np.ndarray, why: str = "") -> "Sequences":
        """Keep the sequences where ``keep`` (n,) is true, and record ``why`` for the others."""
        return replace(
            self,
            flat=self.flat[np.repeat(keep, self.lengths)],
            lengths=self.lengths[keep],
            rows=self.rows[keep],
            wrong=self.wrong | dict.fromkeys(self.rows[~keep].tolist(), why),
            columns={role: column.filter(keep) for role, column in self.columns.items()},
        )

    def truncated(self, lengths: np.ndarray) -> "Sequences":
        """Return the sequences truncated to the given lengths (n,)."""
        owner, place = positions(self.lengths)
        flat = self.flat[place < lengths[owner]]
        return replace(self, flat=flat, lengths=np.minimum(self.lengths, lengths))

    def until_known(self, known: np.ndarray) -> "Sequences":
        """Return the sequences up to their last position that is known (T,)."""
        if known.all():
            return self
        owner, place = positions(self.lengths)
        lengths = np.zeros_like(self.lengths)
        np.maximum.at(lengths, owner, np.where(known, place + 1, 0))
        return self.truncated(lengths)

    def owners(self, marked: np.ndarray) -> np.ndarray:
        """Return whether any position of each sequence (n,) is marked (T,)."""
        found = np.zeros(len(self.lengths), dtype=bool)
        found[positions(self.lengths)[0][marked]] = True
        return found

    def checked(self, offsets: tuple[float, ...] | None = None) -> "Sequences":
        """Drop unusable rows, cut padding, fill in missing values, and convert to int32 or float32.

        Args:
            offsets: what to subtract from values before they become float32; None: what they need.
        """
        if self.kind == "text":
            return self.take(self.lengths > 0, NOTHING)
        if self.kind == "tokens":
            why = f"tokens are whole numbers from 0 to {MAX_TOKENS - 1:,}"
            found = self.take(~self.owners(not_tokens(self.flat)), why)
            found = replace(found, flat=found.flat.astype(np.int32))
            return found.take(found.lengths > 0, NOTHING)
        offsets = offsets_of(self.flat) if offsets is None else offsets
        flat = centred(self.flat, offsets)
        with np.errstate(over="ignore"):
            single = flat.astype(np.float32)
        found = replace(self, flat=single, offsets=offsets, blurred=blurred(flat, self.lengths))
        infinite = found.owners(np.isinf(found.flat).any(1))
        found = found.take(~infinite, "a value is infinite, or beyond float32")
        found = found.until_known(~np.isnan(found.flat).all(1))  # without padding
        found = found.take(found.lengths > 0, NOTHING)
        return replace(found, flat=interpolate(found.flat, found.lengths))

    def sound(self) -> "Sequences":
        """Return self if every row can be used.

        Raises:
            DataError: naming the first rows that cannot.
        """
        if self.wrong:
            raise DataError(complaint(self.wrong, self.given))
        return self

    def doubts(self) -> list[str]:
        """Return notes on values of training that may not be what was meant."""
        if self.kind != "values" or not len(self.rows):
            return []
        notes = many_channels(self.flat.shape[1], int(self.lengths.max()))
        return notes + [f"{self.blurred:,} of {self.given:,} sequences {BLUR}"] * bool(self.blurred)

    def fitting(self, signal: Signal, length: int, longer: Literal["cut", "refuse"]) -> "Sequences":
        """Keep the sequences that fit a network's signal; cut or reject those beyond its maximum length."""
        kept = self
        if isinstance(signal, Tokens):
            if self.kind == "values":
                raise DataError("the model takes symbols, these are values; give text, or signal='tokens'")
            unknown = self.owners(self.flat >= signal.vocab)
            kept = self.take(~unknown, f"it holds a symbol beyond the {signal.vocab:,} that are known")
        elif self.kind != "values":
            raise DataError(f"the model takes values of {signal.channels} channels, these are {self.kind}")
        elif len(self.rows) and self.flat.shape[1] != signal.channels:
            why = f"it has {self.flat.shape[1]} channels, the model takes {signal.channels}"
            kept = self.take(np.zeros(len(self.rows), dtype=bool), why)
        too_long = kept.lengths > length
        if longer == "refuse":
            why = f"it is longer than the {length:,} positions of training; longer='cut' cuts it"
            return kept.take(~too_long, why)
        return replace(kept.truncated(np.full_like(kept.lengths, length)), cut=int(too_long.sum()))

    def examples(self, signal: Signal, targets: np.ndarray) -> SequenceDataset:
        """Return the sequences as a dataset; channels that are NaN throughout a row get the training mean."""
        if not isinstance(signal, Values):
            return self.dataset(targets)
        centre = np.array(signal.centre, dtype=np.float32)
        flat = np.where(np.isnan(self.flat), centre, self.flat).astype(np.float32)
        return replace(self, flat=flat).dataset(targets)

    def dataset(self, targets: np.ndarray) -> SequenceDataset:
        """Return the sequences as a dataset, as they are."""
        lengths = torch.from_numpy(self.lengths.astype(np.int64))
        starts = lengths.cumsum(0) - lengths
        flat = torch.from_numpy(self.flat)
        return SequenceDataset(flat, starts[None], lengths[None], torch.from_numpy(targets))


def positions(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (T,) the sequence of every position, by number, and its place in it, from the lengths (n,)."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, np.arange(len(owner)) - (lengths.cumsum() - lengths)[owner]


def grouped(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield items in lists, each of which ends with the item that brings its size to ``most``."""
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += size(item)
        if total >= most:
            yield group
            group = []
            total = 0
    if group:
        yield group


def not_tokens(flat: np.ndarray) -> np.ndarray:
    """Return which numbers (T,) are not tokens: these are whole numbers from 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(~((flat >= 0) & (flat < MAX_TOKENS) & (flat % 1 == 0)))


def interpolate(flat: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return values (T, C) in which NaN and infinity are interpolated within each sequence and channel.

    A channel without any known value in a sequence becomes NaN there.

    Args:
        lengths: (n,) of the sequences in ``flat``.
    """
    unknown = ~np.isfinite(flat)
    if not unknown.any():
        return flat
    flat = np.where(unknown, np.float32(np.nan), flat)
    ends = lengths.cumsum()
    for row in np.unique(np.searchsorted(ends, np.flatnonzero(unknown.any(1)), side="right")):
        span = slice(ends[row] - lengths[row], ends[row])
        for channel in np.flatnonzero(unknown[span].any(0)):
            known = np.flatnonzero(~unknown[span, channel])
            if len(known):
                flat[span, channel] = np.interp(np.arange(lengths[row]), known, flat[span, channel][known])
    return flat


def many_channels(channels: int, longest: int) -> list[str]:
    """Return a note on sequences if they have more channels than positions."""
    if channels <= longest:
        return []
    return [
        f"sequences are read as at most {longest:,} positions of {channels:,} channels; if these are the "
        f"positions, give X.transpose(0, 2, 1)"
    ]


def complaint(wrong: dict[int, str], of: int, name: Callable[[int], str] = "row {}".format) -> str:
    """Return a one-line error message about unusable rows, which messages call ``name(row)``."""
    first = sorted(wrong.items())[:NAMED]
    named = "; ".join(why if why.startswith(name(row)) else f"{name(row)}: {why}" for row, why in first)
    more = f"; and {len(wrong) - NAMED:,} more" if len(wrong) > NAMED else ""
    return f"{len(wrong):,} of {of:,} sequences cannot be used: {named}{more}"
