"""Statistics measured on the training split: mean, spread and range of values; vocabulary; real targets."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from torch import Tensor

from ..errors import DataError
from .dataset import SequenceDataset
from .spec import Reals, SequenceSpec, Tokens, Values

BLOCK = 1 << 20  # positions per block
BYTES = 256  # vocabulary of text, which is known in advance: its bytes
Spans = list[tuple[int, int, int]]
"""Stretches of positions where a channel is unknown: (first, last + 1, channel)."""


def fit_spec(form: SequenceSpec, train: SequenceDataset, unknown: Spans, is_text: bool) -> SequenceSpec:
    """Return the spec with its statistics measured on the training examples.

    Length, class names and the range of quantised values are kept: they say what is possible.

    Args:
        unknown: where filled-in values replace unknown ones; they are not counted.
        is_text: whether symbols are bytes of text, all of which are possible.
    """
    signal = form.signal
    target = form.target
    if isinstance(target, Reals):
        target = fit_target(target, train.targets.numpy())
    if not isinstance(signal, Tokens):
        values = fit_values(in_blocks(train.flat.numpy(), unknown), *_training_stretches(train))
        if signal.levels is not None:
            values = replace(values, levels=signal.levels, low=signal.low, high=signal.high)
        signal = values
    elif not is_text:
        signal = Tokens(max_symbol(train.flat.numpy(), *_training_stretches(train)) + 1)
    return replace(form, signal=signal, target=target)


def fit_target(target: Reals, targets: np.ndarray) -> Reals:
    """Return the target spec with mean and standard deviation of these targets, without NaN (unlabelled)."""
    known = targets[np.isfinite(targets)].astype(np.float64)
    if not len(known):
        return replace(target, centre=0.0, spread=1.0)
    spread = float(known.std())
    return replace(target, centre=float(known.mean()), spread=spread if spread > 0 else 1.0)


def clip_tokens(examples: SequenceDataset, form: SequenceSpec) -> SequenceDataset:
    """Return the examples with symbols beyond the vocabulary of training replaced by its greatest symbol."""
    if not isinstance(form.signal, Tokens) or int(examples.flat.max()) < form.signal.vocab:
        return examples
    return replace(examples, flat=examples.flat.clamp(max=form.signal.vocab - 1))


def fill_unknown(flat: Tensor, unknown: Spans, signal: Values) -> Tensor:
    """Return values (T, C) with unknown stretches set to the mean of their channel."""
    if not unknown:
        return flat
    flat = flat.clone()
    for first, end, channel in unknown:
        flat[first:end, channel] = signal.centre[channel]
    return flat


def nan_spans(flat: np.ndarray) -> Spans:
    """Return the stretches of values (T, C) that are NaN."""
    found: Spans = []
    for channel in range(flat.shape[1]):
        edges = np.diff(np.isnan(flat[:, channel]).astype(np.int8), prepend=0, append=0)
        firsts = np.flatnonzero(edges == 1).tolist()
        ends = np.flatnonzero(edges == -1).tolist()
        found += [(first, end, channel) for first, end in zip(firsts, ends, strict=True)]
    return found


def _training_stretches(examples: SequenceDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of stretches of the flat tensor, and whether examples use them."""
    # +1 where an example starts, -1 where it ends: the running sum counts examples at a position.
    edges = np.zeros(len(examples.flat) + 1, dtype=np.int64)
    np.add.at(edges, examples.starts.numpy().reshape(-1), 1)
    np.add.at(edges, (examples.starts + examples.lengths).numpy().reshape(-1), -1)
    used = edges.cumsum()[:-1] > 0
    first = np.flatnonzero(np.diff(used, prepend=~used[:1]))
    return np.diff(first, append=len(used)), used[first]


def in_blocks(flat: np.ndarray, unknown: Spans) -> Iterator[np.ndarray]:
    """Yield values or tokens in blocks, with NaN where they are unknown."""
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        hidden = [(max(a - start, 0), b - start, c) for a, b, c in unknown if a < start + BLOCK and b > start]
        if hidden:
            block = block.copy()
            for first, end, channel in hidden:
                block[first:end, channel] = np.nan
        yield block


def max_symbol(flat: np.ndarray, lengths: np.ndarray, train: np.ndarray) -> int:
    """Return the greatest symbol of the training sequences."""
    return int(flat.max(initial=0, where=np.repeat(train, lengths)))


def fit_values(blocks: Iterator[np.ndarray], lengths: np.ndarray, train: np.ndarray) -> Values:
    """Return the spec of the values: range, mean and standard deviation on the training split; skip NaN."""
    inside = np.repeat(train, lengths)
    start = 0
    shift = count = total = square = np.zeros(1)
    low = np.inf
    high = -np.inf
    for block in blocks:
        x = block[inside[start : start + len(block)]].astype(np.float64)
        start += len(block)
        if not len(x):
            continue
        if not count.any():  # shifted by a typical value: sums of values far from zero lose digits
            shift = np.nan_to_num(x[0])
        known = ~np.isnan(x)
        shifted = np.where(known, x - shift, 0)
        count = count + known.sum(0)
        total = total + shifted.sum(0)
        square = square + np.square(shifted).sum(0)
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
