"""Averages over tasks, every task counting once; the intervals are over tasks."""

from itertools import combinations

import numpy as np

from . import format
from .analysis import Analysis, Difference, RowColumn, Standing, judge
from .layout import Entry, ReportTable
from .statistics import NO_SPREAD, estimate, spearman
from .tables import BLANK, interval, places, title_of_scores

MIN_TASKS = 6  # smallest number of tasks for an interval over tasks
OVER_TASKS = (
    "Every task counts once, by the mean of its differences, which are paired by seed; the t-interval and p, "
    "of the sign-flip test, are over tasks."
)


def scores(analysis: Analysis) -> ReportTable:
    """Build the table of mean scores over the tasks where no score is missing."""
    planned = set(places(analysis))
    tasks = [means for means in _means(analysis) if means.keys() >= planned]
    columns = analysis.tasks[0].task.columns
    means = {place: sum(of[place] for of in tasks) / len(tasks) for place in planned if tasks}
    metric = analysis.tasks[0].metric
    shown = {place: Entry(format.score(metric, mean), key=mean) for place, mean in means.items()}
    found = _rows(analysis) if shown else ()
    rows = [(Entry(row), *(shown.get((row, column), BLANK) for column in columns)) for row in found]
    title = f"{title_of_scores(analysis)}, averaged over {format.plural(len(tasks), 'task')}"
    without = len(analysis.tasks) - len(tasks)
    caption = "Of the means over seeds, every task counting once."
    caption += f" Left out: {format.plural(without, 'task')} where a score is missing." if without else ""
    return ReportTable("scores-over-tasks", title, ("model", *columns), tuple(rows), caption)


def difference(analysis: Analysis, a: RowColumn, b: RowColumn) -> Difference:
    """Return scores at ``a`` minus those at ``b``, a value per task; not measured if few tasks have both.

    A task's value is the mean over the seeds that both have: means of different seeds differ by chance.
    """
    values = {}
    for at, scores in enumerate(analysis.scores if _enough(analysis) else ()):
        if seeds := [seed for seed in scores.get(a, ()) if seed in scores.get(b, ())]:
            ours, theirs = (float(np.mean([scores[place][seed] for seed in seeds])) for place in (a, b))
            values[at] = ours - theirs
    if len(values) < MIN_TASKS:
        return Difference(a, b, (), (), None, Standing.NOTHING)
    mean = estimate(tuple(values.values()))
    standing = judge(mean, analysis.tasks[0].metric.tie)
    return Difference(a, b, tuple(values), tuple(values.values()), mean, standing)


def gains(analysis: Analysis) -> tuple[Difference, ...]:
    """Return every contrast of every model, averaged over tasks; contrast by contrast, every row in each."""
    rows = _rows(analysis)
    contrasts = analysis.tasks[0].task.contrasts
    return tuple(difference(analysis, (row, a), (row, b)) for a, b in contrasts for row in rows)


def gains_table(analysis: Analysis) -> ReportTable:
    """Build the table of every contrast of every model, averaged over tasks."""
    by_model = sorted(gains(analysis), key=lambda gain: _rows(analysis).index(gain.a[0]))
    rows = [(gain.a[0], f"{gain.a[1]} over {gain.b[1]}", gain) for gain in by_model]
    return _table(analysis, "gains-over-tasks", "Gains averaged over tasks", ("model", "gain"), rows)


def models(analysis: Analysis) -> ReportTable:
    """Build the table of the difference between two models in every arm, averaged over tasks."""
    columns = analysis.tasks[0].task.columns if analysis.rows_compete else ()
    found = [
        (f"{one} over {other}", column, difference(analysis, (one, column), (other, column)))
        for one, other in combinations(_rows(analysis), 2)
        for column in columns
    ]
    title = "Differences between models, averaged over tasks"
    return _table(analysis, "models-over-tasks", title, ("models", "arm"), found)


def order(analysis: Analysis) -> ReportTable:
    """Build the table of the rank correlation of models between two arms, averaged over tasks."""
    rows = []
    for a, b in analysis.tasks[0].task.contrasts if analysis.rows_compete else ():
        found = [
            spearman([means[row, a] for row in shared], [means[row, b] for row in shared])
            for means in _means(analysis)
            if len(shared := [r for r in _rows(analysis) if {(r, a), (r, b)} <= means.keys()]) > 2
        ]
        known = [each for each in found if each is not None]
        if len(known) >= MIN_TASKS:
            mean = estimate(known)
            low, high = (format.fixed(bound, 2) for bound in np.clip(mean.bounds or (0.0, 0.0), -1, 1))
            rows.append((f"{b} and {a}", format.fixed(mean.mean, 2), f"[{low}, {high}]", str(len(known))))
    return ReportTable(
        "order-over-tasks",
        "Rank correlation of the models between two arms, averaged over tasks",
        ("arms", "rank correlation", "95 % interval", "tasks"),
        tuple(tuple(map(Entry, row)) for row in rows),
        "Spearman's within each task, of means over seeds; the t-interval is over tasks. Noise between seeds "
        "draws it towards 0.",
    )


def headline(analysis: Analysis) -> str:
    """Return for which models the averaged headline gain excludes zero; "" if few tasks are finished."""
    sides: dict[str, list[str]] = {"ahead of": [], "behind": [], "": []}
    found = [gain for gain in _headline(analysis) if gain.estimate is not None]
    for gain in found:
        low, high = _sound_bounds(analysis, gain)
        sides["ahead of" if low > 0 else "behind" if high < 0 else ""].append(gain.a[0])
    treatment, control = analysis.tasks[0].task.headline
    said = [f"{side} {control} with {format.listing(rows)}" for side, rows in sides.items() if side and rows]
    if not said:
        return "These runs cannot decide which arm is ahead on average over tasks." * bool(found)
    rest = f"; with {format.listing(sides[''])} these runs cannot decide" * bool(sides[""])
    return f"On average over tasks {treatment} is {', '.join(said)}{rest}."


def in_words(analysis: Analysis) -> str:
    """Return the averaged headline gains with their intervals, by model; "" if few tasks are finished."""
    metric = analysis.tasks[0].metric
    said = [
        f"{format.signed(metric, gain.estimate.mean)} {format.interval(metric, gain.estimate.bounds)} "
        f"({gain.a[0]}, ahead on {sum(value > NO_SPREAD for value in gain.values)} of {len(gain.values)}"
        f"{_diverged(analysis, gain)})"
        for gain in _headline(analysis)
        if gain.estimate is not None
    ]
    unit = format.points(metric).strip() or "score"
    both = " against ".join(analysis.tasks[0].task.headline)
    return f"Averaged over tasks, with intervals over tasks: {both}, in {unit}: {', '.join(said)}." * bool(
        said
    )


def _lost(analysis: Analysis, gain: Difference) -> set[int]:
    """Return the tasks on which training diverged in a seed that both arms of a difference have."""
    return {
        at
        for at, scores in enumerate(analysis.scores)
        if {*analysis.tasks[at].task.diverged(gain.a), *analysis.tasks[at].task.diverged(gain.b)}
        & scores.get(gain.a, {}).keys()
        & scores.get(gain.b, {}).keys()
    }


def _diverged(analysis: Analysis, gain: Difference) -> str:
    """Return on how many tasks training diverged in an arm of a difference; "" if it did nowhere."""
    lost = len(_lost(analysis, gain))
    return f", training diverged on {lost}" if lost else ""


def _sound_bounds(analysis: Analysis, gain: Difference) -> tuple[float, float]:
    """Return the interval of a difference over the tasks on which no training diverged; (0, 0) if few."""
    lost = _lost(analysis, gain)
    values = [value for at, value in zip(gain.seeds, gain.values, strict=True) if at not in lost]
    return (estimate(values).bounds if len(values) >= MIN_TASKS else None) or (0.0, 0.0)


def _headline(analysis: Analysis) -> tuple[Difference, ...]:
    return gains(analysis)[: len(_rows(analysis))]


def _table(
    analysis: Analysis,
    name: str,
    title: str,
    words: tuple[str, str],
    found: list[tuple[str, str, Difference]],
) -> ReportTable:
    """Build a table of differences that are averaged over tasks."""
    metric = analysis.tasks[0].metric
    rows = []
    for first, second, each in found:
        if each.estimate is None:
            continue
        mean = each.estimate.mean
        better = sum(value > NO_SPREAD for value in each.values)
        size = Entry(format.signed(metric, mean), key=mean)
        ahead = Entry(f"{better} of {len(each.values)}", key=float(better))
        p = Entry(format.probability(each.p), key=each.p)
        rows.append((Entry(first), Entry(second), size, interval(metric, each.estimate.bounds), ahead, p))
    headings = (*words, "mean", "95 % interval", "ahead on", "p")
    return ReportTable(name, title, headings, tuple(rows), OVER_TASKS, words=2)


def _means(analysis: Analysis) -> list[dict[RowColumn, float]]:
    """Return the mean scores of every task; none if they cannot be averaged."""
    tasks = analysis.tasks if _enough(analysis) else ()
    return [{place: found.mean for place, found in task.means.items()} for task in tasks]


def _enough(analysis: Analysis) -> bool:
    """Return whether tasks are enough to average, and of the same metric."""
    return analysis.averaged and len(analysis.tasks) >= MIN_TASKS


def _rows(analysis: Analysis) -> list[str]:
    return list(dict.fromkeys(row for task in analysis.tasks for row in task.task.rows))
