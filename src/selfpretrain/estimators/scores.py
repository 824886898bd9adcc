"""Metrics for classes, label sets, positions and real numbers, with bootstrap intervals over examples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics

from ..report import statistics

LEVEL = (2.5, 97.5)
"""Percentiles of the bootstrap distribution that bound a 95 % interval."""
Measures = Callable[[np.ndarray, np.ndarray], dict[str, float]]


@dataclass(frozen=True)
class Score:
    """The value of a metric and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def class_measures(right: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return metrics of class probabilities (n, K) for classes (n,); NaN where two classes are needed."""
    given, K = probabilities.argmax(1), probabilities.shape[1]
    found = {
        "accuracy": metrics.accuracy_score(right, given),
        "balanced accuracy": metrics.recall_score(right, given, average="macro", labels=np.unique(right)),
        "macro F1": metrics.f1_score(right, given, average="macro", zero_division=0),
        "MCC": metrics.matthews_corrcoef(right, given),
        "log loss": metrics.log_loss(right, probabilities, labels=np.arange(K)),
        "ECE": calibration_error(right, probabilities),
    }
    there = [k for k in range(K) if 0 < (right == k).sum() < len(right)]
    pairs = [(right == k, probabilities[:, k]) for k in (there if K > 2 else there[-1:])]
    found["AUROC"] = float(np.mean([metrics.roc_auc_score(*pair) for pair in pairs])) if pairs else np.nan
    found["average precision"] = (
        float(np.mean([metrics.average_precision_score(*pair) for pair in pairs])) if pairs else np.nan
    )
    return {name: float(value) for name, value in found.items()}


def real_measures(right: np.ndarray, given: np.ndarray) -> dict[str, float]:
    """Return metrics of predicted numbers (n,)."""
    return {
        "R2": metrics.r2_score(right, given) if len(right) > 1 else np.nan,
        "MAE": float(metrics.mean_absolute_error(right, given)),
        "RMSE": float(metrics.root_mean_squared_error(right, given)),
    }


def set_measures(right: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return multilabel metrics of probabilities (n, K) for true indicators (n, K)."""
    told, probabilities = probabilities > 0.5, probabilities.clip(1e-15, 1 - 1e-15)
    # Classes without examples or predictions have no F1; those with one value only have no AUROC.
    both, here = told.sum(0) + right.sum(0), [0 < column.sum() < len(right) for column in right.T]
    f1 = 2 * (told & (right > 0)).sum(0) / both.clip(min=1)
    each = [measures_of_class(right[:, k], probabilities[:, k]) for k in np.flatnonzero(here)]
    return {
        "micro F1": float(2 * (told & (right > 0)).sum() / both.sum()) if both.sum() else 1.0,
        "macro F1": float(f1[both > 0].mean()) if both.any() else 1.0,
        "exact match": float((told == (right > 0)).all(1).mean()),
        "AUROC": float(np.mean([one["AUROC"] for one in each])) if each else np.nan,
        "average precision": float(np.mean([one["average precision"] for one in each])) if each else np.nan,
        "log loss": float(-np.log(np.where(right > 0, probabilities, 1 - probabilities)).mean()),
    }


def measures_of_class(right: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return metrics of the probabilities (n,) of one class for its true indicators (n,)."""
    told, there = probabilities > 0.5, right > 0
    both = told.sum() + there.sum()
    several = bool(there.any()) and not there.all()
    return {
        "F1": float(2 * (told & there).sum() / both) if both else np.nan,
        "AUROC": float(metrics.roc_auc_score(there, probabilities)) if several else np.nan,
        "average precision": float(metrics.average_precision_score(there, probabilities))
        if several
        else np.nan,
    }


def position_counts(right: np.ndarray, probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return counts (n, 3, K) of true, predicted and correctly predicted positions of each class.

    The second value is the summed log loss of each sequence (n,), in nats.

    Args:
        right: (n, L) true classes, -1 where unknown.
        probabilities: of every sequence, (length, K).
    """
    K = probabilities[0].shape[1]
    counts, losses = np.zeros((len(probabilities), 3, K), dtype=np.int64), np.zeros(len(probabilities))
    for i, of_sequence in enumerate(probabilities):
        known = np.flatnonzero(right[i, : len(of_sequence)] >= 0)
        y_true = right[i, known].astype(np.int64)
        y_pred = of_sequence[known].argmax(1)
        correct = y_true[y_true == y_pred]
        counts[i] = [np.bincount(found, minlength=K) for found in (y_true, y_pred, correct)]
        losses[i] = -np.log(of_sequence[known, y_true].clip(1e-15)).sum()
    return counts, losses


def position_measures(counts: np.ndarray, losses: np.ndarray) -> dict[str, float]:
    """Return metrics over all positions of some sequences, from the counts of ``position_counts``."""
    there, told, hits = counts.sum(0).astype(np.float64)
    n, right = there.sum(), hits.sum()
    if not n:
        return dict.fromkeys(("accuracy", "balanced accuracy", "macro F1", "MCC", "log loss"), np.nan)
    spread = (n**2 - (told**2).sum()) * (n**2 - (there**2).sum())
    some = there + told > 0
    return {
        "accuracy": right / n,
        "balanced accuracy": float((hits[there > 0] / there[there > 0]).mean()),
        "macro F1": float((2 * hits[some] / (there + told)[some]).mean()),
        "MCC": float((right * n - there @ told) / spread**0.5) if spread > 0 else 0.0,
        "log loss": losses.sum() / n,
    }


def calibration_error(right: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the expected calibration error: |confidence - accuracy| averaged over bins, weighted by size.

    Source: Guo et al. (2017), On Calibration of Modern Neural Networks, eq. 3.
    """
    return sum(share * abs(sure - hit) for sure, hit, share in calibration(right, probabilities))


def calibration(right: np.ndarray, probabilities: np.ndarray) -> list[tuple[float, float, float]]:
    """Return mean confidence, accuracy and share of the examples of every non-empty confidence bin."""
    return statistics.calibration(probabilities.max(1), probabilities.argmax(1) == right)


def bootstrap(
    measures: Measures, answers: Sequence[Any], groups: Any = None, draws: int = 200
) -> dict[str, Score]:
    """Return metrics with percentile bootstrap intervals, resampling examples or, if given, whole groups.

    Args:
        answers: arrays (n, ...), the arguments of ``measures``.
    """
    random, n = np.random.RandomState(0), len(answers[0])
    owner = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    # Without groups the rows are drawn directly, which saves a concatenation per draw.
    rows_of = [np.flatnonzero(owner == g) for g in range(owner.max() + 1)] if groups is not None else None
    found: dict[str, list[float]] = {}
    for _ in range(draws):
        drawn = random.randint(owner.max() + 1, size=owner.max() + 1)
        rows = drawn if rows_of is None else np.concatenate([rows_of[g] for g in drawn])
        for name, value in measures(*(np.asarray(a)[rows] for a in answers)).items():
            found.setdefault(name, []).append(value)
    whole = measures(*map(np.asarray, answers))
    bounds = {
        name: np.nanpercentile(values, LEVEL) if np.isfinite(values).any() else (np.nan, np.nan)
        for name, values in found.items()
    }
    return {name: Score(value, *map(float, bounds[name])) for name, value in whole.items()}
