"""Whether the examples of a split are what the sequence spec of their task says, for tasks of other code."""

import zlib
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from ..errors import DataError
from .dataset import SequenceDataset
from .spec import Classes, ClassSets, Reals, SequenceSpec, Split, Tokens

BLOCK = 1 << 20  # positions that are compared at a time


def check_examples(
    task: str, split: Split, form: SequenceSpec, data: SequenceDataset, labelled: bool = True
) -> None:
    """Check the examples of a split against the sequence spec of their task.

    Args:
        labelled: whether classes are to be learned, of which there must be two.

    Raises:
        DataError: if they differ; the message names the task, the split and the first wrong example.
    """
    for check in (_check_sizes, _check_inputs, _check_targets):
        if found := check(form, data):
            raise DataError(f"{task}, {split}: {found}")
    varied = labelled and (split == "train" or isinstance(form.target, Reals))
    if varied and (found := _check_variety(form, data)):
        raise DataError(f"{task}, {split}: {found}")


def check_repeats(task: str, split: Split, key: Hashable, data: SequenceDataset) -> None:
    """Check that a split holds the examples that it held when it was loaded before in this process.

    Raises:
        DataError: if it holds others.
    """
    content = 0
    for part in (data.flat, data.starts, data.lengths, data.targets):
        content = zlib.crc32(part.contiguous().view(torch.uint8).numpy().data, content)
    if _loaded.setdefault((key, split), content) != content:
        said = "load gives other examples or another order each time"
        advice = (
            "draw from a fixed seed, as np.random.default_rng(0); of files that change, let version() tell"
        )
        raise DataError(f"{task}, {split}: {said}; {advice}")


_loaded: dict[Hashable, int] = {}
"""Checksums of splits that were loaded, by task and split."""


def _check_sizes(form: SequenceSpec, data: SequenceDataset) -> str:
    number = data.starts.shape[1]
    if not number:
        return "there are no examples"
    if len(data) != number:
        return f"there are {len(data):,} targets for {number:,} sequences"
    if data.views != form.views:
        return f"an example has {data.views} sequences, and form.views says {form.views}"
    for wrong in (data.lengths < 1, data.lengths > form.length):
        if wrong.any():
            row = int(wrong.any(0).nonzero()[0])
            length = int(data.lengths[:, row][wrong[:, row]][0])
            return f"example {row} has {length:,} positions, and form.length allows 1 to {form.length:,}"
    return ""


def _check_inputs(form: SequenceSpec, data: SequenceDataset) -> str:
    flat = data.flat
    if data.packed:
        return ""
    if isinstance(form.signal, Tokens):
        if flat.ndim != 1:
            return f"symbols are of shape {_each(flat)} at every position; they are one integer each"
        vocab = form.signal.vocab
        row = _first(data, lambda part: _are_no_symbols(part, vocab))
        known = f"form.signal allows integers from 0 to {vocab - 1:,}"
    else:
        channels = form.signal.channels
        if flat.ndim != 2 or flat.shape[1] != channels:
            wanted = f"form.signal says {channels}: arrays of shape (length, {channels})"
            return f"values are of shape {_each(flat)} at every position, and {wanted}"
        row = _first(data, lambda part: ~part.isfinite().all(1))
        known = "values are finite"
    if row is None:
        return ""
    return f"example {row} has {'symbols' if flat.ndim == 1 else 'values'} that do not fit: {known}"


def _each(flat: Tensor) -> str:
    return str(tuple(flat.shape[1:]))


def _are_no_symbols(part: Tensor, vocab: int) -> Tensor:
    """Return which numbers are no integers from 0 to ``vocab`` - 1."""
    if part.is_floating_point():
        return (part < 0) | (part >= vocab) | (part != part.floor())
    part = part.long()  # a vocabulary that a small type cannot hold would wrap around
    return (part < 0) | (part >= vocab)


def _first(data: SequenceDataset, are_wrong: Callable[[Tensor], Tensor]) -> int | None:
    """Return the first example that a wrong position of the flat tensor is part of; None if there is none."""
    wrong = torch.cat([are_wrong(part) for part in data.flat.split(BLOCK)])
    if not wrong.any():
        return None
    before = torch.cat([torch.zeros(1, dtype=torch.int64), wrong.long().cumsum(0)])
    inside = (before[data.starts + data.lengths] - before[data.starts]).amax(0).nonzero()
    return int(inside[0]) if len(inside) else None


def _check_targets(form: SequenceSpec, data: SequenceDataset) -> str:
    target = form.target
    targets = data.targets
    real = isinstance(target, Reals)
    if targets.is_floating_point() != real or targets.ndim != (1 if target.single else 2):
        wanted = f"{'floats' if real else 'integers'} of shape {'(n,)' if target.single else '(n, ...)'}"
        return f"targets are {targets.dtype} of shape {tuple(targets.shape)}; {target.kind} are {wanted}"
    if isinstance(target, Reals):
        return "targets are infinite; say NaN where there is no label" if targets.isinf().any() else ""
    largest = 1 if isinstance(target, ClassSets) else len(target.names) - 1
    classes = targets.long()  # -1 would wrap around in a type without a sign
    wrong = ((classes < -1) | (classes > largest)).reshape(len(targets), -1).any(1).nonzero()
    if not len(wrong):
        return ""
    allowed = f"form.target allows 0 to {largest:,}, and -1 for no label"
    return f"example {int(wrong[0])} has target {targets[wrong[0, 0]].tolist()}; {allowed}"


def _check_variety(form: SequenceSpec, data: SequenceDataset) -> str:
    if not isinstance(form.target, Classes | Reals):
        return ""
    known = data.targets[data.labelled]
    if not len(known) or (known != known[0]).any():
        return ""
    if isinstance(form.target, Reals):
        return f"all targets are {float(known[0]):g}, so that there is nothing to tell apart"
    missing = len(data) - len(known)
    others = f", and {missing:,} have target -1, which means no label" if missing else ""
    return f"every labelled example is of class {form.target.names[int(known[0])]!r}{others}"
