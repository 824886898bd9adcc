"""Average ranks of models over tasks or seeds, with the tests of Friedman and Nemenyi."""

from collections.abc import Callable

import numpy as np

from . import format
from .analysis import Analysis, TaskAnalysis, score_of
from .figures.charts import SEPARATOR
from .layout import Entry, ReportTable
from .statistics import Ranks, rank
from .tables import BLANK

FEWEST_TASKS = 3
"""Smallest number of tasks for ranking over tasks; with fewer, rows are ranked over seeds in each task."""


def rankings(analysis: Analysis) -> dict[str, Ranks]:
    """Compute average ranks in both headline columns, over tasks or over the seeds of each task, by title.

    Empty if rows are one model at several settings, ``GROUP · PLACE``: these do not compete.
    """
    if not analysis.tasks or settings(analysis):
        return {}
    columns = analysis.tasks[0].task.headline
    if len(analysis.tasks) >= FEWEST_TASKS:
        found = {f"{column}, over tasks": _over_tasks(analysis, column) for column in columns}
    else:
        found = {
            f"{task.label}: {column}, over seeds": _over_seeds(task, column)
            for task in analysis.tasks
            for column in task.task.headline
        }
    return {title: ranks for title, ranks in found.items() if ranks is not None}


def settings(analysis: Analysis) -> bool:
    """Return whether rows are models at several settings, ``GROUP · PLACE``."""
    return any(SEPARATOR in row for task in analysis.tasks for row in task.task.rows)


def ranks(found: dict[str, Ranks]) -> ReportTable:
    """Build the table of average ranks with the tests of Friedman and Nemenyi."""
    rows = list(dict.fromkeys(row for ranks in found.values() for row in ranks.rows))
    average = [dict(ranks.sorted) for ranks in found.values()]
    tests: dict[str, Callable[[Ranks], str]] = {
        "tasks or seeds": lambda r: str(r.blocks),
        "Friedman p": lambda r: format.probability(r.p),
        "critical difference": lambda r: f"{r.critical:.2f}",
    }
    lines = [(Entry(row), *(_average(known.get(row)) for known in average)) for row in rows]
    lines += [(Entry(name), *(Entry(test(r)) for r in found.values())) for name, test in tests.items()]
    return ReportTable(
        "ranks",
        "Average ranks",
        ("model", *found),
        tuple(lines) if found else (),
        "1 is the best. Friedman: whether all models are alike. Two models differ at 5 % if their ranks are "
        "further apart than the critical difference (Nemenyi; Demšar 2006). Over seeds, this holds for that "
        "task alone. A verdict on two models depends on which others are compared.",
    )


def _average(rank: float | None) -> Entry:
    return BLANK if rank is None else Entry(f"{rank:.2f}", key=rank)


def _over_tasks(analysis: Analysis, column: str) -> Ranks | None:
    means = [task.means for task in analysis.tasks]
    rows = [row for row in analysis.tasks[0].task.rows if all((row, column) in found for found in means)]
    return rank(rows, np.array([[found[row, column].mean for row in rows] for found in means]))


def _over_seeds(task: TaskAnalysis, column: str) -> Ranks | None:
    rows = task.task.rows
    found = {row: task.task.at(row, column) for row in rows}
    seeds = [seed for seed in next(iter(found.values())) if all(seed in cells for cells in found.values())]
    scores = [[score_of(cells[seed]) for cells in found.values()] for seed in seeds]
    return rank(rows, np.array(scores).reshape(len(seeds), len(found)))
