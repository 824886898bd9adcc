"""Simple baselines to compare networks with, and their scores on a task's test split.

They are guesses, shortcuts of the task, and baselines of the list of simple methods (``tasks.simple``), which
are fitted on training examples with the setting that is best on val. Scores are accuracy in [0, 1] for
classes, micro F1 for sets of classes and R2 for real numbers. They run in one thread and are deterministic.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score, r2_score
from threadpoolctl import threadpool_limits
from torch import Tensor

from ...data.dataset import SequenceDataset, generator
from ...data.spec import SPLITS, Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Split
from ...errors import DataError
from ..base import Task
from ..simple.features import ALL, Matrix
from ..simple.methods import SELF_TRAINED, Fitted, Method, simple_methods, targets_and_weights

MAX_EXAMPLES = 5_000  # maximum examples to fit on, and to select on, for all but the fast methods
MAX_POSITIONS = 320_000  # the same where every position is an example
QUICK = 60_000  # maximum examples to fit fast methods on
COMMONEST = "commonest class"
MEAN = "mean"
COPY = "copy of an overlapping training example"
GUESSES = (COMMONEST, MEAN, COPY)  # methods that do not learn from the content of sequences

Splits = Mapping[Split, SequenceDataset]


def baseline_scores(task: Task) -> dict[str, float]:
    """Return the scores of simple methods on all labelled test examples, by name of the method.

    The most frequent class or the mean, the shortcuts of the task, and the baselines among the simple methods
    that suit the data; some of these see training sequences without a label, too. Where test examples share
    positions with training examples, as overlapping windows of a recording do: the label of the nearest one.

    Raises:
        DataError: if a split has no labelled example.
    """
    form = task.form
    limit = MAX_EXAMPLES
    if isinstance(form.target, PositionClasses):
        limit = min(limit, max(MAX_POSITIONS // form.length, 1))
    splits = {split: labelled_examples(task, split, limit) for split in SPLITS}
    many = {split: labelled_examples(task, split, QUICK) for split in SPLITS}
    train = task.load("train")
    kinds = (train.labelled, ~train.labelled)
    everything = train.take(torch.cat([_at_most(kind.nonzero()[:, 0], limit, "train") for kind in kinds]))
    scores = _guess(form, splits)
    scores |= {name: _shortcut(cue, splits) for name, cue in task.shortcuts().items()}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit stopped by its iteration limit is still a baseline
        for method in _suitable(task, splits, everything, many["train"]):
            used = many if method.many else splits
            scores[method.name(form.target)] = score(form, method, used, everything)
    return scores | (copy_score(train, splits["test"]) if form.target.single else {})


def best_of_both(scores: Mapping[str, float]) -> list[str]:
    """Return the best method that sees labelled sequences alone, and the best that sees all, if any does."""
    kinds = [[name for name in scores if name.endswith(ALL) == every] for every in (False, True)]
    return [max(names, key=lambda name: scores[name]) for names in kinds if names]


def labelled_examples(task: Task, split: Split, limit: int) -> SequenceDataset:
    """Return labelled examples of a split; beyond ``limit``, a fixed random subset (of test, always all).

    Raises:
        DataError: if there are none.
    """
    examples = task.load(split)
    rows = examples.labelled.nonzero()[:, 0]
    if not len(rows):
        raise DataError(f"the {split} split has no labelled example")
    return examples.take(rows if split == "test" else _at_most(rows, limit, split))


def _at_most(rows: Tensor, limit: int, split: Split) -> Tensor:
    """Return the rows, or a fixed random subset of ``limit`` of them, in order."""
    if len(rows) <= limit:
        return rows
    return rows[torch.randperm(len(rows), generator=generator("baseline", split))[:limit].sort().values]


def _suitable(task: Task, splits: Splits, everything: SequenceDataset, many: SequenceDataset) -> list[Method]:
    """Return the baselines that suit the data; none if all training examples have the same class."""
    form = task.form
    if _alike(form, many):
        return []
    parts = (everything, splits["val"], splits["test"])
    lengths = torch.cat([part.lengths.flatten() for part in parts])
    unlabelled = len(everything) > len(splits["train"])
    statistics = None if task.statistics(many) is None else task.statistics
    found = simple_methods(form, len(many), lengths, unlabelled, statistics)
    # Of many examples, these may be of one class, and not all methods can be fitted then.
    alike = _alike(form, splits["train"])
    return [method for method in found if method.baseline and (method.many or not alike)]


def _alike(form: SequenceSpec, examples: SequenceDataset) -> bool:
    """Return whether all labels are the same class."""
    one = isinstance(form.target, Classes | PositionClasses)
    return one and bool(np.ptp(_known_targets(form, examples)) == 0)


def score(form: SequenceSpec, method: Method, splits: Splits, everything: SequenceDataset) -> float:
    """Fit a method with each setting on train, select the best on val, and return its score on test."""
    features = method.measured(everything).fitted(splits["train"])
    train = everything if method.model is SELF_TRAINED else splits["train"]
    x = features.transform(train)
    fitted = [method.fitted(form, x, train, setting) for setting in method.settings(form.target)]
    x = features.transform(splits["val"])
    best = max(fitted, key=lambda model: _quality(form, model, x, splits["val"]))  # the first of equal ones
    return _quality(form, best, features.transform(splits["test"]), splits["test"])


def _quality(form: SequenceSpec, model: Fitted, x: Matrix, examples: SequenceDataset) -> float:
    """Return the score of a model on labelled examples with features x."""
    y_true, _ = targets_and_weights(form, examples)
    outputs = model.scores(x)
    if isinstance(form.target, Reals):
        return r2(y_true, outputs[:, 0])
    if isinstance(form.target, ClassSets):
        return micro_f1(y_true, outputs > 0)
    return accuracy(y_true[y_true >= 0], outputs.argmax(1)[y_true >= 0])


def accuracy(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the share of correct predictions, in [0, 1]."""
    return float(accuracy_score(y_true, y_pred))


def r2(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the share of explained variance, at most 1; NaN if all true values are equal."""
    return float(r2_score(y_true.astype(np.float64), y_pred)) if np.ptp(y_true) > 0 else float("nan")


def pooled(scores: np.ndarray, folds: Sequence[Task]) -> np.ndarray:
    """Return (m,) scores of the answers to all folds together, from those (m, folds).

    Hits add up, and squared errors. F1 of sets of classes is the mean over folds, weighted by their examples.
    """
    parts = [_known_targets(fold.form, labelled_examples(fold, "test", MAX_EXAMPLES)) for fold in folds]
    if not isinstance(folds[0].form.target, Reals):
        return np.asarray(np.average(scores, axis=1, weights=[len(part) for part in parts]))
    targets = [part.astype(np.float64) for part in parts]
    squares = np.array([len(y) * y.var() for y in targets])
    whole = np.concatenate(targets)
    return np.asarray(1 - ((1 - scores) * squares).sum(1) / (len(whole) * whole.var()))


def micro_f1(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return F1 over all pairs of an example and a class; 1 if there are no true and no predicted classes."""
    return float(f1_score(y_true.ravel(), y_pred.ravel(), zero_division=1.0))


def _known_targets(form: SequenceSpec, examples: SequenceDataset) -> np.ndarray:
    """Return the targets of labelled examples; of positions, the known ones."""
    y, _ = targets_and_weights(form, examples)
    return y[y >= 0] if isinstance(form.target, PositionClasses) else y


def _guess(form: SequenceSpec, splits: Splits) -> dict[str, float]:
    """Return the score of the mean, or of the most frequent class or classes."""
    train = _known_targets(form, splits["train"])
    test = _known_targets(form, splits["test"])
    if isinstance(form.target, Reals):
        return {MEAN: r2(test, np.full(len(test), train.mean()))}
    if isinstance(form.target, ClassSets):
        shares = train.mean(0)  # the classes that at least half of the examples have, or the most frequent
        commonest = (shares >= min(0.5, shares.max())).astype(np.int64)
        return {COMMONEST: micro_f1(test, np.tile(commonest, (len(test), 1)))}
    return {COMMONEST: accuracy(test, np.full(len(test), np.bincount(train).argmax()))}


def _shortcut(cue: Callable[[SequenceDataset], Tensor], splits: Splits) -> float:
    """Return the accuracy of predicting the most frequent training class of each value of the cue."""
    train = cue(splits["train"]).numpy()
    test = cue(splits["test"]).numpy()
    y = splits["train"].targets.numpy()
    y_pred = np.full(len(test), np.bincount(y).argmax())
    for value in np.unique(train):
        y_pred[test == value] = np.bincount(y[train == value]).argmax()
    return accuracy(splits["test"].targets.numpy(), y_pred)


def copy_score(train: SequenceDataset, test: SequenceDataset) -> dict[str, float]:
    """Return the score of copying the label of the nearest overlapping training example; empty if none."""
    train = train.take(train.labelled.nonzero()[:, 0])
    nearest = nearest_overlapping(train, test)
    if not (nearest >= 0).any():
        return {}
    labels = train.targets.numpy()
    real = train.targets.is_floating_point()
    usual = labels.mean(dtype=np.float64) if real else np.bincount(labels).argmax()
    y_pred = np.where(nearest >= 0, labels[nearest], usual)
    return {COPY: (r2 if real else accuracy)(test.targets.numpy(), y_pred)}


def nearest_overlapping(train: SequenceDataset, test: SequenceDataset) -> np.ndarray:
    """Return the (n,) index of the overlapping training example nearest to each test example, -1 if none."""
    none = np.full(len(test), -1)
    # Windows can overlap only if both splits are views of the same stored array.
    if train.packed or train.views > 1 or train.flat.data_ptr() != test.flat.data_ptr():
        return none
    order = train.starts[0].argsort(stable=True).numpy()
    starts = train.starts[0].numpy()[order]
    lengths = train.lengths[0].numpy()[order]
    begin = test.starts[0].numpy()
    after = np.searchsorted(starts, begin)
    left = (after - 1).clip(min=0)
    right = after.clip(max=len(starts) - 1)
    near = np.where(np.abs(begin - starts[left]) <= np.abs(begin - starts[right]), left, right)
    gap = begin - starts[near]
    overlaps = np.where(gap >= 0, gap < lengths[near], -gap < test.lengths[0].numpy())
    return np.where(overlaps, order[near], none)
