"""Statistics measured on the training split: mean, spread and range of values; vocabulary; real targets."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from torch import Tensor

from ..errors import DataError
from .dataset import SequenceDataset
from .spec import Reals, SequenceSpec, Tokens, Values

BLOCK = 1 << 20
"""Positions per block."""
BYTES = 256
"""Vocabulary of text, which is known in advance: its bytes."""
Spans = list[tuple[int, int, int]]
"""Stretches of positions where a channel is unknown: (first, last + 1, channel)."""


def measured(form: SequenceSpec, train: SequenceDataset, unknown: Spans | None = None) -> SequenceSpec:
    """Return the spec with its statistics measured on the training examples.

    Length, class names and the range of quantised values are kept: they say what is possible.

    Args:
        unknown: where filled-in values replace unknown ones; they are not counted.
    """
    target = form.target
    if isinstance(target, Reals):
        target = scaled(target, train.targets.numpy())
    return replace(form, signal=_signal(form, train, unknown or []), target=target)


def scaled(target: Reals, targets: np.ndarray) -> Reals:
    """Return the target spec with mean and standard deviation of these targets, without NaN (unlabelled)."""
    known = targets[np.isfinite(targets)].astype(np.float64)
    if not len(known):
        return replace(target, centre=0.0, spread=1.0)
    spread = float(known.std())
    return replace(target, centre=float(known.mean()), spread=spread if spread > 0 else 1.0)


def readable(examples: SequenceDataset, form: SequenceSpec) -> SequenceDataset:
    """Return the examples with symbols beyond the vocabulary of training replaced by its greatest symbol."""
    if not isinstance(form.signal, Tokens) or int(examples.flat.max()) < form.signal.vocab:
        return examples
    return replace(examples, flat=examples.flat.clamp(max=form.signal.vocab - 1))


def filled(flat: Tensor, unknown: Spans, signal: Values) -> Tensor:
    """Return values (T, C) with unknown stretches set to the mean of their channel."""
    if not unknown:
        return flat
    flat = flat.clone()
    for first, end, channel in unknown:
        flat[first:end, channel] = signal.centre[channel]
    return flat


def spans_without_value(flat: np.ndarray) -> Spans:
    """Return the stretches of values (T, C) that are NaN."""
    found: Spans = []
    for channel in range(flat.shape[1]):
        edges = np.diff(np.isnan(flat[:, channel]).astype(np.int8), prepend=0, append=0)
        firsts = np.flatnonzero(edges == 1).tolist()
        ends = np.flatnonzero(edges == -1).tolist()
        found += [(first, end, channel) for first, end in zip(firsts, ends, strict=True)]
    return found


def _signal(form: SequenceSpec, train: SequenceDataset, unknown: Spans) -> Tokens | Values:
    signal = form.signal
    flat = train.flat.numpy()
    if isinstance(signal, Tokens) and signal.vocab == BYTES:
        return signal
    lengths, used = _stretches(train)
    if isinstance(signal, Tokens):
        return Tokens(highest(_blocks(flat, []), lengths, used) + 1)
    found = moments(_blocks(flat, unknown), lengths, used)
    if signal.levels is None:
        return found
    return replace(found, levels=signal.levels, low=signal.low, high=signal.high)


def _stretches(examples: SequenceDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of stretches of the flat tensor, and whether examples use them."""
    # +1 where an example starts, -1 where it ends: the running sum counts examples at a position.
    edges = np.zeros(len(examples.flat) + 1, dtype=np.int64)
    np.add.at(edges, examples.starts.numpy().reshape(-1), 1)
    np.add.at(edges, (examples.starts + examples.lengths).numpy().reshape(-1), -1)
    used = edges.cumsum()[:-1] > 0
    first = np.flatnonzero(np.diff(used, prepend=~used[:1]))
    return np.diff(first, append=len(used)), used[first]


def _blocks(flat: np.ndarray, unknown: Spans) -> Iterator[np.ndarray]:
    for at in range(0, len(flat), BLOCK):
        block = flat[at : at + BLOCK]
        there = [(max(a - at, 0), b - at, c) for a, b, c in unknown if a < at + BLOCK and b > at]
        if there:
            block = block.copy()
            for first, end, channel in there:
                block[first:end, channel] = np.nan
        yield block


def _chosen(
    block: np.ndarray, at: int, ends: np.ndarray, lengths: np.ndarray, train: np.ndarray
) -> np.ndarray:
    """Return the positions of a block, which starts at ``at``, that belong to training sequences."""
    rows = slice(np.searchsorted(ends, at, side="right"), np.searchsorted(ends, at + len(block)) + 1)
    last = ends[rows].clip(at, at + len(block))
    first = (ends[rows] - lengths[rows]).clip(at, at + len(block))
    chosen: np.ndarray = block[np.repeat(train[rows], last - first)]
    return chosen


def highest(blocks: Iterator[np.ndarray], lengths: np.ndarray, train: np.ndarray) -> int:
    """Return the greatest symbol of the training sequences."""
    ends = lengths.cumsum()
    at = 0
    found = 0
    for block in blocks:
        symbols = _chosen(block, at, ends, lengths, train)
        at += len(block)
        found = max(found, int(symbols.max(initial=0)))
    return found


def moments(blocks: Iterator[np.ndarray], lengths: np.ndarray, train: np.ndarray) -> Values:
    """Return the spec of the values: range, mean and standard deviation on the training split; skip NaN."""
    ends = lengths.cumsum()
    at = 0
    shift = count = total = square = np.zeros(1)
    low = np.inf
    high = -np.inf
    for block in blocks:
        x = _chosen(block, at, ends, lengths, train).astype(np.float64)
        at += len(block)
        if not len(x):
            continue
        if not count.any():  # shifted by a typical value: sums of values far from zero lose digits
            shift = np.nan_to_num(x[0])
        known = ~np.isnan(x)
        away = np.where(known, x - shift, 0)
        count = count + known.sum(0)
        total = total + away.sum(0)
        square = square + np.square(away).sum(0)
        low = min(low, float(np.fmin.reduce(x, axis=None)))
        high = max(high, float(np.fmax.reduce(x, axis=None)))
    mean = total / np.maximum(count, 1)
    spread = np.sqrt(np.maximum(square / np.maximum(count, 1) - mean**2, 0))
    centre = mean + shift
    spread[spread <= 1e-6 * abs(centre)] = 1.0  # a constant channel is not scaled
    if low > high:
        raise DataError("no value is known; is it the right column?")
    return Values(
        len(centre),
        low=float(low),
        high=max(float(high), float(low) + 1e-6),
        centre=tuple(centre.tolist()),
        spread=tuple(spread.tolist()),
    )
