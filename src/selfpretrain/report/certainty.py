"""How sure an experiment is: resampled intervals, probable improvements, ranks, and the seeds it takes."""

from collections.abc import Callable

import numpy as np

from . import format, statistics
from .analysis import Analysis, Difference, RowColumn, TaskAnalysis, score_of
from .figures.charts import SEPARATOR
from .layout import Entry, ReportTable
from .statistics import Ranks, rank
from .tables import BLANK, by_task

FEWEST_RUNS = 3
"""Of each arm: with fewer, the probability of an improvement says nothing."""
FEWEST_TASKS = 3
"""From which rows are ranked over tasks; with fewer, over the seeds of every task."""


def certainty(analysis: Analysis) -> ReportTable:
    """A bootstrap beside Student's t, and how probable an improvement is from run to run."""
    known = _headline(analysis, FEWEST_RUNS)
    rows = [
        (Entry(task.label), Entry(gain.a[0]), *_resampled(task, gain), _improvement([(task, gain)]))
        for task, gain in known
    ]
    for model in dict.fromkeys(gain.a[0] for _, gain in known):
        same = [(task, gain) for task, gain in known if gain.a[0] == model]
        if len(same) == len(analysis.tasks) > 1:
            rows.append((Entry("all tasks"), Entry(model), BLANK, BLANK, _improvement(same)))
    return by_task(
        analysis,
        ReportTable(
            "certainty",
            f"Student's t, the bootstrap, and the probability of an improvement: {_compared(analysis)}",
            ("task", "model", "Student's t", "bootstrap", "P(improvement)"),
            tuple(rows),
            "95 % intervals of the difference over seeds. The percentile bootstrap over 3 seeds covers 70 %, "
            "not 95 %, over 10 about 91 %: believe Student's t. P(improvement): how often a run of the first "
            "arm beats a run of the second, over all pairs of runs, a tie counting half, averaged over tasks "
            "(Agarwal et al. 2021); its interval is a bootstrap too, "
            "and there is none where one arm wins every pair. "
            f"Models with fewer than {FEWEST_RUNS} seeds are left out.",
            words=2,
        ),
    )


def needed(analysis: Analysis) -> ReportTable:
    """How many seeds it takes to claim the headline differences."""
    known = _headline(analysis, 2)
    one, every = statistics.fewest(), statistics.fewest(max(len(known), 1))
    corrected = f", and {every} if it is the best of {len(known)} corrected by Holm" if len(known) > 1 else ""
    return by_task(
        analysis,
        ReportTable(
            "needed",
            f"How many seeds it takes: {_compared(analysis)}",
            ("task", "model", "seeds", "spread", "difference", "seeds to find it", "to find a tie's width"),
            tuple((Entry(task.label), Entry(gain.a[0]), *_needed(task, gain)) for task, gain in known),
            "With so many seeds, a paired t-test at 5 % finds the difference 80 % of the time, if the spread "
            "(standard deviation between seeds) is the one seen. The difference seen here may be luck, so "
            f"the smallest that is no tie stands beside it. A sign-flip test needs {one} seeds for p < 0.05"
            f"{corrected}. More seeds do not lessen the uncertainty of the test examples.",
            words=2,
        ),
    )


def rankings(analysis: Analysis) -> dict[str, Ranks]:
    """Average ranks of the rows in both columns of the headline, over tasks, or over the seeds of each task.

    Rows that are one model at several settings, ``GROUP · PLACE``, do not compete and are not ranked.
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
    """Whether rows are models at several settings, ``GROUP · PLACE``."""
    return any(SEPARATOR in row for task in analysis.tasks for row in task.task.rows)


def ranks(found: dict[str, Ranks]) -> ReportTable:
    """Average ranks with the tests of Friedman and Nemenyi."""
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


def _headline(analysis: Analysis, seeds: int) -> list[tuple[TaskAnalysis, Difference]]:
    """The headline difference of every row with so many seeds in both arms."""
    known = [(task, gain) for task in analysis.tasks for gain in task.headline]
    return [(task, gain) for task, gain in known if len(gain.seeds) >= seeds]


def _compared(analysis: Analysis) -> str:
    heads = dict.fromkeys(task.task.headline for task in analysis.tasks)
    return " or ".join(f"{treatment} {format.MINUS} {control}" for treatment, control in heads)


def _resampled(task: TaskAnalysis, gain: Difference) -> tuple[Entry, Entry]:
    metric, found = task.metric, statistics.estimate(gain.values)
    bounds = found.seed_bounds, statistics.bootstrap_bounds(gain.values)
    return Entry(format.interval(metric, bounds[0])), Entry(format.interval(metric, bounds[1]))


def _improvement(found: list[tuple[TaskAnalysis, Difference]]) -> Entry:
    tasks = [(_runs(task, gain.a), _runs(task, gain.b)) for task, gain in found]
    mean = float(np.mean([statistics.improvement(ours, theirs) for ours, theirs in tasks]))
    low, high = statistics.improvement_bounds(tasks)
    if low == high:
        return Entry(f"{mean:.2f}, no interval", key=mean)
    return Entry(f"{mean:.2f} [{low:.2f}, {high:.2f}]", key=mean)


def _runs(task: TaskAnalysis, place: RowColumn) -> list[float]:
    return [score_of(cell) for cell in task.task.at(*place).values()]


def _needed(task: TaskAnalysis, gain: Difference) -> tuple[Entry, ...]:
    metric, spread = task.metric, float(np.std(gain.values, ddof=1))
    mean = float(np.mean(gain.values))
    goals = [statistics.seeds_needed(goal, spread) for goal in (mean, metric.tie)]
    sizes = Entry(format.score(metric, spread)), Entry(format.signed(metric, mean), key=mean)
    return (Entry(str(len(gain.seeds))), *sizes, *map(_seeds, goals))


def _seeds(n: int | None) -> Entry:
    return Entry(f"> {statistics.MOST_SEEDS}") if n is None else Entry(str(n), key=float(n))


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
