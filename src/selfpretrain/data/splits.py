"""Stratified splits, label budgets and cross-validation folds, identical on every machine."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..errors import DataError, SpecError, join_names, nearest
from .dataset import SequenceDataset
from .spec import SPLITS

SHARES = (0.70, 0.15, 0.15)  # shares of train, val and test if the data define no split
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn", "trainset", "trainval", "0"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev", "devel", "development", "1"), 1),
    **dict.fromkeys(("test", "testing", "tst", "testset", "devtest", "holdout", "heldout", "2"), 2),
}
"""Common names of splits in datasets, and the number of the split."""
UNLABELLED = ("unlabelled", "unlabeled", "unsupervised", "unsup")
"""Names of parts that serve pretraining only."""
LEFT_OUT = -1
MIN_GROUPS = 5
"""Minimum number of groups (patients, speakers, files) in val or test for a score to generalise to others."""


def stratified_order(classes: np.ndarray, seed: int) -> np.ndarray:
    """Return an order of all rows in which every prefix has the classes in their proportions.

    One row of every class comes first, so that any prefix of at least K rows has all classes.

    Args:
        classes: (n,) whole numbers.
    """
    random = np.random.RandomState(seed)  # NumPy guarantees that this stream never changes
    rank = np.empty(len(classes))
    tie = random.permutation(len(classes))
    for label in np.unique(classes):
        rows = random.permutation(np.flatnonzero(classes == label))
        rank[rows] = np.arange(len(rows)) / len(rows)
    return np.lexsort((tie, rank))


def check_labels(labels: int | None, train: int, name: str) -> None:
    """Raise SpecError if a label budget exceeds the training examples, which are called ``name``."""
    if labels is not None and labels > train:
        raise SpecError(f"labels={labels} of train={train} {name}; lower it, or leave it out")


def strata_of(targets: np.ndarray) -> np.ndarray:
    """Return (n,) the strata of examples: their class, or 0 for all if the target is not one class."""
    one = targets.ndim == 1 and targets.dtype.kind != "f"
    return targets if one else np.zeros(len(targets), dtype=np.int64)


def limit_labels(examples: SequenceDataset, labels: int | None) -> SequenceDataset:
    """Return the examples with only ``labels`` of the labels kept: stratified, and nested in larger budgets.

    Raises:
        SpecError: if the budget exceeds the labelled examples, or leaves a class without any label.
    """
    if labels is None:
        return examples
    known = examples.labelled.nonzero()[:, 0].numpy()
    targets = examples.targets.clone()
    strata = strata_of(targets[known].numpy())
    if labels > len(known):
        raise SpecError(f"labels={labels}, but {len(known)} training examples have one; lower it")
    if labels < len(np.unique(strata)):
        raise SpecError(f"labels={labels} leaves a class without any; give at least {len(np.unique(strata))}")
    rest = torch.from_numpy(known[stratified_order(strata, 0)[labels:]])
    targets[rest] = float("nan") if targets.is_floating_point() else -1
    return replace(examples, targets=targets)


def split_rows(
    classes: np.ndarray,
    groups: np.ndarray | None,
    seed: int,
    min_groups_held: int = 1,
    n_classes: int | None = None,
) -> np.ndarray:
    """Return (n,) the split of every row, 0 1 2 for train val test: 70/15/15 by class, groups kept whole.

    Args:
        min_groups_held: minimum number of groups of val and of test.
        n_classes: number of classes that train must have, if groups allow it; the others, such as that of
            rows without a label, are balanced only. None: all.

    Raises:
        DataError: if there are fewer than three groups.
    """
    if groups is not None:
        if (n_groups := len(np.unique(groups))) < len(SPLITS):
            advice = "give `split`, or leave `groups` out"
            raise DataError(f"{n_groups} groups cannot fill three splits; {advice}")
        fewest = (1, min_groups_held, min_groups_held)
        trained = int(classes.max()) + 1 if n_classes is None else n_classes
        return _split_by_group(classes, groups, seed, SHARES, fewest, trained)
    random = np.random.RandomState(seed)
    split = np.zeros(len(classes), dtype=np.int64)
    for label in np.unique(classes):
        rows = random.permutation(np.flatnonzero(classes == label))
        held = max(round(SHARES[1] * len(rows)), 1) if len(rows) > 2 else 0
        split[rows[:held]] = 1
        split[rows[held : 2 * held]] = 2
    return split


def min_groups(groups: np.ndarray) -> int:
    """Return the minimum number of groups for val and test: a fifth of all, at most ``MIN_GROUPS``."""
    return int(np.clip(round(len(np.unique(groups)) / 5), 1, MIN_GROUPS))


def _split_by_group(
    classes: np.ndarray,
    groups: np.ndarray,
    seed: int,
    shares: Sequence[float],
    fewest: Sequence[int],
    trained: int = 0,
) -> np.ndarray:
    """Return (n,) the part of every row: largest groups first, each placed where the balance suffers least.

    The last group of a class that the first part lacks goes there, so that another may get fewer groups than
    its minimum, but one.

    Args:
        shares, fewest: per part: its share of all rows, and its minimum number of groups.
        trained: number of classes that the first part must have.
    """
    _, group = np.unique(groups, return_inverse=True)
    counts = np.zeros((group.max() + 1, classes.max() + 1))
    np.add.at(counts, (group, classes), 1)
    wanted = np.outer(shares, counts.sum(0))
    places = np.arange(len(shares))
    held = np.zeros_like(wanted)
    part = np.zeros(len(counts), dtype=np.int64)
    random = np.random.RandomState(seed).permutation(len(counts))
    order = np.lexsort((random, -counts.sum(1)))
    missing = np.array(fewest)
    waiting = (counts[:, :trained] > 0).sum(0)  # groups of every such class that have no part yet
    for left, group_row in zip(range(len(order), 0, -1), order, strict=True):
        present = counts[group_row, :trained] > 0
        empty = np.flatnonzero(missing == np.array(fewest))
        if len(empty) >= left:
            choices = empty
        elif (present & (waiting == 1) & (held[0, :trained] == 0)).any():
            choices = places[:1]
        # Once the groups left only just cover the minimum of every part, parts below it come first.
        else:
            choices = np.flatnonzero(missing > 0) if missing.clip(0).sum() >= left else places
        waiting -= present
        # Squared distance from the class counts that each part should have.
        cost = [np.square(held + counts[group_row] * (places == c)[:, None] - wanted).sum() for c in choices]
        part[group_row] = choices[int(np.argmin(cost))]
        held[part[group_row]] += counts[group_row]
        missing[part[group_row]] -= 1
    return part[group]


def fold_splits(
    strata: np.ndarray, groups: np.ndarray, equal: np.ndarray, folds: int, fold: int
) -> np.ndarray:
    """Return (n,) the split of every sequence in cross-validation, where fold ``fold`` is the test split.

    Folds consist of whole groups. Val gets about the share of the other groups that it has without folds.
    Copies are handled as in ``assign_splits``.

    Raises:
        DataError: if there are fewer groups than folds, or train would lack a class.
    """
    labelled = np.isin(groups, groups[strata >= 0])
    classes = np.where(strata < 0, strata.max() + 1, strata)[labelled]
    labelled_groups = groups[labelled]
    if (n_groups := len(np.unique(labelled_groups))) < folds:
        raise DataError(f"{n_groups} groups cannot fill {folds} folds; take fewer")
    share = SHARES[1] / (SHARES[0] + SHARES[1])
    part = np.zeros(len(classes), dtype=np.int64)
    test = _split_by_group(classes, labelled_groups, 0, (1 / folds,) * folds, (1,) * folds) == fold
    part[test] = 2
    others = labelled_groups[~test]
    fewest = (1, min_groups(others))
    n_classes = int(strata.max()) + 1
    part[~test] = _split_by_group(classes[~test], others, 0, (1 - share, share), fewest, n_classes)
    split = np.zeros(len(strata), dtype=np.int64)
    split[labelled] = part
    split = np.where(_earlier_copies(split, equal), LEFT_OUT, split)
    if unseen := len(np.setdiff1d(strata[strata >= 0], strata[split == 0])):
        raise DataError(f"fold {fold + 1} of {folds} leaves train without {unseen} classes; take more folds")
    return split


def split_number(word: str) -> int:
    """Return the number of a split, 0 1 2 for train val test, by any of its usual names.

    Raises:
        DataError: if the name is unknown.
    """
    if word.lower() not in SPLIT_NAMES:
        advice = "; if these number folds, give them to --group" if word.isdigit() else ""
        raise DataError(f"there is no split {word!r}{nearest(word, SPLITS)}{advice}")
    return SPLIT_NAMES[word.lower()]


def assign_splits(
    strata: np.ndarray, groups: np.ndarray | None, split: np.ndarray | None, equal: np.ndarray, seed: int
) -> tuple[np.ndarray, list[str]]:
    """Return (n,) the split of every sequence, -1 if it is left out, and notes for the user.

    A given split is kept; if it has no val, 15 % of train becomes val. Otherwise, or if all is train, it is
    70/15/15 by class.
    Groups stay whole and equal sequences share a split; where the two conflict, copies are left out.
    Sequences without a label are used for training.

    Args:
        strata: (n,) the class, 0 for real numbers; -1 if unlabelled.
        equal: (n,) a number that equal sequences share.
    """
    if split is not None and split.any():
        return _keep_split(strata, groups, split, equal, seed)
    notes = [] if split is None else ["there is neither a val nor a test split: both are drawn from train"]
    split = _new_split(strata, groups, equal, seed)
    if groups is None:
        return split, notes
    split, said = _without_copies(split, equal)
    return split, [*notes, *said]


def _keep_split(
    strata: np.ndarray, groups: np.ndarray | None, split: np.ndarray, equal: np.ndarray, seed: int
) -> tuple[np.ndarray, list[str]]:
    if groups is not None:
        used = np.zeros((int(groups.max()) + 1, len(SPLITS)), dtype=bool)
        used[groups, split] = True
        if divided := int((used.sum(1) > 1).sum()):
            advice = "correct the split, or leave the group out"
            raise DataError(f"{divided:,} groups are in more than one split; {advice}")
    split = split.copy()
    notes = []
    if not (split == 1).any() and (split == 0).any():
        train = np.flatnonzero(split == 0)
        known = train[strata[train] >= 0]
        if groups is not None and len(np.unique(groups[known])) < len(SPLITS):
            raise DataError("train has too few groups to draw val from; give a val split as well")
        inner = _new_split(strata[train], None if groups is None else groups[train], equal[train], seed)
        drawn = np.where(inner == 1, 1, 0)
        notes.append(f"there is no val split: {int(drawn.sum()):,} examples of train are now val")
        if groups is not None:
            drawn, said = _without_copies(drawn, equal[train])
            notes += said
        split[train] = drawn
    copies = int((_earlier_copies(split, equal) & (split != LEFT_OUT)).sum())
    if copies:
        notes.append(f"{copies:,} sequences are found again in a later split; the split is kept as given")
    return split, notes


def _new_split(strata: np.ndarray, groups: np.ndarray | None, equal: np.ndarray, seed: int) -> np.ndarray:
    if groups is not None:
        unit = np.unique(groups, return_inverse=True)[1]
        row_strata = np.where(strata < 0, strata.max(initial=0) + 1, strata)
    else:
        first_row, unit = np.unique(equal, return_index=True, return_inverse=True)[1:]
        row_strata = np.full(len(first_row), -1)
        np.maximum.at(row_strata, unit, strata)  # an unlabelled copy joins the split of the labelled one
        row_strata = row_strata[unit]
    labelled = np.zeros(unit.max(initial=0) + 1, dtype=bool)
    labelled[unit[strata >= 0]] = True
    split = np.zeros(len(strata), dtype=np.int64)
    rows = np.flatnonzero(labelled[unit])
    if groups is not None:
        fewest = min_groups(unit[rows])
        split[rows] = split_rows(row_strata[rows], unit[rows], seed, fewest, int(strata.max()) + 1)
        return split
    first_rows = rows[np.unique(unit[rows], return_index=True)[1]]  # one of each set of equal sequences
    split_of_unit = np.zeros(len(labelled), dtype=np.int64)
    split_of_unit[unit[first_rows]] = split_rows(row_strata[first_rows], None, seed)
    return split_of_unit[unit]


def _without_copies(split: np.ndarray, equal: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return a split by group without sequences that are equal to one of a later part, and a note on them."""
    copies = _earlier_copies(split, equal)
    said = f"{copies.sum():,} copies of sequences that another group has in a later split are left out"
    return np.where(copies, LEFT_OUT, split), [said] if copies.any() else []


def _earlier_copies(split: np.ndarray, equal: np.ndarray) -> np.ndarray:
    """Return (n,) whether an equal sequence is in a later split."""
    _, kind = np.unique(equal, return_inverse=True)
    latest = np.zeros(kind.max(initial=0) + 1, dtype=np.int64)
    np.maximum.at(latest, kind, split)
    return split < latest[kind]


def check_splits(split: np.ndarray, targets: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Check the labels of each split, and return notes on classes that are missing from val or test.

    Raises:
        DataError: if a split cannot be used.
    """
    known = targets >= 0 if names else ~np.isnan(targets)
    counts = np.zeros((3, max(len(names), 1)), dtype=np.int64)
    column = targets[known].astype(np.int64) if names else np.zeros(int(known.sum()), dtype=np.int64)
    np.add.at(counts, (split[known].astype(np.int64), column), 1)
    for name, count in zip(SPLITS, counts, strict=True):
        if not count.sum():
            raise DataError(f"the {name} split has no labelled example; give more examples or another split")
        if names and (count > 0).sum() == 1:
            raise DataError(
                f"the {name} split has only class {names[count.argmax()]!r}; give more examples, or another "
                f"split or split seed"
            )
    if names:
        return _missing_class_notes(counts, names)
    if np.ptp(targets[known & (split == 0)]) == 0:
        raise DataError("all training targets are equal; there is nothing to predict")
    return []


def check_present(
    split: np.ndarray, present: np.ndarray, labelled: np.ndarray, names: tuple[str, ...]
) -> list[str]:
    """Check the labels of each split where an example may have several classes; see ``check_splits``.

    Args:
        present: (n, K) whether an example has a class.
    """
    for number, name in enumerate(SPLITS):
        if not labelled[split == number].any():
            raise DataError(f"the {name} split has no labelled example; give more examples or another split")
    counts = np.stack([present[split == number].sum(0) for number in range(len(SPLITS))])
    return _missing_class_notes(counts, names)


def _missing_class_notes(counts: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Return notes on classes that val or test lacks; a class that only train lacks is an error."""
    unseen = np.flatnonzero((counts[0] == 0) & (counts.sum(0) > 0))
    if len(unseen):
        raise DataError(
            f"class {names[unseen[0]]!r} is in val or test but not in train; leave it out, or give another "
            f"split or split seed"
        )
    never = [name for name, all_of in zip(names, counts.sum(0), strict=True) if not all_of]
    notes = [f"classes without any example: {join_names(never, 3)}"] * bool(never)
    rare = [
        f"class {name!r} ({all_of:,} examples) is not in {' and '.join(np.array(SPLITS)[1:][held == 0])}"
        for name, all_of, held in zip(names, counts.sum(0), counts[1:].T, strict=True)
        if all_of and (held == 0).any()
    ]
    if not rare:
        return notes
    more = f", and {len(rare) - 3} more classes" if len(rare) > 3 else ""
    return [*notes, f"{'; '.join(rare[:3])}{more}: it is trained on, but not scored there"]
