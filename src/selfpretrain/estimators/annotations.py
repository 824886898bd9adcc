"""Labels, groups and weights given with sequences, and how their examples are divided for validation."""

import itertools
import math
from collections.abc import Sequence, Set, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from ..data.containers import is_missing, plain_labels
from ..data.dataset import SequenceDataset
from ..data.offsets import offset_of
from ..data.spec import Reals, Target
from ..data.splits import MIN_GROUPS, strata_of
from ..errors import DataError, SpecError
from ..tasks.base import Task

MANY_UNLABELLED = 2_000
"""Unlabelled examples from which some are held back, to see where the loss of pretraining stops falling."""
UNLABELLED_SHARE = 0.025
MAX_UNLABELLED = 1_000
"""Share and greatest number of unlabelled examples in val."""
FEW = 20  # fewest labelled examples for which a validation split is made


@dataclass(frozen=True)
class Annotations:
    """Targets (n, ...), groups (n,) and sample weights (n,) of sequences."""

    targets: np.ndarray
    groups: Any = None
    weights: np.ndarray | None = None

    @property
    def labelled(self) -> np.ndarray:
        """Return whether each example has any label (n,)."""
        if self.targets.dtype.kind == "f":
            return np.isfinite(self.targets)
        known: np.ndarray = self.targets.reshape(len(self.targets), -1) >= 0
        return np.asarray(known.any(1))

    @property
    def counted(self) -> np.ndarray:
        """Return whether the weight of each example is not zero (n,)."""
        return np.ones(len(self.targets), bool) if self.weights is None else self.weights != 0

    @property
    def group_numbers(self) -> torch.Tensor | None:
        """Group numbers (n,), or None without groups."""
        if self.groups is None:
            return None
        return torch.from_numpy(np.unique(self.groups, return_inverse=True)[1].astype(np.int64))

    def extended(self, n: int) -> "Annotations":
        """Return the annotations with unlabelled examples appended, each a group of its own, n in all."""
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

    def divided(self, share: float, seed: int) -> tuple[np.ndarray, str]:
        """Return the split (n,) of each example, 0 for train, 1 for val; and why it is not by class, if so.

        Val is a share of the labelled examples, or of all if none is labelled, stratified by class or made of
        whole groups; it is empty if these are fewer than 20. Without groups, some of many unlabelled examples
        are in val, too.

        Raises:
            DataError: if there are too few groups to divide them.
        """
        split, why = self._divide_labelled(share, seed)
        unlabelled = np.flatnonzero(~self.labelled & self.labelled.any())
        if self.groups is None and split.any() and len(unlabelled) >= MANY_UNLABELLED:
            number = min(MAX_UNLABELLED, round(UNLABELLED_SHARE * len(unlabelled)))
            split[np.random.RandomState(seed).permutation(unlabelled)[:number]] = 1
        return split, why

    def _divide_labelled(self, share: float, seed: int) -> tuple[np.ndarray, str]:
        split = np.zeros(len(self.targets), dtype=np.int64)
        rows = np.flatnonzero(self.labelled) if self.labelled.any() else np.arange(len(split))
        if not share or len(rows) < FEW:
            return split, ""
        if self.groups is not None:
            groups = np.asarray(self.groups)
            number = len(np.unique(groups[rows]))
            if number < 2:
                raise DataError("one group cannot be divided: give validation_fraction=0, or no groups")
            if math.ceil(number * share) == number:
                raise DataError(
                    f"validation_fraction={share} leaves none of {number} groups for training: give less"
                )
            by_group = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
            held = next(by_group.split(rows, groups=groups[rows]))[1]
            split[np.isin(groups, groups[rows[held]])] = 1
            return split, ""
        classes = strata_of(self.targets)[rows]
        why = _why_not_by_class(classes, share)
        splitter = (ShuffleSplit if why else StratifiedShuffleSplit)(
            n_splits=1, test_size=share, random_state=seed
        )
        split[rows[next(splitter.split(rows, classes))[1]]] = 1
        return split, why if len(np.unique(classes)) > 1 else ""


def _why_not_by_class(classes: np.ndarray, share: float) -> str:
    """Return why a share of examples (n,) cannot have the classes in their proportions; "": it can.

    That needs two examples of each class, and room for one of each in train and in val.
    """
    kinds, count = np.unique(classes, return_counts=True)
    said = "the validation split is drawn without regard to class, and either side may lack some"
    if count.min() < 2:
        return f"{said}: a class has one labelled example; give two or more of each"
    if min(len(classes) * share, len(classes) - math.ceil(len(classes) * share)) >= len(kinds):
        return ""
    why = f"validation_fraction={share} of {len(classes)} has no room for one of each of {len(kinds)} classes"
    return f"{said}: {why}; give a fraction nearer to 0.5, or more examples"


def clusters_of(examples: SequenceDataset) -> np.ndarray:
    """Return (n,) the number of the cluster of every example: copies of a sequence, and groups, are in one.

    If they were divided, validation would ask for what training has shown.
    """
    cluster = np.unique(examples.digests(), return_inverse=True)[1]
    if examples.groups is None:
        return cluster
    of_group = cluster.max(initial=0) + 1 + np.unique(examples.groups.numpy(), return_inverse=True)[1]
    n = of_group.max(initial=0) + 1
    joins = coo_array((np.ones(len(cluster)), (cluster, of_group)), shape=(n, n))
    cluster = connected_components(joins, directed=False)[1][cluster]
    first_group = np.full(cluster.max(initial=0) + 1, n)
    np.minimum.at(first_group, cluster, of_group)
    # Without copies in two groups, these are the groups in their order.
    return np.unique(first_group[cluster], return_inverse=True)[1]


def copies_together(split: np.ndarray, examples: SequenceDataset) -> np.ndarray:
    """Return the split (n,) in which all labelled examples of a cluster share the split of its first.

    Clusters with more than half of these examples go to train, and so do those with a class that train would
    lack. If that empties val or test, the smallest cluster that is not all of a class fills it, if any is.
    """
    rows = examples.labelled.nonzero()[:, 0]
    found = examples.take(rows)
    first, cluster, sizes = np.unique(
        clusters_of(found), return_index=True, return_inverse=True, return_counts=True
    )[1:]
    if len(first) == len(rows):
        return split
    part = np.where(sizes > len(rows) / 2, 0, split[rows[first]])
    classes = strata_of(found.targets.numpy())
    has = np.zeros((len(first), len(np.unique(classes))), dtype=bool)
    has[cluster, np.unique(classes, return_inverse=True)[1]] = True
    part[has[:, ~has[part == 0].any(0)].any(1)] = 0
    for emptied in sorted(set(split[rows].tolist()) - set(part.tolist()) - {0}):
        for each in np.argsort(sizes, kind="stable"):
            if part[each] == 0 and has[(part == 0) & (np.arange(len(part)) != each)].any(0).all():
                part[each] = emptied
                break
    together = split.copy()
    together[rows] = part[cluster]
    return together


def groups_together(split: np.ndarray, examples: SequenceDataset) -> np.ndarray:
    """Return the split (n,) in which unlabelled examples share that of the labelled ones of their group."""
    if examples.groups is None:
        return split
    groups = np.unique(examples.groups.numpy(), return_inverse=True)[1]
    labelled = examples.labelled.numpy()
    of_group = np.full(groups.max(initial=0) + 1, -1)
    of_group[groups[labelled]] = split[labelled]
    return np.where(of_group[groups] < 0, split, of_group[groups])


def reals(targets: np.ndarray, target: Target) -> tuple[np.ndarray, float]:
    """Return real targets (n,) as float32 minus an offset, and the offset; others unchanged, and 0.

    Raises:
        DataError: naming the first that is beyond float32.
    """
    if not isinstance(target, Reals):
        return targets, 0.0
    offset = offset_of(targets)
    beyond = np.abs(targets - offset) > np.finfo(np.float32).max
    if beyond.any():
        row = int(beyond.argmax())
        raise DataError(
            f"y[{row}] is {targets[row]:g}, which is beyond float32; give y in larger units, or its log"
        )
    return (targets - offset).astype(np.float32), offset


def check_lengths(count: int, y: Any, groups: Any) -> None:
    """Raise DataError if there is not one label, and one group, for every sequence."""
    for name, values in (("y", y), ("groups", groups)):
        if values is not None and (isinstance(values, str | Set) or not isinstance(values, Sized)):
            kind = type(values).__name__
            raise DataError(
                f"{name} is of type {kind}; give a list or an array with an entry for each sequence"
            )
        if values is not None and len(values) != count:
            raise DataError(
                f"X has {count:,} sequences, but {name} has {len(values):,} entries; give one for each"
            )


def group_column(groups: Any) -> np.ndarray | None:
    """Return groups as an array (n,); a tuple, or a row of a table, is one name of several parts.

    Raises:
        DataError: if a group, or a part of one, is missing.
    """
    if groups is None:
        return None
    found = np.asarray(groups)
    rows = found.reshape(len(found), -1).tolist()
    entries = plain_labels(groups) if found.ndim == 1 else itertools.chain.from_iterable(rows)
    if any(map(is_missing, entries)):
        raise DataError("groups has missing entries; every sequence needs one, its own if it is alone")
    mixed = found.dtype.kind == "O" and len(set(map(type, found.flat))) > 1  # not sorted: 7 and "7b"
    if found.ndim == 1 and not mixed:
        return found
    number = {name: i for i, name in enumerate(dict.fromkeys(map(tuple, rows)))}
    return np.array([number[tuple(row)] for row in rows])


def val_groups(folds: Sequence[Task]) -> np.ndarray | None:
    """Return the groups of the labelled validation examples of all folds, in order; None if they are few."""
    held = [fold.load("val") for fold in folds]
    found = [each.groups[each.labelled] for each in held if each.groups is not None]
    given = torch.cat(found or [torch.zeros(0)]).numpy()
    return given if len(np.unique(given)) >= MIN_GROUPS else None


def labelled_only(examples: SequenceDataset) -> SequenceDataset:
    """Return the labelled ones of some examples."""
    return examples.take(examples.labelled.nonzero()[:, 0])


def mean_one(weights: np.ndarray, trained: np.ndarray) -> torch.Tensor:
    """Return weights (n,) divided by their mean over the examples marked in ``trained`` (n,)."""
    return torch.from_numpy((weights / weights[trained].mean()).astype(np.float32))


def refuse_beside(owner: str, *given: Any) -> None:
    """Raise SpecError if labels, groups, weights or sequences are given beside data that have their own.

    Args:
        owner: what has them, e.g. "a task".
    """
    if any(each is not None for each in given):
        own = "labels, groups, weights and unlabelled sequences"
        raise SpecError(f"{owner} has its own {own}; give it alone, or give arrays")


def refuse_missing(y: Any, estimator: str) -> None:
    """Raise SpecError if y is missing, with the message that scikit-learn's estimator checks expect."""
    if y is None:
        raise SpecError(f"{estimator} requires y to be passed, but the target y is None")


def refuse_unlabelled(y: Any) -> None:
    """Raise DataError if a label of y is missing, which a score of scikit-learn cannot leave out."""
    missing = 0 if y is None else sum(map(is_missing, plain_labels(y)))
    if missing:
        raise DataError(f"{missing} labels of y are missing; score needs all of them, evaluate does not")
