"""Metrics of predictions with bootstrap intervals over examples, and reliability curves of classifiers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics

from ..objectives.token_classify import matthews
from ..report import statistics
from ..report.figures import style

LEVEL = (2.5, 97.5)  # percentiles of the bootstrap distribution that bound a 95 % interval
LARGEST = 160.0  # area of the dot of a bin with all examples, in points squared
Measures = Callable[[np.ndarray, np.ndarray], dict[str, float]]


@dataclass(frozen=True)
class Score:
    """The value of a metric and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{shown(self.value)} ({shown(self.low)} to {shown(self.high)})"


def shown(value: float) -> str:
    """Return a score as text: with three decimals, or three digits below 0.01, as errors may be."""
    return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.3f}"


def class_measures(y_true: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return metrics of class probabilities (n, K) for classes (n,); NaN where two classes are needed."""
    n, n_classes = probabilities.shape
    actual = y_true.astype(np.int64)
    predicted = probabilities.argmax(1)
    each = actual, predicted, actual[actual == predicted]
    counts = np.array([np.bincount(found, minlength=n_classes) for found in each])
    smallest = np.finfo(probabilities.dtype).eps
    losses = -np.log(probabilities[np.arange(n), actual].clip(smallest))
    found = position_measures(counts[None], losses) | {"ECE": Reliability.of(y_true, probabilities).error}
    # Rankings need examples inside and outside of a class; of two classes, one says it all.
    scorable = [k for k in range(n_classes) if 0 < counts[0, k] < n]
    ranked = [
        ranking(actual == k, probabilities[:, k]) for k in (scorable if n_classes > 2 else scorable[-1:])
    ]
    found["AUROC"] = _mean(auroc for auroc, _ in ranked)
    found["average precision"] = _mean(precision for _, precision in ranked)
    return {name: float(value) for name, value in found.items()}


def ranking(actual: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return the AUROC and the average precision of scores (n,) for true indicators (n,) of both kinds.

    Equal to scikit-learn's, which checks its input so thoroughly that 200 resamples take seconds.
    """
    order = np.argsort(-scores, kind="stable")
    last_of_ties = np.flatnonzero(np.append(np.diff(scores[order]), 1))
    above = 1 + last_of_ties  # examples with at least this score
    hits = np.cumsum(actual[order])[last_of_ties]
    new_hits = np.diff(hits, prepend=0)
    new_misses = np.diff(above, prepend=0) - new_hits
    auroc = ((hits - new_hits / 2) * new_misses).sum() / (hits[-1] * new_misses.sum())
    precision = (new_hits * hits / above).sum() / hits[-1]
    return float(auroc), float(precision)


def real_measures(y_true: np.ndarray, y_pred: np.ndarray) -> dict[str, float]:
    """Return metrics of predicted numbers (n,)."""
    return {
        "R2": metrics.r2_score(y_true, y_pred) if len(y_true) > 1 else np.nan,
        "MAE": float(metrics.mean_absolute_error(y_true, y_pred)),
        "RMSE": float(metrics.root_mean_squared_error(y_true, y_pred)),
    }


def set_measures(y_true: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return multilabel metrics of probabilities (n, K) for true indicators (n, K)."""
    actual = y_true > 0
    predicted = probabilities > 0.5
    hits = (predicted & actual).sum(0)
    # Classes without examples or predictions have no F1; those with one value only have no AUROC.
    total = predicted.sum(0) + y_true.sum(0)
    scorable = [k for k, column in enumerate(y_true.T) if 0 < column.sum() < len(y_true)]
    clipped = probabilities.clip(1e-15, 1 - 1e-15)
    each = [measures_of_class(y_true[:, k], clipped[:, k]) for k in scorable]
    f1 = 2 * hits / total.clip(min=1)
    return {
        "micro F1": float(2 * hits.sum() / total.sum()) if total.sum() else 1.0,
        "macro F1": float(f1[total > 0].mean()) if total.any() else 1.0,
        "exact match": float((predicted == actual).all(1).mean()),
        "AUROC": _mean(one["AUROC"] for one in each),
        "average precision": _mean(one["average precision"] for one in each),
        "log loss": float(-np.log(np.where(actual, clipped, 1 - clipped)).mean()),
    }


def measures_of_class(y_true: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return metrics of the probabilities (n,) of one class for its true indicators (n,)."""
    actual = y_true > 0
    predicted = probabilities > 0.5
    total = predicted.sum() + actual.sum()
    found = {
        "F1": float(2 * (predicted & actual).sum() / total) if total else np.nan,
        "AUROC": np.nan,
        "average precision": np.nan,
    }
    if actual.any() and not actual.all():
        found["AUROC"], found["average precision"] = ranking(actual, probabilities)
    return found


def position_counts(y_true: np.ndarray, probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return counts (n, 3, K) of true, predicted and correctly predicted positions of each class.

    The second value is the summed log loss of each sequence (n,), in nats.

    Args:
        y_true: (n, L) true classes, -1 where unknown.
        probabilities: of every sequence, (length, K).
    """
    n_classes = probabilities[0].shape[1]
    counts = np.zeros((len(probabilities), 3, n_classes), dtype=np.int64)
    losses = np.zeros(len(probabilities))
    for i, of_sequence in enumerate(probabilities):
        known = np.flatnonzero(y_true[i, : len(of_sequence)] >= 0)
        actual = y_true[i, known].astype(np.int64)
        predicted = of_sequence[known].argmax(1)
        hits = actual[actual == predicted]
        counts[i] = [np.bincount(found, minlength=n_classes) for found in (actual, predicted, hits)]
        losses[i] = -np.log(of_sequence[known, actual].clip(1e-15)).sum()
    return counts, losses


def position_measures(counts: np.ndarray, losses: np.ndarray) -> dict[str, float]:
    """Return metrics over all positions of some sequences, from the counts of ``position_counts``."""
    actual, predicted, hits = counts.sum(0).astype(np.float64)
    n = actual.sum()
    correct = hits.sum()
    if not n:
        return dict.fromkeys(("accuracy", "balanced accuracy", "macro F1", "MCC", "log loss"), np.nan)
    some = actual + predicted > 0
    return {
        "accuracy": correct / n,
        "balanced accuracy": float((hits[actual > 0] / actual[actual > 0]).mean()),
        "macro F1": float((2 * hits[some] / (actual + predicted)[some]).mean()),
        "MCC": matthews(actual.tolist(), predicted.tolist(), float(correct)),
        "log loss": losses.sum() / n,
    }


def bootstrap(
    measures: Measures, arrays: Sequence[Any], groups: Any = None, draws: int = 200
) -> dict[str, Score]:
    """Return metrics with percentile bootstrap intervals, resampling examples or, if given, whole groups.

    Of one example or group, the intervals are NaN: its resamples are all alike, and say nothing of others.
    So they are without draws.

    Args:
        arrays: (n, ...) each, the arguments of ``measures``.
    """
    arrays = [np.asarray(array) for array in arrays]
    several = len(arrays[0] if groups is None else np.unique(groups)) > 1
    values: dict[str, list[float]] = defaultdict(list)
    for rows in resamples(len(arrays[0]), groups, draws):
        for name, value in measures(*(array[rows] for array in arrays)).items():
            values[name].append(value)
    found = {}
    for name, value in measures(*arrays).items():
        known = several and np.isfinite(values[name]).any()
        low, high = np.nanpercentile(values[name], LEVEL) if known else (np.nan, np.nan)
        found[name] = Score(value, float(low), float(high))
    return found


def resamples(n: int, groups: Any, draws: int) -> Iterator[np.ndarray]:
    """Yield rows drawn with replacement from n examples or, if given, from whole groups of them."""
    n_units = n
    # Without groups the rows are drawn directly, which saves a concatenation per draw.
    rows_of = None
    if groups is not None:
        owner = np.unique(np.asarray(groups), return_inverse=True)[1]
        n_units = owner.max() + 1
        rows_of = [np.flatnonzero(owner == group) for group in range(n_units)]
    random = np.random.RandomState(0)
    for _ in range(draws):
        drawn = random.randint(n_units, size=n_units)
        yield drawn if rows_of is None else np.concatenate([rows_of[group] for group in drawn])


def _mean(values: Iterable[float]) -> float:
    """Return the mean; NaN of nothing."""
    found = list(values)
    return float(np.mean(found)) if found else np.nan


@dataclass(frozen=True)
class Reliability:
    """Accuracy in bins of confidence, the probability of the predicted class."""

    bins: tuple[tuple[float, float, float], ...]  # mean confidence, accuracy, share of the examples

    @classmethod
    def of(cls, y_true: np.ndarray, probabilities: np.ndarray) -> "Reliability":
        """Return the curve of true classes (n,) and probabilities (n, K)."""
        correct = probabilities.argmax(1) == y_true
        return cls(tuple(statistics.calibration(probabilities.max(1), correct)))

    @property
    def error(self) -> float:
        """Expected calibration error: mean |confidence - accuracy|, weighted by bin size.

        Source: Guo et al. (2017), On Calibration of Modern Neural Networks, eq. 3.
        """
        return sum(share * abs(confidence - accuracy) for confidence, accuracy, share in self.bins)

    def picture(self) -> str:
        """Return a plot of accuracy over confidence as SVG; below the diagonal the model is overconfident."""
        with style.figure_settings("reliability"):
            figure, axes = style.canvas(3.4)
            axes.plot([0, 1], [0, 1], color=style.FAINT, linewidth=1)
            confidence, accuracy, share = np.array(self.bins).T
            axes.plot(confidence, accuracy, color=style.COLOURS[0], linewidth=1)
            area = 8 + LARGEST * share
            axes.scatter(confidence, accuracy, s=area, color=style.COLOURS[0], alpha=0.7, linewidths=0)
            axes.set_xlim(0, 1.02)
            axes.set_ylim(0, 1.02)
            axes.set_xlabel("confidence")
            axes.set_ylabel("accuracy")
            axes.set_title(f"expected calibration error {self.error:.3f}")
            return style.with_background(style.to_svg(figure))
