"""Compare training with test scores: does an arm fit its training data better, or generalise better?"""

from collections.abc import Sequence

from . import format
from .analysis import Analysis, Difference, TaskAnalysis, score_of
from .layout import Entry, ReportTable
from .stage_results import CellResult
from .statistics import Estimate, estimate
from .tables import BLANK, by_task

CAPTION = (
    "Mean ± half-width of the 95 % t-interval over seeds. Training scores are of the first 2,000 training "
    "examples at most, with the weights that are scored on test. Gap: training minus test."
)
SAYS = {
    (True, True): "fits better, is better on test",
    (True, False): "fits better, is worse on test",
    (False, True): "fits worse, generalises better",
    (False, False): "fits worse, is worse on test",
}
"""Meaning of a contrast by (positive on training data, positive on test data)."""


def fits(analysis: Analysis) -> ReportTable:
    """Build the table of training score, test score and their gap for every arm."""
    rows = [
        (Entry(task.label), Entry(row), Entry(column), *_arm(task, list(cells.values())))
        for task in analysis.tasks
        for row in task.task.rows
        for column in task.task.columns
        if (cells := _trained(task.task.at(row, column)))
    ]
    headings = ("task", "model", "arm", "training", "test", "gap")
    return by_task(analysis, ReportTable("fits", "Training beside test", headings, tuple(rows), CAPTION, 3))


def contrasts(analysis: Analysis) -> ReportTable:
    """Build the table of every contrast on training data and on test data."""
    rows = [row for task in analysis.tasks for gain in task.gains if (row := _contrast(task, gain))]
    headings = ("task", "model", "contrast", "training", "test", "so")
    caption = (
        "Differences, paired by seed [95 % t-interval over seeds]; said only where no interval holds zero."
    )
    title = "What a contrast does to fit and to generalisation"
    return by_task(analysis, ReportTable("fit-contrasts", title, headings, tuple(rows), caption, 3))


def training_score(cell: CellResult) -> float | None:
    """Return the score on training data; None if it was not kept."""
    return cell.scored.scores.get("train", {}).get("score")


def paired(task: TaskAnalysis, gain: Difference) -> tuple[Estimate, Estimate] | None:
    """Estimate a contrast on training data and on test data over the same seeds; None if there is no pair."""
    ours, theirs = _trained(task.task.at(*gain.a)), _trained(task.task.at(*gain.b))
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        return None
    train = [(training_score(ours[s]) or 0.0) - (training_score(theirs[s]) or 0.0) for s in seeds]
    return estimate(train), estimate([score_of(ours[s]) - score_of(theirs[s]) for s in seeds])


def _trained(cells: dict[int, CellResult]) -> dict[int, CellResult]:
    return {seed: cell for seed, cell in cells.items() if training_score(cell) is not None}


def _arm(task: TaskAnalysis, cells: Sequence[CellResult]) -> tuple[Entry, ...]:
    train, test = [training_score(cell) or 0.0 for cell in cells], [score_of(cell) for cell in cells]
    gaps = [ours - theirs for ours, theirs in zip(train, test, strict=True)]
    found = map(estimate, (train, test, gaps))
    return tuple(Entry(format.spread(task.metric, it), key=it.mean) for it in found)


def _contrast(task: TaskAnalysis, gain: Difference) -> tuple[Entry, ...] | None:
    found = paired(task, gain)
    if found is None:
        return None
    shown = (Entry(f"{format.signed(task.metric, it.mean)} {_bounds(task, it)}".strip()) for it in found)
    certain = all(it.bounds and it.bounds[0] * it.bounds[1] > 0 for it in found)
    said = Entry(SAYS[found[0].mean > 0, found[1].mean > 0]) if certain else BLANK
    return Entry(task.label), Entry(gain.a[0]), Entry(f"{gain.a[1]} {format.MINUS} {gain.b[1]}"), *shown, said


def _bounds(task: TaskAnalysis, found: Estimate) -> str:
    return format.interval(task.metric, found.bounds) if found.bounds else ""
