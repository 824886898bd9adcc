"""Tables behind the headline: ranks, gaps that other arms close, training against test, errors by class."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import format
from .analysis import Analysis, Difference, RowColumn, Standing, TaskAnalysis, difference, score_of
from .layout import Entry, ReportTable
from .results import CellResult
from .statistics import Estimate, Ranks, estimate, rank, rank_correlation, ratio_bounds
from .tables import BLANK, by_task, repeated

MIN_TASKS = 3
"""Smallest number of tasks for ranking over tasks; with fewer, rows are ranked over seeds in each task."""
MAX_CLASSES = 20  # largest number of classes for which the table of classes is built
OUTCOMES = {
    (True, True): "fits better, is better on test",
    (True, False): "fits better, is worse on test",
    (False, True): "fits worse, generalises better",
    (False, False): "fits worse, is worse on test",
}
"""Meaning of a contrast by (positive on training data, positive on test data)."""
SEVERAL_ARMS = 3  # minimum number of further arms for which the table of gaps is built


def rankings(analysis: Analysis) -> dict[str, Ranks]:
    """Return average ranks in both headline columns, over tasks or over the seeds of each task, by title.

    Of many tasks in every column.

    Empty if rows are one model at several settings: these do not compete. Not over seeds that were added
    until a verdict was decided: the test counts one analysis only.
    """
    found: dict[str, Ranks | None] = {}
    if not analysis.tasks or not analysis.rows_compete:
        return {}
    first = analysis.tasks[0].task
    if len(analysis.tasks) >= MIN_TASKS:
        for column in first.columns if analysis.many else first.headline:
            means = [task.means for task in analysis.tasks]
            rows = [row for row in first.rows if all((row, column) in each for each in means)]
            scores = np.array([[each[row, column].mean for row in rows] for each in means])
            found[f"{column}, over tasks"] = rank(rows, scores)
    elif analysis.results.design is None:
        for task in (each.task for each in analysis.tasks):
            for column in task.headline:
                rows = [row for row in task.rows if (row, column) in task.places]
                cells = [task.at(row, column) for row in rows]
                seeds = [seed for seed in next(iter(cells), ()) if all(seed in each for each in cells)]
                scores = np.array([[score_of(each[seed]) for each in cells] for seed in seeds])
                ranks = rank(rows, scores.reshape(len(seeds), len(cells)))
                found[f"{task.label}: {column}, over seeds"] = ranks
    return {title: ranks for title, ranks in found.items() if ranks is not None}


def ranks(found: dict[str, Ranks]) -> ReportTable:
    """Build the table of average ranks with the tests of Friedman and Nemenyi."""
    averages = [dict(each.sorted) for each in found.values()]
    rows = [
        (Entry(row), *(Entry(f"{of[row]:.2f}", key=of[row]) if row in of else BLANK for of in averages))
        for row in dict.fromkeys(row for each in found.values() for row in each.rows)
    ]
    if found:
        rows += [
            (Entry("tasks or seeds"), *(Entry(str(each.blocks)) for each in found.values())),
            (Entry("Friedman p"), *(Entry(format.probability(each.p)) for each in found.values())),
            (Entry("critical difference"), *(Entry(f"{each.critical:.2f}") for each in found.values())),
        ]
    return ReportTable(
        "ranks",
        "Average ranks",
        ("model", *found),
        tuple(rows),
        "1 is the best. Friedman: whether all models are alike. Two models differ at 5 % if their ranks are "
        "further apart than the critical difference (Nemenyi; Demšar 2006). Over seeds, this holds for that "
        "task alone. A verdict on two models depends on which others are compared.",
        footer=3 if found else 0,
    )


def order(analysis: Analysis) -> ReportTable:
    """Build the table of the rank correlation between control and treatment over the models of every task."""
    rows = []
    for task in analysis.tasks if analysis.rows_compete else ():
        treatment, control = task.task.headline
        both = [row for row in task.task.rows if {(row, treatment), (row, control)} <= task.means.keys()]
        sides = ([task.means[row, column].mean for row in both] for column in (control, treatment))
        found = rank_correlation(*sides)
        if found is not None:
            r, bounds = found
            holds = f"[{', '.join(format.fixed(value, 2) for value in bounds)}]" if bounds else format.NONE
            numbers = (Entry(format.fixed(r, 2), key=r), Entry(holds, key=bounds and bounds[0]))
            rows.append((Entry(task.label), Entry(str(len(both))), *numbers))
    treatment, control = analysis.results.tasks[0].headline
    made = ReportTable(
        "order",
        f"Does the order of the models in {control} predict that in {treatment}?",
        ("task", "models", "rank correlation", "95 % interval"),
        tuple(rows),
        f"Spearman's, of the means over seeds; 1: the same order, 0: none of it, {format.MINUS}1: the "
        "reverse. The interval is over models (Bonett & Wright 2000), as if they were drawn from many; "
        "noise between seeds draws the correlation towards 0.",
    )
    return by_task(analysis, made)


def gaps(analysis: Analysis) -> ReportTable:
    """Build the table of the share of the gap that every further arm closes, with the compute of each."""
    rows = []
    for task in analysis.tasks:
        further = further_arms(task)
        for row in task.task.rows if len(further) >= SEVERAL_ARMS else ():
            whole = _flops(task, row, task.task.headline[0])
            for column in further:
                if not task.task.at(row, column):
                    continue
                mean = task.means[row, column]
                share = bounds = BLANK
                if found := share_of_gap(task, row, column):
                    texts = [f"{format.fixed(100 * x, 0)} %" for x in (found[0], *found[1])]
                    share = Entry(texts[0], key=found[0])
                    bounds = Entry(f"[{texts[1]}, {texts[2]}]", key=found[1][0])
                score = Entry(format.spread(task.metric, mean), key=mean.mean)
                compute = Entry(f"{_flops(task, row, column) / whole:.2f}") if whole else BLANK
                rows.append((*map(Entry, (task.label, row, column)), score, share, bounds, compute))
    headings = ("task", "model", "arm", "score", "of the gap", "95 % interval", "compute")
    caption = (
        f"Share of the gap: (arm {format.MINUS} control) / (treatment {format.MINUS} control), of the means "
        "over the seeds that all three have; 0 % is the control, 100 % the treatment. Its interval is "
        "Fieller's, over seeds; without one the gap is not clear, and nothing can be said of its parts. "
        "Compute: FLOPs of one run relative to the treatment."
    )
    title = "How much of the gap other arms close"
    return by_task(analysis, ReportTable("gaps", title, headings, tuple(rows), caption, words=3))


def further_arms(task: TaskAnalysis) -> list[str]:
    """Return the columns that are compared with both columns of the headline."""
    compared: dict[str, set[str]] = {}
    for ours, theirs in task.task.contrasts:
        compared.setdefault(ours, set()).add(theirs)
    headline = set(task.task.headline)
    return [column for column in task.task.columns if compared.get(column, set()) >= headline]


def share_of_gap(task: TaskAnalysis, row: str, column: str) -> tuple[float, tuple[float, float]] | None:
    """Return the share of a row's gap that an arm closes, with its interval; None without a clear gap."""
    treatment, control = task.task.headline
    gap = difference(task.task, (row, treatment), (row, control))
    closed = difference(task.task, (row, column), (row, control))
    if gap.standing not in (Standing.BETTER, Standing.AHEAD):
        return None
    wholes = dict(zip(gap.seeds, gap.values, strict=True))
    parts = dict(zip(closed.seeds, closed.values, strict=True))
    seeds = [seed for seed in parts if seed in wholes]
    both = [parts[seed] for seed in seeds], [wholes[seed] for seed in seeds]
    bounds = ratio_bounds(*both, task.task.confidence)
    if bounds is None:
        return None
    return sum(parts[seed] for seed in seeds) / sum(wholes[seed] for seed in seeds), bounds


def _flops(task: TaskAnalysis, row: str, column: str) -> float:
    cells = task.task.at(row, column).values()
    return sum(cell.flops for cell in cells) / len(cells) if cells else 0.0


def fits(analysis: Analysis) -> ReportTable:
    """Build the table of training score, test score and their gap for every arm."""
    rows = []
    for task in analysis.tasks:
        for place in task.means:
            cells = _with_training_score(task, place).values()
            if not cells:
                continue
            train = [cell.training_score or 0.0 for cell in cells]
            test = [score_of(cell) for cell in cells]
            gaps = [ours - theirs for ours, theirs in zip(train, test, strict=True)]
            found = [estimate(each, confidence=task.task.confidence) for each in (train, test, gaps)]
            spreads = [Entry(format.spread(task.metric, each), key=each.mean) for each in found]
            rows.append((*map(Entry, (task.label, *place)), *spreads))
    headings = ("task", "model", "arm", "training", "test", "gap")
    caption = (
        "Mean ± half-width of the 95 % t-interval over seeds. Training scores are of the first 2,000 "
        "training examples at most, with the weights that are scored on test. Gap: training minus test."
    ) + repeated(analysis.results.design)
    return by_task(analysis, ReportTable("fits", "Training and test", headings, tuple(rows), caption, 3))


def fit_contrasts(analysis: Analysis) -> ReportTable:
    """Build the table of every contrast on training data and on test data."""
    rows = []
    for task in analysis.tasks:
        for gain in task.gains:
            found = train_and_test(task, gain)
            if found is None:
                continue
            clear = all(each.bounds and each.bounds[0] * each.bounds[1] > 0 for each in found)
            outcome = OUTCOMES[found[0].mean > 0, found[1].mean > 0] if clear else format.NONE
            differences = [
                Entry(
                    format.signed(task.metric, each.mean)
                    + (f" {format.interval(task.metric, each.bounds)}" if each.bounds else ""),
                    key=each.mean,
                )
                for each in found
            ]
            contrast = f"{gain.a[1]} {format.MINUS} {gain.b[1]}"
            words = map(Entry, (task.label, gain.a[0], contrast))
            rows.append((*words, *differences, Entry(outcome)))
    headings = ("task", "model", "contrast", "training", "test", "so")
    title = "What a contrast does to fit and to generalisation"
    caption = (
        "Differences, paired by seed [95 % t-interval over seeds]; judged only where no interval holds zero."
    ) + repeated(analysis.results.design)
    return by_task(analysis, ReportTable("fit-contrasts", title, headings, tuple(rows), caption, 3))


def train_and_test(task: TaskAnalysis, gain: Difference) -> tuple[Estimate, Estimate] | None:
    """Estimate a contrast on training data and on test data over the same seeds; None if there is no pair."""
    ours = _with_training_score(task, gain.a)
    theirs = _with_training_score(task, gain.b)
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        return None
    train = [(ours[seed].training_score or 0.0) - (theirs[seed].training_score or 0.0) for seed in seeds]
    test = [score_of(ours[seed]) - score_of(theirs[seed]) for seed in seeds]
    confidence = task.task.confidence
    return estimate(train, confidence=confidence), estimate(test, confidence=confidence)


def _with_training_score(task: TaskAnalysis, place: RowColumn) -> dict[int, CellResult]:
    cells = task.task.at(*place)
    return {seed: cell for seed, cell in cells.items() if cell.training_score is not None}


def classes(analysis: Analysis) -> ReportTable:
    """Build the table of recall, precision and the commonest error per class, for each model's best arm.

    Empty for several tasks, for tasks without classes or with too many, and if no predictions were kept.
    """
    rows = []
    alone = len(analysis.tasks) == 1 and analysis.results.tasks[0].card.kind == "classes"
    for row in analysis.results.tasks[0].rows if alone else ():
        (task,) = analysis.tasks
        means = {place: found.mean for place, found in task.means.items() if place[0] == row}
        place = max(means, key=means.__getitem__, default=("", ""))
        counts = _confusion(list(task.task.at(*place).values()))
        for right, line in enumerate(counts):
            wholes = (line.sum(), counts[:, right].sum())  # for recall and precision
            shares = [counts[right, right] / whole if whole else None for whole in wholes]
            errors = np.where(np.arange(len(line)) == right, 0, line)
            taken = f"{errors.argmax()} ({100 * errors.max() / line.sum():.0f} %)" if errors.any() else ""
            numbers = [BLANK if x is None else Entry(f"{100 * x:.1f}", key=x) for x in shares]
            words = (*place, str(right), str(line.sum()))
            rows.append((*map(Entry, words), *numbers, Entry(taken or format.NONE)))
    headings = ("model", "best arm", "class", "examples", "recall", "precision", "most often taken for")
    caption = "Over the test split, all seeds together. Classes are numbered as in the data."
    return ReportTable("classes", "Errors by class, in %", headings, tuple(rows), caption, words=3)


def _confusion(cells: Sequence[CellResult]) -> NDArray[np.int64]:
    """Return counts (target, prediction), summed over seeds; (0, 0) if they were not kept or are too many."""
    found = [cell.scored.predictions for cell in cells]
    kept = [predictions for predictions in found if predictions is not None]
    size = 1 + max((int(max(each.target.max(), each.prediction.max())) for each in kept), default=-1)
    if not 1 < size <= MAX_CLASSES:
        return np.zeros((0, 0), dtype=np.int64)
    counts = np.zeros((size, size), dtype=np.int64)
    for each in kept:
        np.add.at(counts, (each.target, each.prediction), 1)
    return counts
