"""Tables per class: recall, precision, F1, confusion matrices, and calibration."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import format
from .analysis import Analysis, RowColumn, TaskAnalysis
from .layout import Entry, ReportTable
from .statistics import calibration

MOST = 20
"""Largest number of classes for which tables are built."""
SURE = (
    "Over the test split, all seeds together. Confidence is the probability that a network gives to its "
    "answer; the error is its mean distance from accuracy, over 15 bins of confidence."
)
CAPTION = "Over the test split, all seeds together. Classes are numbered as in the data."


def by_class(analysis: Analysis) -> ReportTable:
    """Build the table of recall, precision and F1 per class for each model's best arm; one task only."""
    rows = [
        (Entry(row), Entry(column), Entry(str(at)), Entry(str(int(count))), *map(_share, numbers))
        for task in analysis.tasks[: len(analysis.tasks) == 1]
        for row in task.task.rows
        if (found := _best(task, row)) is not None
        for (_, column), counts in [found]
        for at, (count, *numbers) in enumerate(_scores(counts))
    ]
    headings = ("model", "best arm", "class", "examples", "recall", "precision", "F1")
    return ReportTable(
        "classes", "Scores of every class in %", headings, tuple(rows), CAPTION, 3, sortable=True
    )


def confusions(analysis: Analysis) -> list[ReportTable]:
    """Build the confusion matrix of each model's best arm, in % of the right class; one task only."""
    tables = []
    for task in analysis.tasks[: len(analysis.tasks) == 1]:
        for number, row in enumerate(task.task.rows, 1):
            if (found := _best(task, row)) is None:
                continue
            (_, column), counts = found
            shares = 100 * counts / counts.sum(1, keepdims=True).clip(1)
            body = tuple(
                (
                    Entry(str(right)),
                    *(Entry(f"{share:.0f}") for share in line),
                )
                for right, line in enumerate(shares)
            )
            title = f"What {row} ({column}) takes for what, in % of the right class"
            headings = ("right class", *(f"as {at}" for at in range(len(counts))))
            tables.append(ReportTable(f"confusion-{number}", title, headings, body, CAPTION))
    return tables


def reliability(analysis: Analysis) -> ReportTable:
    """Build the table of accuracy, confidence and calibration error per arm; one task only."""
    rows = []
    for task in analysis.tasks[: len(analysis.tasks) == 1]:
        for row, column in task.means:
            kept = [cell.scored.predictions for cell in task.task.at(row, column).values()]
            told = [
                (k.confidence / 255, k.prediction == k.target) for k in kept if k and k.confidence is not None
            ]
            if told and len(told) == len(kept):
                sure, hit = (np.concatenate(each) for each in zip(*told, strict=True))
                error = sum(share * abs(one - other) for one, other, share in calibration(sure, hit))
                numbers = map(_share, (float(hit.mean()), float(sure.mean()), error))
                rows.append((Entry(row), Entry(column), *numbers))
    headings = ("model", "arm", "accuracy", "mean confidence", "calibration error")
    title = "How sure the arms are of their answers, in %"
    return ReportTable("reliability", title, headings, tuple(rows), SURE, 2, sortable=True)


def _best(task: TaskAnalysis, row: str) -> tuple[RowColumn, NDArray[np.int64]] | None:
    """Return the best arm of a model and its confusion matrix (target, prediction), summed over seeds.

    None for tasks without classes, with too many of them, or if no predictions were kept.
    """
    places = [place for place in task.means if place[0] == row]
    if task.task.record.task.kind != "classes" or not places:
        return None
    place = max(places, key=lambda at: task.means[at].mean)
    kept = [cell.scored.predictions for cell in task.task.at(*place).values()]
    answers = [found for found in kept if found is not None]
    classes = 1 + max((int(max(a.target.max(), a.prediction.max())) for a in answers), default=-1)
    if not 1 < classes <= MOST:
        return None
    counts = np.zeros((classes, classes), dtype=np.int64)
    for found in answers:
        np.add.at(counts, (found.target, found.prediction), 1)
    return place, counts


def _scores(counts: NDArray[np.int64]) -> Sequence[tuple[float, ...]]:
    """Return (examples, recall, precision, F1) of every class; NaN for 0 / 0."""
    hits, right, given = counts.diagonal(), counts.sum(1), counts.sum(0)
    with np.errstate(invalid="ignore"):
        shares = hits / right, hits / given, 2 * hits / (right + given)
    return list(zip(*(column.astype(float).tolist() for column in (right, *shares)), strict=True))


def _share(value: float) -> Entry:
    return Entry(format.NONE) if math.isnan(value) else Entry(f"{100 * value:.1f}", key=value)
