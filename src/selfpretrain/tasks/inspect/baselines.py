"""Simple baselines to compare networks with, and their scores on a task's test split.

They are fitted on labelled training examples, their hyperparameters are selected on val from a grid, and they
are scored on test: accuracy in [0, 1] for classes, micro F1 for sets of classes, R2 for real numbers. They
run in one thread and are deterministic.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.dataset import SequenceDataset, generator
from ...data.spec import SPLITS, PositionClasses, Reals, Split, Tokens
from ...errors import DataError
from ..base import Task
from . import features, unlabelled
from .features import Matrix, Splits

QUICK = 60_000
"""Maximum examples to fit fast methods on."""
PLACES = 20_000
"""Maximum positions times tokens of a one-hot encoded example."""
POSITIONS = 50_000
"""Maximum positions to fit on, for classes of positions."""
LOGISTIC = (0.01, 0.1, 1.0, 10.0)
"""Grid of inverse regularisation strengths of logistic regression on values."""
LOGISTIC_NGRAMS = (1.0, 10.0, 100.0)
"""The same on n-grams of tokens, whose TF-IDF weights are small."""
LOGISTIC_SEVERAL = (0.01, 1.0, 100.0)
"""The same where an example has several labels."""
RIDGE = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Grid of regularisation strengths of ridge regression."""
BOOSTED = (100, 300)
"""Grid of numbers of boosted trees."""
TREES = 50_000
"""Maximum examples times classes for gradient boosting on statistics of values."""
COMMONEST = "commonest class"
MEAN = "mean"
COPY = "copy of an overlapping training example"
GUESSES = (COMMONEST, MEAN, COPY)
"""Methods that do not learn from the content of sequences."""
KERNELS = "ridge regression on kernels (MiniRocket)"

Features = Mapping[Split, Matrix]
Labels = Mapping[Split, np.ndarray]
Metric = Callable[[np.ndarray, np.ndarray], float]
Methods = dict[str, tuple[Sequence[Any], Features]]
"""Name of a method -> the grid of its models, and the features of every split."""


def baseline_scores(task: Task, limit: int = 5000) -> dict[str, float]:
    """Return the scores of simple methods on all labelled test examples, by name of the method.

    Classes: the most frequent class; logistic regression on TF-IDF weighted 1-4-grams of tokens, or on
    standardised values; ridge regression on MiniRocket features of values; the nearest neighbour, if
    sequences are equally long; one entry for each shortcut of the task. On ``QUICK`` examples: logistic
    regression on one-hot encoded tokens, for short sequences of equal length; gradient boosting on the task's
    statistics, or on those of values up to ``TREES``. Reals: the mean, and ridge regression on the same
    features. Where test examples share positions with training examples, as overlapping windows of a
    recording do: the label of the nearest one. Sets of classes, and classes of positions: the most frequent
    label, and logistic regression. Where training sequences have no label: what ``unlabelled.methods`` gives.

    Args:
        limit: maximum examples to fit on, and to select on, for all but the fast methods.

    Raises:
        DataError: if a split has no labelled example.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit stopped by its iteration limit is still a baseline
        splits = {split: labelled_examples(task, split, limit) for split in SPLITS}
        if not task.form.target.single:
            return _scores_of_several(task, splits) | _scores_with_unlabelled(task, splits, limit)
        if isinstance(task.form.target, Reals):
            scores = _scores_of_reals(task, splits)
        else:
            scores = _scores_of_classes(task, splits)
            scores |= _quick_scores(task, {s: labelled_examples(task, s, max(limit, QUICK)) for s in SPLITS})
        scores |= _scores_with_unlabelled(task, splits, limit)
        return scores | copy_score(task.load("train"), splits["test"])


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


def fit_grid(models: Sequence[Any], x: Features, y: Labels, metric: Metric) -> float:
    """Fit a grid of models on train, select the best on val, and return its score on test."""
    fitted = [model.fit(x["train"], y["train"]) for model in models]
    best = max(fitted, key=lambda model: metric(y["val"], model.predict(x["val"])))  # the first of equal ones
    return metric(y["test"], best.predict(x["test"]))


def logistic_regressions(strengths: Sequence[float]) -> list[Any]:
    """Return one logistic regression per inverse regularisation strength."""
    from sklearn.linear_model import LogisticRegression

    return [LogisticRegression(C=strength, max_iter=100) for strength in strengths]


def boosted_trees(numbers: Sequence[int]) -> list[Any]:
    """Return one gradient boosting classifier per number of trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return [HistGradientBoostingClassifier(max_iter=number, random_state=0) for number in numbers]


def accuracy(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the share of correct predictions, in [0, 1]."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(y_true, y_pred))


def r2(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return the share of explained variance, at most 1; NaN if all true values are equal."""
    from sklearn.metrics import r2_score

    return float(r2_score(y_true.astype(np.float64), y_pred)) if np.ptp(y_true) > 0 else float("nan")


def micro_f1(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Return F1 over all pairs of an example and a class; 1 if there are no true and no predicted classes."""
    from sklearn.metrics import f1_score

    return float(f1_score(y_true.ravel(), y_pred.ravel(), zero_division=1.0))


def _scores_of_reals(task: Task, splits: Splits) -> dict[str, float]:
    from sklearn.linear_model import Ridge

    y = _labels(splits)
    grid = [Ridge(alpha=alpha) for alpha in RIDGE]
    kind, x = features.sequence_features(task.form, splits)
    methods: Methods = {f"ridge regression on {kind}": (grid, x)} | _on_kernels(task, splits, grid)
    mean = np.full(len(y["test"]), y["train"].mean(dtype=np.float64))
    return {MEAN: r2(y["test"], mean)} | _scores(methods, y, r2)


def _scores_of_classes(task: Task, splits: Splits) -> dict[str, float]:
    from sklearn.linear_model import RidgeClassifier
    from sklearn.neighbors import KNeighborsClassifier

    y = _labels(splits)
    kind, x = features.sequence_features(task.form, splits)
    methods: Methods = {}
    if len(np.unique(y["train"])) > 1:
        strengths = LOGISTIC_NGRAMS if isinstance(task.form.signal, Tokens) else LOGISTIC
        methods[f"logistic regression on {kind}"] = logistic_regressions(strengths), x
        methods |= _on_kernels(task, splits, [RidgeClassifier(alpha=alpha) for alpha in RIDGE])
    if kind == "values":
        methods["nearest neighbour"] = [KNeighborsClassifier(1, algorithm="brute")], x
    scores = {COMMONEST: accuracy(y["test"], _commonest(y["train"], len(y["test"])))}
    scores |= _scores(methods, y, accuracy)
    return scores | {name: _shortcut(cue, splits, y) for name, cue in task.shortcuts().items()}


def _quick_scores(task: Task, splits: Splits) -> dict[str, float]:
    """Return the scores of methods that are fast enough for many examples."""
    y = _labels(splits)
    n_classes = len(np.unique(y["train"]))
    if n_classes < 2:
        return {}
    methods: Methods = {}
    signal = task.form.signal
    lengths = torch.cat([examples.lengths.flatten() for examples in splits.values()])
    longest = int(lengths.max())
    if isinstance(signal, Tokens) and int(lengths.min()) == longest and longest * signal.vocab <= PLACES:
        x = {split: features.one_hot(examples, signal.vocab) for split, examples in splits.items()}
        methods["logistic regression on symbols at their places"] = logistic_regressions(LOGISTIC), x
    x = {split: task.statistics(examples) for split, examples in splits.items()}
    few = len(y["train"]) * n_classes <= TREES
    if x["train"] is None and not isinstance(signal, Tokens) and few:
        x = {split: features.summary(examples) for split, examples in splits.items()}
    if x["train"] is not None:
        methods["gradient boosting on statistics"] = boosted_trees(BOOSTED), x
    return _scores(methods, y, accuracy)


def _scores_of_several(task: Task, splits: Splits) -> dict[str, float]:
    """Return the scores of the most frequent label and of logistic regression on up to ``POSITIONS`` rows."""
    from sklearn.multiclass import OneVsRestClassifier

    grid = logistic_regressions(LOGISTIC_SEVERAL)
    if isinstance(task.form.target, PositionClasses):
        kind = f"the {features.AROUND} positions on either side"
        pairs = {split: features.position_features(task.form, e) for split, e in splits.items()}
        x = {split: pair[0] for split, pair in pairs.items()}
        y = {split: pair[1] for split, pair in pairs.items()}
        metric = accuracy
        common = _commonest(y["train"], len(y["test"]))
    else:
        kind, x = features.sequence_features(task.form, splits)
        y = {split: targets.astype(np.int64) for split, targets in _labels(splits).items()}
        metric = micro_f1
        common = _commonest_set(y["train"], len(y["test"]))
        grid = [OneVsRestClassifier(model) for model in grid]
    rows = np.random.RandomState(0).permutation(len(y["train"]))[:POSITIONS]
    score = fit_grid(grid, x | {"train": x["train"][rows]}, y | {"train": y["train"][rows]}, metric)
    return {COMMONEST: metric(y["test"], common), f"logistic regression on {kind}": score}


def _scores_with_unlabelled(task: Task, splits: Splits, limit: int) -> dict[str, float]:
    """Return the scores of methods that see up to ``limit`` training sequences without a label, too."""
    train = task.load("train")
    rows = [_at_most(known.nonzero()[:, 0], limit, "train") for known in (train.labelled, ~train.labelled)]
    strengths = LOGISTIC_NGRAMS if isinstance(task.form.signal, Tokens) else LOGISTIC
    grid = logistic_regressions(strengths if task.form.target.single else LOGISTIC_SEVERAL)
    found = unlabelled.methods(task.form, splits, train.take(torch.cat(rows)), grid, POSITIONS)
    return {name: fit_grid(grid, x, y, accuracy) for name, grid, x, y in found}


def _labels(splits: Splits) -> dict[Split, np.ndarray]:
    return {split: examples.targets.numpy() for split, examples in splits.items()}


def _scores(methods: Methods, y: Labels, metric: Metric) -> dict[str, float]:
    return {name: fit_grid(grid, x, y, metric) for name, (grid, x) in methods.items()}


def _on_kernels(task: Task, splits: Splits, grid: Sequence[Any]) -> Methods:
    """Return a grid on MiniRocket features; empty for tokens, and if they would take too long."""
    x = None if isinstance(task.form.signal, Tokens) else features.minirocket(splits)
    return {} if x is None else {KERNELS: (grid, features.standardise(x))}


def _commonest(train: np.ndarray, number: int) -> np.ndarray:
    return np.full(number, np.bincount(train).argmax())


def _commonest_set(train: np.ndarray, number: int) -> np.ndarray:
    """Return the classes that at least half of the examples have, or else the most frequent one."""
    shares = train.mean(0)
    return np.tile((shares >= min(0.5, shares.max())).astype(np.int64), (number, 1))


def _shortcut(cue: Callable[[SequenceDataset], Tensor], splits: Splits, y: Labels) -> float:
    """Return the accuracy of predicting the most frequent training class of each value of the cue."""
    train = cue(splits["train"]).numpy()
    test = cue(splits["test"]).numpy()
    y_pred = _commonest(y["train"], len(test))
    for value in np.unique(train):
        y_pred[test == value] = np.bincount(y["train"][train == value]).argmax()
    return accuracy(y["test"], y_pred)


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
