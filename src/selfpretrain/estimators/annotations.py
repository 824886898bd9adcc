"""Labels, groups and sample weights of the sequences in X, and their split into train and val."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from ..errors import DataError

MANY_UNLABELLED = 2_000
"""Unlabelled examples from which some are held back, to see where the loss of pretraining stops falling."""
UNLABELLED_SHARE = 0.025
UNLABELLED_MOST = 1_000
"""Share and greatest number of unlabelled examples in val."""
FEW = 20
"""Fewest labelled examples for which a validation split is made."""


@dataclass(frozen=True)
class Annotations:
    """Targets (n, ...), groups (n,) and sample weights (n,) of sequences."""

    targets: np.ndarray
    groups: Any = None
    weights: np.ndarray | None = None

    @property
    def labelled(self) -> np.ndarray:
        """Whether each example has any label (n,)."""
        if self.targets.dtype.kind == "f":
            return np.isfinite(self.targets)
        known: np.ndarray = self.targets.reshape(len(self.targets), -1) >= 0
        return np.asarray(known.any(1))

    @property
    def counted(self) -> np.ndarray:
        """Whether the weight of each example is not zero (n,)."""
        return np.ones(len(self.targets), bool) if self.weights is None else self.weights != 0

    @property
    def group_numbers(self) -> torch.Tensor | None:
        """Group numbers (n,), or None without groups."""
        if self.groups is None:
            return None
        return torch.from_numpy(np.unique(self.groups, return_inverse=True)[1].astype(np.int64))

    def extended(self, n: int) -> "Annotations":
        """Append unlabelled examples, each in a group of its own, for n examples in all."""
        more = n - len(self.targets)
        nothing = np.nan if self.targets.dtype.kind == "f" else -1
        targets = np.concatenate(
            [self.targets, np.full((more, *self.targets.shape[1:]), nothing, dtype=self.targets.dtype)]
        )
        groups = self.groups
        if groups is not None:
            known = np.unique(np.asarray(groups), return_inverse=True)[1]
            groups = np.concatenate([known, known.max() + 1 + np.arange(more)])
        weights = None if self.weights is None else np.concatenate([self.weights, np.ones(more)])
        return Annotations(targets, groups, weights)

    def take(self, keep: np.ndarray) -> "Annotations":
        """Return the annotations of some examples.

        Args:
            keep: (n,) booleans.
        """
        groups, weights = (None if x is None else x[keep] for x in (self.groups, self.weights))
        return Annotations(self.targets[keep], groups, weights)

    def loss_weights(self, train: np.ndarray) -> torch.Tensor | None:
        """Return weights (n,) with mean 1 over labelled training examples, or None if all are equal."""
        if self.weights is None or len(np.unique(self.weights[self.labelled])) < 2:
            return None
        return mean_one(self.weights, train & self.labelled)

    def divided(self, share: float, seed: int) -> np.ndarray:
        """Return the split (n,) of each example: 0 for train, 1 for val.

        Val is a share of the labelled examples, stratified by class or made of whole groups; it is empty if
        fewer than 20 examples are labelled. Without groups, some of many unlabelled examples are in val, too.

        Raises:
            DataError: if there is only one group.
        """
        split = self._divide_labelled(share, seed)
        unlabelled = np.flatnonzero(~self.labelled)
        if self.groups is None and split.any() and len(unlabelled) >= MANY_UNLABELLED:
            number = min(UNLABELLED_MOST, round(UNLABELLED_SHARE * len(unlabelled)))
            split[np.random.RandomState(seed).permutation(unlabelled)[:number]] = 1
        return split

    def _divide_labelled(self, share: float, seed: int) -> np.ndarray:
        split = np.zeros(len(self.targets), dtype=np.int64)
        rows = np.flatnonzero(self.labelled) if self.labelled.any() else np.arange(len(split))
        if not share or len(rows) < FEW:
            return split
        if self.groups is not None:
            groups = np.asarray(self.groups)
            if len(np.unique(groups[rows])) < 2:
                raise DataError("one group cannot be divided: give validation_fraction=0, or no groups")
            by_group = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
            held = next(by_group.split(rows, groups=groups[rows]))[1]
            split[np.isin(groups, groups[rows[held]])] = 1
            return split
        one = self.targets.dtype.kind == "i" and self.targets.ndim == 1
        classes = self.targets[rows] if one else np.zeros(len(rows))
        kinds, count = np.unique(classes, return_counts=True)
        # Stratification needs two examples of each class, and room for one of each in val.
        by_class = count.min() > 1 and len(rows) * share >= len(kinds)
        splitter = (StratifiedShuffleSplit if by_class else ShuffleSplit)(
            n_splits=1, test_size=share, random_state=seed
        )
        split[rows[next(splitter.split(rows, classes))[1]]] = 1
        return split


def mean_one(weights: np.ndarray, trained: np.ndarray) -> torch.Tensor:
    """Return weights (n,) divided by their mean over the examples marked in ``trained`` (n,)."""
    return torch.from_numpy((weights / weights[trained].mean()).astype(np.float32))
