"""Who goes where: stratified orders, label budgets and splits, the same on every machine."""

from dataclasses import replace
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from ..errors import DataError, SpecError
from .examples import Examples

Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""What a frozen random stream starts from."""

SHARES = (0.70, 0.15, 0.15)
"""Parts of train, val and test where a file does not say which example is in which split."""


def stratified(classes: np.ndarray, seed: int) -> np.ndarray:
    """An order of all rows in which every beginning has the classes in their proportions.

    One row of every class comes first, so that no class is missing from a beginning of at least K rows.

    Args:
        classes: (n,) whole numbers.
    """
    random = np.random.RandomState(seed)  # the one stream of NumPy that is promised never to change
    rank, tie = np.empty(len(classes)), random.permutation(len(classes))
    for label in np.unique(classes):
        rows = random.permutation(np.flatnonzero(classes == label))
        rank[rows] = np.arange(len(rows)) / len(rows)
    return np.lexsort((tie, rank))


def budget(examples: Examples, labels: int | None) -> Examples:
    """The same examples, of which only ``labels`` keep their label: stratified, and nested in larger budgets.

    Raises:
        SpecError: if the budget exceeds the labelled examples, or leaves a class without any label.
    """
    if labels is None:
        return examples
    known = examples.labelled.nonzero()[:, 0].numpy()
    targets = examples.targets.clone()
    strata = np.zeros(len(known), dtype=np.int64) if targets.is_floating_point() else targets[known].numpy()
    if labels > len(known):
        raise SpecError(f"labels={labels}, but {len(known)} training examples have one; lower it")
    if labels < len(np.unique(strata)):
        raise SpecError(f"labels={labels} leaves a class without any; give at least {len(np.unique(strata))}")
    rest = torch.from_numpy(known[stratified(strata, 0)[labels:]])
    targets[rest] = float("nan") if targets.is_floating_point() else -1
    return replace(examples, targets=targets)


def divide(classes: np.ndarray, groups: np.ndarray | None, seed: int) -> np.ndarray:
    """(n,) the split of every row, 0 1 2 for train val test: 70/15/15 by class, whole groups together.

    Raises:
        DataError: if there are fewer than three groups.
    """
    return _by_row(classes, seed) if groups is None else _by_group(classes, groups, seed)


def _by_row(classes: np.ndarray, seed: int) -> np.ndarray:
    random, split = np.random.RandomState(seed), np.zeros(len(classes), dtype=np.int64)
    for label in np.unique(classes):
        rows = random.permutation(np.flatnonzero(classes == label))
        held = max(round(SHARES[1] * len(rows)), 1) if len(rows) > 2 else 0
        split[rows[:held]] = 1
        split[rows[held : 2 * held]] = 2
    return split


def _by_group(classes: np.ndarray, groups: np.ndarray, seed: int) -> np.ndarray:
    """Largest group first, each to where it hurts the balance of sizes and classes least."""
    _, group = np.unique(groups, return_inverse=True)
    count = np.zeros((group.max() + 1, classes.max() + 1))
    np.add.at(count, (group, classes), 1)
    if len(count) < 3:
        raise DataError(f"{len(count)} groups cannot fill three splits; give `split`, or leave `groups` out")
    wanted = np.outer(SHARES, count.sum(0))
    got, home = np.zeros_like(wanted), np.zeros(len(count), dtype=np.int64)
    random = np.random.RandomState(seed).permutation(len(count))
    order = np.lexsort((random, -count.sum(1)))
    for left, at in zip(range(len(order), 0, -1), order, strict=True):
        empty = np.flatnonzero(got.sum(1) == 0)
        choices = empty if len(empty) >= left else np.arange(3)
        cost = [np.square(got + count[at] * (np.arange(3) == c)[:, None] - wanted).sum() for c in choices]
        home[at] = choices[int(np.argmin(cost))]
        got[home[at]] += count[at]
    return home[group]
