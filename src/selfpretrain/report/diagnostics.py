"""Tables behind the headline: ranks, training against test, every class, calibration, gaps of other arms."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from . import format
from .analysis import Analysis, Difference, RowColumn, Standing, TaskAnalysis, difference, score_of
from .integrity import Predictions
from .layout import Entry, ReportTable
from .stage_results import CellResult
from .statistics import Estimate, Ranks, calibration, estimate, rank, rank_correlation, ratio_bounds
from .tables import BLANK, by_task, repeated

FEWEST_TASKS = 3
"""Smallest number of tasks for ranking over tasks; with fewer, rows are ranked over seeds in each task."""
MOST_CLASSES = 20
"""Largest number of classes for which tables are built."""
POOLED = "Over the test split, all seeds together."
OUTCOMES = {
    (True, True): "fits better, is better on test",
    (True, False): "fits better, is worse on test",
    (False, True): "fits worse, generalises better",
    (False, False): "fits worse, is worse on test",
}
"""Meaning of a contrast by (positive on training data, positive on test data)."""
SEVERAL_ARMS = 3
"""Fewest further arms for which the table of gaps is built."""
SHOWN = {Standing.BETTER, Standing.AHEAD}
"""Standings of a headline difference that is a gap."""


def rankings(analysis: Analysis) -> dict[str, Ranks]:
    """Return average ranks in both headline columns, over tasks or over the seeds of each task, by title.

    Empty if rows are one model at several settings: these do not compete. Not over seeds that were added
    until a verdict was decided: the test counts one look only.
    """
    found: dict[str, Ranks | None] = {}
    if not analysis.tasks or not analysis.rows_compete:
        return {}
    if len(analysis.tasks) >= FEWEST_TASKS:
        for column in analysis.tasks[0].task.headline:
            found[f"{column}, over tasks"] = _rank_over_tasks(analysis, column)
    elif analysis.results.record.looks is None:
        for task in analysis.tasks:
            for column in task.task.headline:
                found[f"{task.label}: {column}, over seeds"] = _rank_over_seeds(task, column)
    return {title: ranks for title, ranks in found.items() if ranks is not None}


def _rank_over_tasks(analysis: Analysis, column: str) -> Ranks | None:
    means = [task.means for task in analysis.tasks]
    rows = [row for row in analysis.tasks[0].task.rows if all((row, column) in found for found in means)]
    return rank(rows, np.array([[found[row, column].mean for row in rows] for found in means]))


def _rank_over_seeds(task: TaskAnalysis, column: str) -> Ranks | None:
    cells = [task.task.at(row, column) for row in task.task.rows]
    seeds = [seed for seed in cells[0] if all(seed in found for found in cells)]
    scores = [[score_of(found[seed]) for found in cells] for seed in seeds]
    return rank(task.task.rows, np.array(scores).reshape(len(seeds), len(cells)))


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
    )


def fits(analysis: Analysis) -> ReportTable:
    """Build the table of training score, test score and their gap for every arm."""
    rows = [
        (Entry(task.label), *map(Entry, place), *_fit(task, list(cells.values())))
        for task in analysis.tasks
        for place in task.means
        if (cells := _with_training_score(task, place))
    ]
    headings = ("task", "model", "arm", "training", "test", "gap")
    caption = (
        "Mean ± half-width of the 95 % t-interval over seeds. Training scores are of the first 2,000 "
        "training examples at most, with the weights that are scored on test. Gap: training minus test."
    ) + repeated(analysis.results.record.looks)
    return by_task(analysis, ReportTable("fits", "Training and test", headings, tuple(rows), caption, 3))


def _fit(task: TaskAnalysis, cells: Sequence[CellResult]) -> list[Entry]:
    train = [cell.training_score or 0.0 for cell in cells]
    test = [score_of(cell) for cell in cells]
    gaps = [ours - theirs for ours, theirs in zip(train, test, strict=True)]
    found = [estimate(each, confidence=task.task.confidence) for each in (train, test, gaps)]
    return [Entry(format.spread(task.metric, each), key=each.mean) for each in found]


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
            contrast = f"{gain.a[1]} {format.MINUS} {gain.b[1]}"
            differences = [_difference(task, each) for each in found]
            rows.append(tuple(map(Entry, (task.label, gain.a[0], contrast, *differences, outcome))))
    headings = ("task", "model", "contrast", "training", "test", "so")
    title = "What a contrast does to fit and to generalisation"
    caption = (
        "Differences, paired by seed [95 % t-interval over seeds]; judged only where no interval holds zero."
    ) + repeated(analysis.results.record.looks)
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


def _difference(task: TaskAnalysis, found: Estimate) -> str:
    bounds = f" {format.interval(task.metric, found.bounds)}" if found.bounds else ""
    return f"{format.signed(task.metric, found.mean)}{bounds}"


def by_class(analysis: Analysis) -> ReportTable:
    """Build the table of recall, precision and F1 per class for each model's best arm; one task only."""
    rows = []
    for (row, column), counts in _confusions(analysis):
        right = counts.sum(1)
        given = counts.sum(0)
        hits = counts.diagonal()
        for at, hit in enumerate(hits):
            shares = ((hit, right[at]), (hit, given[at]), (2 * hit, right[at] + given[at]))
            entries = [_percent(part / whole if whole else math.nan) for part, whole in shares]
            rows.append((*map(Entry, (row, column, str(at), str(right[at]))), *entries))
    headings = ("model", "best arm", "class", "examples", "recall", "precision", "F1")
    caption = f"{POOLED} Classes are numbered as in the data."
    title = "Scores of every class in %"
    return ReportTable("classes", title, headings, tuple(rows), caption, 3, sortable=True)


def confusions(analysis: Analysis) -> list[ReportTable]:
    """Build the confusion matrix of each model's best arm, in % of the right class; one task only."""
    tables = []
    for number, ((row, column), counts) in enumerate(_confusions(analysis), 1):
        shares = 100 * counts / counts.sum(1, keepdims=True).clip(1)
        body = [(Entry(str(at)), *(Entry(f"{x:.0f}") for x in line)) for at, line in enumerate(shares)]
        title = f"What {row} ({column}) takes for what, in % of the right class"
        headings = ("right class", *(f"as {at}" for at in range(len(counts))))
        caption = f"{POOLED} Classes are numbered as in the data."
        tables.append(ReportTable(f"confusion-{number}", title, headings, tuple(body), caption))
    return tables


def _confusions(analysis: Analysis) -> list[tuple[RowColumn, NDArray[np.int64]]]:
    """Return the best arm of each model and its counts (target, prediction), summed over seeds.

    Without models for tasks without classes or with too many, and if no predictions were kept.
    """
    counts_of_best = []
    tasks = [task for task in analysis.tasks if task.task.record.task.kind == "classes"]
    for task in tasks if len(analysis.tasks) == 1 else []:
        best: dict[str, RowColumn] = {}
        for place, estimated in task.means.items():
            if place[0] not in best or estimated.mean > task.means[best[place[0]]].mean:
                best[place[0]] = place
        for place in best.values():
            kept = _predictions(task, place)
            if not kept:
                continue
            target = np.concatenate([each.target for each in kept])
            prediction = np.concatenate([each.prediction for each in kept])
            classes = 1 + int(max(target.max(), prediction.max()))
            if not 1 < classes <= MOST_CLASSES:
                continue
            counts = np.zeros((classes, classes), dtype=np.int64)
            np.add.at(counts, (target, prediction), 1)
            counts_of_best.append((place, counts))
    return counts_of_best


def _predictions(task: TaskAnalysis, place: RowColumn) -> list[Predictions]:
    """Return the test predictions that were kept, one per seed."""
    found = [cell.scored.predictions for cell in task.task.at(*place).values()]
    return [predictions for predictions in found if predictions is not None]


def reliability(analysis: Analysis) -> ReportTable:
    """Build the table of accuracy, confidence and calibration error per arm; one task only."""
    rows = []
    for task in analysis.tasks if len(analysis.tasks) == 1 else ():
        for place in task.means:
            kept = _predictions(task, place)
            confidences = [each.confidence / 255 for each in kept if each.confidence is not None]
            if len(confidences) < len(task.task.at(*place)):
                continue
            confidence = np.concatenate(confidences)
            correct = np.concatenate([each.prediction == each.target for each in kept])
            bins = calibration(confidence, correct)
            error = sum(share * abs(sure - right) for sure, right, share in bins)
            numbers = (float(correct.mean()), float(confidence.mean()), error)
            rows.append((*map(Entry, place), *map(_percent, numbers)))
    headings = ("model", "arm", "accuracy", "mean confidence", "calibration error")
    caption = (
        f"{POOLED} Confidence is the probability that a network gives to its answer; the error is its mean "
        "distance from accuracy, over 15 bins of confidence."
    )
    title = "How sure the arms are of their answers, in %"
    return ReportTable("reliability", title, headings, tuple(rows), caption, 2, sortable=True)


def _percent(value: float) -> Entry:
    return BLANK if math.isnan(value) else Entry(f"{100 * value:.1f}", key=value)


def gaps(analysis: Analysis) -> ReportTable:
    """Build the table of the share of the gap that every further arm closes, with the compute of each."""
    rows = [
        (Entry(task.label), Entry(row), *line)
        for task in analysis.tasks
        if len(further_arms(task)) >= SEVERAL_ARMS
        for row in task.task.rows
        for line in _arms_of_row(task, row)
    ]
    headings = ("task", "model", "arm", "score", "of the gap", "95 % interval", "compute")
    caption = (
        f"Of the gap: (arm {format.MINUS} control) / (treatment {format.MINUS} control), of the means over "
        "the seeds that all three have; 0 % is the control, 100 % the treatment. Its interval is Fieller's, "
        "over seeds; without one the gap is not clear, and nothing can be said of its parts. Compute: FLOPs "
        "of one run relative to the treatment."
    )
    title = "How much of the gap other arms close"
    return by_task(analysis, ReportTable("gaps", title, headings, tuple(rows), caption, words=3))


def further_arms(task: TaskAnalysis) -> list[str]:
    """Return the columns that are compared with both columns of the headline."""
    headline = set(task.task.headline)
    compared: dict[str, set[str]] = {}
    for ours, theirs in task.task.record.contrasts:
        compared.setdefault(ours, set()).add(theirs)
    return [column for column in task.task.columns if compared.get(column, set()) >= headline]


def share_of_gap(task: TaskAnalysis, row: str, column: str) -> tuple[float, tuple[float, float]] | None:
    """Return the share of a row's gap that an arm closes, with its interval; None without a clear gap."""
    treatment, control = task.task.headline
    gap = difference(task.task, (row, treatment), (row, control))
    closed = difference(task.task, (row, column), (row, control))
    if gap.standing not in SHOWN or closed.estimate is None:
        return None
    wholes = dict(zip(gap.seeds, gap.values, strict=True))
    parts = dict(zip(closed.seeds, closed.values, strict=True))
    seeds = [seed for seed in parts if seed in wholes]
    bounds = ratio_bounds([parts[seed] for seed in seeds], [wholes[seed] for seed in seeds])
    if bounds is None:
        return None
    return sum(parts[seed] for seed in seeds) / sum(wholes[seed] for seed in seeds), bounds


def order(analysis: Analysis) -> ReportTable:
    """Build the table of the rank correlation between control and treatment over the models of every task."""
    rows = []
    for task in analysis.tasks if analysis.rows_compete else ():
        treatment, control = task.task.headline
        both = [row for row in task.task.rows if {(row, treatment), (row, control)} <= task.means.keys()]
        means = [[task.means[row, column].mean for row in both] for column in (control, treatment)]
        found = rank_correlation(*means)
        if found is not None:
            r, (low, high) = found
            texts = (task.label, str(len(both)), _decimal(r), f"[{_decimal(low)}, {_decimal(high)}]")
            rows.append(tuple(map(Entry, texts)))
    if not rows:
        return ReportTable("order", "", (), ())
    treatment, control = analysis.tasks[0].task.headline
    return by_task(
        analysis,
        ReportTable(
            "order",
            f"Does the order of the models in {control} predict that in {treatment}?",
            ("task", "models", "rank correlation", "95 % interval"),
            tuple(rows),
            f"Spearman's, of the means over seeds; 1: the same order, 0: none of it, {format.MINUS}1: the "
            "reverse. The interval is over models (Bonett & Wright 2000), as if they were drawn from many; "
            "noise between seeds draws the correlation towards 0.",
        ),
    )


def _arms_of_row(task: TaskAnalysis, row: str) -> Iterator[tuple[Entry, ...]]:
    """Yield arm, score, share of the gap, interval and relative compute of every further arm of a row."""
    treatment, _ = task.task.headline
    whole = _flops(task, row, treatment)
    for column in further_arms(task):
        cells = task.task.at(row, column)
        if not cells:
            continue
        mean = task.means[row, column]
        found = share_of_gap(task, row, column)
        share = Entry(_rounded_percent(found[0]), key=found[0]) if found else BLANK
        bounds = (
            Entry(f"[{_rounded_percent(found[1][0])}, {_rounded_percent(found[1][1])}]") if found else BLANK
        )
        compute = Entry(f"{_flops(task, row, column) / whole:.2f}") if whole else BLANK
        yield Entry(column), Entry(format.spread(task.metric, mean), key=mean.mean), share, bounds, compute


def _flops(task: TaskAnalysis, row: str, column: str) -> float:
    cells = task.task.at(row, column).values()
    return sum(cell.flops for cell in cells) / len(cells) if cells else 0.0


def _rounded_percent(share: float) -> str:
    return f"{round(100 * share)} %".replace("-", format.MINUS)  # an integer: no "-0"


def _decimal(value: float) -> str:
    return f"{value:.2f}".replace("-", format.MINUS)
