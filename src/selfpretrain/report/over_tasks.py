"""Tables over many tasks: gains, differences between models and their order, each task counting once.

The intervals are over tasks: what to expect of another task of the kind, not of another seed.
"""

from collections.abc import Mapping
from itertools import combinations

from . import format
from .analysis import Analysis, RowColumn
from .layout import Entry, ReportTable
from .statistics import estimate, sign_flip, spearman
from .tables import BLANK

MIN_TASKS = 6  # smallest number of tasks for an interval over tasks
Means = Mapping[RowColumn, float]  # mean score over seeds by row and column


def gains(analysis: Analysis) -> ReportTable:
    """Build the table of every contrast of every model, averaged over tasks."""
    places = [((row, a), (row, b)) for row in _rows(analysis) for a, b in _contrasts(analysis)]
    rows = [(row, f"{a} over {b}", _mean(analysis, (row, a), (row, b))) for (row, a), (_, b) in places]
    return _table("gains-over-tasks", "Gains averaged over tasks", ("model", "gain"), rows)


def models(analysis: Analysis) -> ReportTable:
    """Build the table of the difference between two models in every arm, averaged over tasks."""
    rows = [
        (f"{one} over {other}", column, _mean(analysis, (one, column), (other, column)))
        for one, other in combinations(_rows(analysis), 2)
        for column in (analysis.tasks[0].task.columns if analysis.rows_compete else ())
    ]
    return _table(
        "models-over-tasks", "Differences between models, averaged over tasks", ("models", "arm"), rows
    )


def order(analysis: Analysis) -> ReportTable:
    """Build the table of the rank correlation of models between two arms, averaged over tasks."""
    rows = []
    for a, b in _contrasts(analysis) if analysis.rows_compete else ():
        found = [
            spearman([means[row, a] for row in shared], [means[row, b] for row in shared])
            for means in _means(analysis)
            if len(shared := [r for r in _rows(analysis) if {(r, a), (r, b)} <= means.keys()]) > 2
        ]
        known = [each for each in found if each is not None]
        if len(known) >= MIN_TASKS:
            mean = estimate(known)
            low, high = (format.fixed(bound, 2) for bound in mean.bounds or (0.0, 0.0))
            rows.append((f"{b} and {a}", format.fixed(mean.mean, 2), f"[{low}, {high}]", str(len(known))))
    return ReportTable(
        "order-over-tasks",
        "Rank correlation of the models between two arms, averaged over tasks",
        ("arms", "rank correlation", "95 % interval", "tasks"),
        tuple(tuple(map(Entry, row)) for row in rows),
        "Spearman's within each task, of means over seeds; the t-interval is over tasks. Noise between seeds "
        "draws it towards 0.",
    )


def _mean(analysis: Analysis, a: RowColumn, b: RowColumn) -> tuple[Entry, ...]:
    """Return the mean of a minus b over tasks as entries; empty with too few tasks."""
    values = [means[a] - means[b] for means in _means(analysis) if {a, b} <= means.keys()]
    if len(values) < MIN_TASKS:
        return ()
    metric, mean = analysis.tasks[0].metric, estimate(values)
    return (
        Entry(format.signed(metric, mean.mean), key=mean.mean),
        Entry(format.interval(metric, mean.bounds)),
        Entry(f"{sum(value > 0 for value in values)} of {len(values)}"),
        Entry(format.probability(p)) if (p := sign_flip(values)) is not None else BLANK,
    )


def _table(
    name: str, title: str, headings: tuple[str, str], rows: list[tuple[str, str, tuple[Entry, ...]]]
) -> ReportTable:
    return ReportTable(
        name,
        title,
        (*headings, "mean", "95 % interval", "tasks ahead", "p"),
        tuple((Entry(first), Entry(second), *found) for first, second, found in rows if found),
        "Of the means over seeds, every task counting once; the t-interval and p, of the sign-flip test, are "
        "over tasks.",
        words=2,
    )


def _means(analysis: Analysis) -> list[Means]:
    """Return the mean scores of every task; none if tasks are too few, or their metrics differ."""
    if not analysis.averaged or len(analysis.tasks) < MIN_TASKS:
        return []
    return [{place: mean.mean for place, mean in task.means.items()} for task in analysis.tasks]


def _rows(analysis: Analysis) -> list[str]:
    return list(dict.fromkeys(row for task in analysis.tasks for row in task.task.rows))


def _contrasts(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    return analysis.tasks[0].task.contrasts if analysis.tasks else ()
