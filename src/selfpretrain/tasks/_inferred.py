"""What a task is, as far as its arrays tell: signal, target and splits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from ..batch import SPLITS, Classes, Examples, Form, Reals, Split, Target, Tokens, Values
from ..data.split import divide, stratified
from ..errors import DataError
from . import _arrays


@dataclass(frozen=True)
class Reading:
    """How arrays are to be understood; the fields of ``Arrays`` that matter for it."""

    kind: Literal["auto", "tokens", "values"] = "auto"
    target: Literal["auto", "classes", "reals"] = "auto"
    split_seed: int = 0


@dataclass(frozen=True)
class Data:
    """A task's form and all its examples, checked."""

    form: Form
    splits: dict[Split, Examples]


def data(arrays: Mapping[str, np.ndarray], reading: Reading) -> Data:
    """Understand and check the arrays of a file.

    Raises:
        DataError: if they cannot be used; the message says what to change.
    """
    found = _arrays.sequences(arrays)
    y = _arrays.column(arrays, "y", len(found))
    real = _is_real(y, reading)
    targets, names = _reals(y) if real else _classes(y)
    groups = _groups(arrays, len(found))
    split = _home(arrays, found, targets, groups, reading.split_seed)
    found, tokens = _signal(found, reading)
    whole = Examples(
        torch.from_numpy(found.flat),
        torch.from_numpy(found.starts)[None],
        torch.from_numpy(found.lengths)[None],
        torch.from_numpy(targets),
        None if groups is None else torch.from_numpy(groups),
    )
    splits = {name: whole.take(_rows(split == i, targets, reading)) for i, name in enumerate(SPLITS)}
    _check_splits(splits, names)
    target = _measured(splits["train"]) if real else Classes(names)
    signal = tokens or _values(arrays["x"].dtype, found, splits["train"])
    return Data(Form(signal, int(found.lengths.max()), target), splits)


def _signal(found: _arrays.Sequences, reading: Reading) -> tuple[_arrays.Sequences, Tokens | None]:
    """The sequences in the dtype that training reads, and their vocabulary if they are tokens."""
    flat = found.flat
    whole = flat.dtype.kind in "biu"
    if reading.kind == "tokens" and not whole:
        raise DataError(f"x is {flat.dtype}, tokens are integers; use x.astype(int), or kind='values'")
    if reading.kind == "values" or not whole:
        _arrays.check_values(found)
        kept = np.uint8 if flat.dtype == np.uint8 else np.float32
        flat = flat.astype(kept, copy=False)
        return replace(found, flat=flat if flat.ndim == 2 else flat[:, None]), None
    if flat.ndim != 1:
        raise DataError(
            f"x holds integers in {flat.shape[-1]} channels; tokens have no channels, use kind='values' "
            f"if they are numbers"
        )
    vocab = _arrays.check_tokens(found)
    return replace(found, flat=flat.astype(np.uint8 if vocab <= 256 else np.int32, copy=False)), Tokens(vocab)


def _values(dtype: np.dtype[Any], found: _arrays.Sequences, train: Examples) -> Values:
    """Channels, range and levels of the training split's values, and their centre and spread."""
    spans = list(zip(train.starts[0].tolist(), train.lengths[0].tolist(), strict=True))
    channels = found.flat.shape[1]
    total, square, low, high = np.zeros(channels), np.zeros(channels), np.inf, -np.inf
    for at in range(0, len(spans), 256):
        part = np.concatenate([found.flat[a : a + n] for a, n in spans[at : at + 256]]).astype(np.float64)
        total, square = total + part.sum(0), square + np.square(part).sum(0)
        low, high = min(low, float(part.min())), max(high, float(part.max()))
    count = int(train.lengths.sum())
    centre = total / count
    spread = np.sqrt(np.maximum(square / count - centre**2, 0))
    spread[spread <= 1e-6 * abs(centre)] = 1.0  # a channel that never changes is not stretched
    quantised = dtype == np.uint8
    return Values(
        channels,
        levels=256 if quantised else None,
        low=0.0 if quantised else low,
        high=255.0 if quantised else max(high, low + 1e-6),
        centre=tuple(centre.tolist()),
        spread=tuple(spread.tolist()),
    )


def _is_real(y: np.ndarray, reading: Reading) -> bool:
    if y.dtype.kind not in "biufUS":
        raise DataError(f"y is {y.dtype}; it must hold integers, strings or floats")
    if reading.target == "reals" and y.dtype.kind in "US":
        raise DataError("y holds strings, which are classes; leave target='reals' out")
    return reading.target == "reals" or (reading.target == "auto" and y.dtype.kind == "f")


def _reals(y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    targets = y.astype(np.float32)
    if np.isinf(targets).any():
        raise DataError(f"y[{int(np.isinf(targets).argmax())}] is infinite; unlabelled examples have NaN")
    return targets, ()


def _classes(y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """(n,) number of the class, -1 if unlabelled; and the classes in order."""
    if y.dtype.kind == "f":
        whole = np.isnan(y) | (y == np.round(y))
        if not whole.all():
            raise DataError(f"y[{int((~whole).argmax())}] is {y[~whole][0]}: not a class; use target='reals'")
        y = np.where(np.isnan(y), -1, y).astype(np.int64)
    y = y.astype(str) if y.dtype.kind == "S" else y.astype(np.int64) if y.dtype.kind == "b" else y
    known = y != ("" if y.dtype.kind == "U" else -1)
    if y.dtype.kind == "i" and (y < -1).any():
        at = int((y < -1).argmax())
        raise DataError(f"y[{at}] is {y[at]}; classes are numbered from 0, and -1 means unlabelled")
    names, number = np.unique(y[known], return_inverse=True)
    if len(names) < 2:
        found = f"only class {str(names[0])!r}" if len(names) else "no label"
        raise DataError(f"y holds {found}; there must be two classes or more to tell apart")
    targets = np.full(len(y), -1, dtype=np.int64)
    targets[known] = number
    return targets, tuple(str(name) for name in names.tolist())


def _groups(arrays: Mapping[str, np.ndarray], n: int) -> np.ndarray | None:
    if "groups" not in arrays:
        return None
    return np.unique(_arrays.column(arrays, "groups", n), return_inverse=True)[1].astype(np.int64)


def _home(
    arrays: Mapping[str, np.ndarray],
    found: _arrays.Sequences,
    targets: np.ndarray,
    groups: np.ndarray | None,
    seed: int,
) -> np.ndarray:
    """(n,) 0 1 2: the split of every example, as given or made."""
    if "split" in arrays:
        split = _arrays.splits(_arrays.column(arrays, "split", len(found)))
        if groups is not None:
            _arrays.check_groups(arrays["groups"], split)
        return split
    strata = _strata(targets)
    if groups is not None:
        return divide(np.where(strata < 0, strata.max() + 1, strata), groups, seed)
    firsts, which = found.firsts()
    best = np.full(len(firsts), -1)
    np.maximum.at(best, which, strata)  # an unlabelled copy goes where the labelled one goes
    split = np.zeros(len(firsts), dtype=np.int64)  # sequences without any label serve training only
    split[best >= 0] = divide(best[best >= 0], None, seed)
    return split[which]


def _strata(targets: np.ndarray) -> np.ndarray:
    """(n,) what splits are balanced by: the class, or whether there is a real number; -1 if unlabelled."""
    return np.where(np.isnan(targets), -1, 0) if targets.dtype.kind == "f" else targets


def _rows(inside: np.ndarray, targets: np.ndarray, reading: Reading) -> torch.Tensor:
    """The rows of a split; labelled ones first, every beginning stratified."""
    rows = np.flatnonzero(inside)
    strata = _strata(targets[rows])
    known = rows[strata >= 0]
    order = stratified(strata[strata >= 0], reading.split_seed)
    return torch.from_numpy(np.concatenate([known[order], rows[strata < 0]]))


def _check_splits(splits: Mapping[Split, Examples], names: tuple[str, ...]) -> None:
    trained = set(splits["train"].targets.tolist())
    for name, examples in splits.items():
        known = examples.targets[examples.labelled]
        if not len(known):
            raise DataError(f"the {name} split has no labelled example; give more, or another `split`")
        present = {names[i] for i in known.unique().tolist()} if names else set()
        if len(present) == 1:
            raise DataError(
                f"the {name} split has only class {present.pop()!r}; give more examples or other values in "
                f"`split`, or try another split_seed"
            )
        missing = sorted(names[i] for i in known.unique().tolist() if i not in trained) if names else []
        if missing:
            raise DataError(f"class {missing[0]!r} is in the {name} split but not in train; leave it out")


def _measured(train: Examples) -> Target:
    known = train.targets[train.labelled].double()
    spread = float(known.std(correction=0))
    if not spread > 0:
        raise DataError("all training targets are equal; there is nothing to predict")
    return Reals(centre=float(known.mean()), spread=spread)
