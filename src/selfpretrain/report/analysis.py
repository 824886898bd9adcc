"""Analysis of a task: means, gains paired by seed, and whether the ranking of the rows changes."""

import enum
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from . import format
from .paper_numbers import PAPERS, PaperNumber
from .results import CellResult, ExperimentResults, Metric, TaskResults
from .sequential import SequentialDesign
from .stage_results import CLOSE, Predictions
from .statistics import (
    CONFIDENCE,
    NO_SPREAD,
    Estimate,
    estimate,
    example_half_width,
    r2_parts,
    sign_flip,
    t_test,
)

RowColumn = tuple[str, str]  # (row, column): a model and an arm
Order = Literal["changes", "stays", "not resolved"]
"""Whether the order of two rows, or of all, changes from the control to the treatment."""
SEPARATOR = " · "  # separates the group of a row from its place along x, as in ``attention · 20 %``
MANY_TASKS = 8  # number of tasks from which their average is shown before each of them
PERFECT = 1.0  # maximum of accuracy and R2
LATE = 0.9  # a best step beyond this fraction of all steps suggests that the training budget was too small


class Standing(enum.Enum):
    """Position of a difference's combined interval relative to zero and the tie band."""

    BETTER = "better"  # wholly above the tie band
    AHEAD = "ahead"  # above zero, may be inside the tie band
    EQUAL = "equal"  # wholly inside the tie band
    UNCLEAR = "unclear"  # on both sides of zero, or inside the tie band where this shows nothing
    BEHIND = "behind"  # below zero, may be inside the tie band
    WORSE = "worse"  # wholly below the tie band
    ONE_SEED = "one seed"  # no interval
    EARLY = "before the first interim analysis"  # fewer seeds than its number
    UNDEFINED = "no finite score"  # of a seed in one of the two
    NOTHING = "not measured"  # no pair has finished


JUDGED = (
    Standing.BETTER, Standing.AHEAD, Standing.EQUAL, Standing.UNCLEAR, Standing.BEHIND, Standing.WORSE,
)  # fmt: skip
"""Standings of an interval, from the best to the worst."""
LEADS = frozenset({Standing.BETTER, Standing.AHEAD})  # standings in favour of the first arm
DECIDED = frozenset({Standing.BETTER, Standing.WORSE, Standing.EQUAL})  # standings that are a verdict
FINAL = DECIDED | {Standing.UNDEFINED}
"""Standings after which a sequential design adds no further seeds: no other seed may replace a lost one."""


@dataclass(frozen=True)
class Difference:
    """Scores at ``a`` minus scores at ``b``, paired by seed."""

    a: RowColumn
    b: RowColumn
    seeds: tuple[int, ...]
    values: tuple[float, ...]  # one per seed
    estimate: Estimate | None  # None where no pair has finished
    standing: Standing
    design: SequentialDesign | None = None
    void: str = ""  # why an interval inside the tie band does not show that the two are equal

    @cached_property
    def p(self) -> float | None:
        """Return the p of the sign-flip test, None below six seeds; or the repeated p of a design."""
        if self.design is None:
            return sign_flip(self.values)
        p = t_test(self.values)
        return None if p is None or len(self.values) < self.design.first else self.design.repeated_p(p)


@dataclass(frozen=True)
class RowPair:
    """Two rows compared in the control column and in the treatment column."""

    control: Difference
    treatment: Difference
    diverged: bool = False  # whether training did in any of the four

    @property
    def rows(self) -> tuple[str, str]:
        """Return the two rows; differences are the first minus the second."""
        return self.control.a[0], self.control.b[0]

    @property
    def order(self) -> Order:
        """Return whether the order changes; resolved only if both intervals exclude the tie band."""
        sides = {self.control.standing, self.treatment.standing}
        if self.diverged or not sides <= {Standing.BETTER, Standing.WORSE}:
            return "not resolved"
        return "stays" if len(sides) == 1 else "changes"


@dataclass(frozen=True)
class TaskAnalysis:
    """A task with the statistics that all reports share, computed once."""

    task: TaskResults
    means: dict[RowColumn, Estimate]  # over seeds; only places with a score
    gains: tuple[Difference, ...]  # contrast by contrast, every row in each
    pairs: tuple[RowPair, ...]  # of all rows with both columns of the headline

    @property
    def label(self) -> str:
        """Return the name of the task."""
        return self.task.label

    @property
    def metric(self) -> Metric:
        """Return the metric of the task and how to print its scores."""
        return self.task.metric

    @property
    def headline(self) -> tuple[Difference, ...]:
        """Return the gains of the first contrast, one per row."""
        return self.gains[: len(self.task.rows)]

    @property
    def order(self) -> Order:
        """Return whether the ranking changes: if any pair does; "stays" if all pairs are resolved."""
        orders = {pair.order for pair in self.pairs}
        if "changes" in orders:
            return "changes"
        return "stays" if orders == {"stays"} else "not resolved"

    @cached_property
    def best(self) -> frozenset[RowColumn]:
        """Return the best arm of each row; none with one arm, with one seed, or if two arms tie for it."""
        best = set()
        for row in self.task.rows:
            measured = {place: found for place, found in self.means.items() if place[0] == row}
            highest = max((found.mean for found in measured.values()), default=0.0)
            winners = [place for place, found in measured.items() if found.mean > highest - NO_SPREAD]
            if len(measured) > len(winners) == 1 and all(found.n > 1 for found in measured.values()):
                best.update(winners)
        return frozenset(best)

    @property
    def best_baseline(self) -> tuple[str, float]:
        """Return the best simple baseline, chance included, and its score; ("", -inf) if there is none."""
        level = self.task.card.chance
        chance = {} if level is None else {"chance": level}
        known = {name: score for name, score in self.task.baselines.items() if not math.isnan(score)}
        return max((chance | known).items(), key=lambda item: item[1], default=("", -math.inf))

    @property
    def late(self) -> dict[str, tuple[int, int]]:
        """Return the columns whose runs mostly were best in the last tenth: (number of these, of all)."""
        found = {}
        for column in self.task.columns:
            ends = [cell.scored for cell in self.task.finished if cell.column == column]
            late = sum(end.stopped == "budget" and end.best_step > LATE * end.steps for end in ends)
            if 2 * late > len(ends):
                found[column] = (late, len(ends))
        return found

    def no_evidence(self, found: Difference) -> str:
        """Return why a difference is not evidence (divergence, equal answers, ceiling); "" if it is."""
        if found.estimate is None:
            return ""
        task = self.task
        diverged = [
            f"{len(seeds)} of {len(found.seeds)} of {place[1]}"
            for place in (found.a, found.b)
            if (seeds := {*task.diverged(place)} & {*found.seeds})
        ]
        if diverged:
            return f"training diverged in {format.listing(diverged)}"
        arms = task.at(*found.a), task.at(*found.b)
        answers = [[cells[seed].scored.predictions for cells in arms] for seed in found.seeds]
        if all(x and y and np.array_equal(x.answers, y.answers) for x, y in answers):
            return "both arms answer the same on every test example"
        worst = min(self.means[place].mean for place in (found.a, found.b))
        if worst >= PERFECT - self.metric.tie:
            return f"both arms are at the ceiling ({format.score(self.metric, worst)} and more)"
        return found.void

    def collapsed(self, column: str) -> int:
        """Return the number of runs in which the targets of a stage were all alike on validation."""
        cells = [cell for cell in self.task.finished if cell.column == column]
        ends = [[stage.scores.get("val", {}) for stage in cell.stages] for cell in cells]
        return sum(any(end.get("collapsed") for end in each) for each in ends)


@dataclass(frozen=True)
class Analysis:
    """An experiment with the analysis of every task."""

    results: ExperimentResults
    tasks: tuple[TaskAnalysis, ...]

    @property
    def averaged(self) -> bool:
        """Return whether scores may be averaged over tasks: there are several, with the same metric."""
        return len(self.tasks) > 1 and len({task.metric for task in self.tasks}) == 1

    @cached_property
    def scores(self) -> list[dict[RowColumn, dict[int, float]]]:
        """Return the score of every place by seed, task by task."""
        return [
            {at: {seed: score_of(cell) for seed, cell in task.task.at(*at).items()} for at in task.means}
            for task in self.tasks
        ]

    @cached_property
    def many(self) -> bool:
        """Return whether averages over tasks come first: there are many tasks, with the same plan."""
        plans = {(tuple(t.task.rows), tuple(t.task.columns), tuple(t.task.contrasts)) for t in self.tasks}
        return self.averaged and len(self.tasks) >= MANY_TASKS and len(plans) == 1 and not self.reported

    @cached_property
    def overall(self) -> tuple[Difference, ...]:
        """Return the gains averaged over tasks, seed by seed, if all have them; empty unless ``averaged``."""
        if not self.averaged:
            return ()
        by_places = [{(gain.a, gain.b): gain for gain in task.gains if gain.estimate} for task in self.tasks]
        shared = [places for places in by_places[0] if all(places in found for found in by_places)]
        tie = self.tasks[0].metric.tie
        made = (_mean_difference([found[places] for found in by_places], tie) for places in shared)
        return tuple(filter(None, made))

    @property
    def rows_compete(self) -> bool:
        """Return whether rows are different models, not one at several settings, ``GROUP · PLACE``."""
        return not any(SEPARATOR in row for task in self.tasks for row in task.task.rows)

    @property
    def seeds(self) -> int:
        """Return the largest number of seeds behind any mean."""
        return max((found.n for task in self.tasks for found in task.means.values()), default=0)

    @property
    def reported(self) -> list[PaperNumber]:
        """Return the paper's numbers that are shown next to ours, without duplicates."""
        return list(dict.fromkeys(cell.reported for cell in self.results.cells if cell.reported))

    @property
    def paper_tables(self) -> list[str]:
        """Return the paper tables that these numbers come from."""
        return list(dict.fromkeys(f"{PAPERS.get(p.paper, p.paper)}, {p.table}" for p in self.reported))


def analyse(results: ExperimentResults) -> Analysis:
    """Analyse every task of an experiment.

    Raises:
        StoreError: if two runs were tested on different examples.
    """
    return Analysis(results, tuple(analyse_task(task) for task in results.tasks))


def analyse_task(task: TaskResults) -> TaskAnalysis:
    """Compute the means, paired gains and ranking of a task."""
    means = {
        (row, column): estimate([score_of(cell) for cell in cells.values()], confidence=task.confidence)
        for row in task.rows
        for column in task.columns
        if (cells := task.at(row, column))
    }
    gains = tuple(
        difference(task, (row, treatment), (row, control))
        for treatment, control in task.contrasts
        for row in task.rows
    )
    treatment, control = task.headline
    pairs = []
    for a, b in itertools.combinations(task.compared, 2):
        before, after = (difference(task, (a, column), (b, column)) for column in (control, treatment))
        sides = (before, after)
        lost = [{*task.diverged(side.a), *task.diverged(side.b)} & {*side.seeds} for side in sides]
        pairs.append(RowPair(before, after, any(lost)))
    return TaskAnalysis(task, means, gains, tuple(pairs))


def difference(task: TaskResults, a: RowColumn, b: RowColumn) -> Difference:
    """Return scores at ``a`` minus scores at ``b``, over the seeds that both have."""
    ours_by_seed = task.at(*a)
    theirs_by_seed = task.at(*b)
    seeds = tuple(seed for seed in ours_by_seed if seed in theirs_by_seed)
    if not seeds:
        lost = task.undefined(*a) or task.undefined(*b)
        return Difference(a, b, (), (), None, Standing.UNDEFINED if lost else Standing.NOTHING, task.design)
    ours = [ours_by_seed[seed] for seed in seeds]
    theirs = [theirs_by_seed[seed] for seed in seeds]
    values = tuple(score_of(x) - score_of(y) for x, y in zip(ours, theirs, strict=True))
    mean = estimate(values, over_examples(task, ours, theirs), task.confidence)
    standing = judge(mean, task.metric.tie, task.design)
    void = ""
    if standing is Standing.EQUAL:  # the next seed may differ if there is no spread, or nothing is learnt
        guess = guess_score(task, ours[0])
        highest = max(float(np.mean([score_of(cell) for cell in cells])) for cells in (ours, theirs))
        if mean.over_seeds is not None and mean.over_seeds < NO_SPREAD:
            void = "every seed gives the same difference"
        elif guess is not None and highest <= guess + task.metric.tie:
            void = "neither arm is above chance"
    return Difference(a, b, seeds, values, mean, Standing.UNCLEAR if void else standing, task.design, void)


def guess_score(task: TaskResults, tested: CellResult) -> float | None:
    """Return the best score of one answer to all test examples, or else of random ones; None if unknown."""
    card = task.card
    if card.kind == "reals":
        return 0.0 if task.metric.name == "r2" else None
    kept = tested.scored.predictions
    if card.kind == "classes" and kept is not None:
        return float(np.unique(kept.target, return_counts=True)[1].max() / len(kept.target))
    return card.chance


def verdicts(results: ExperimentResults) -> list[dict[str, Any]]:
    """Return the verdict on every headline difference as JSON values, one dict per task and model."""
    return [
        {
            "task": task.label,
            "row": gain.a[0],
            "arm": gain.a[1],
            "against": gain.b[1],
            "seeds": len(gain.seeds),
            "design": str(gain.design) if gain.design else None,
            "decided": gain.standing in DECIDED and not void,
            "no_evidence": void or None,
            "standing": gain.standing.value,
            "difference": gain.estimate.mean if gain.estimate else None,
            "interval": gain.estimate.bounds if gain.estimate else None,
            "p": gain.p,
        }
        for task in analyse(results).tasks
        for gain in task.headline
        for void in [task.no_evidence(gain)]
    ]


def _mean_difference(found: Sequence[Difference], tie: float) -> Difference | None:
    """Average differences over tasks (independent test examples); None if no seed has a value in all."""
    by_seed = [dict(zip(each.seeds, each.values, strict=True)) for each in found]
    seeds = tuple(seed for seed in by_seed[0] if all(seed in values for values in by_seed))
    if not seeds:
        return None
    values = tuple(float(np.mean([of[seed] for of in by_seed])) for seed in seeds)
    halves = [each.estimate.over_examples for each in found if each.estimate]
    known = [half for half in halves if half is not None]
    # Test examples of different tasks are independent: errors of the mean add as squares.
    half = float(np.linalg.norm(known)) / len(found) if len(known) == len(found) else None
    design = found[0].design
    mean = estimate(values, half, design.confidence if design else CONFIDENCE)
    standing = judge(mean, tie, design)
    if standing is Standing.EQUAL and all(each.void for each in found):
        standing = Standing.UNCLEAR
    return Difference(found[0].a, found[0].b, seeds, values, mean, standing, design)


def judge(difference: Estimate, tie: float, design: SequentialDesign | None = None) -> Standing:
    """Classify a difference by its combined interval; ``tie`` is half the width of the tie band."""
    if design and difference.n < design.first:
        return Standing.EARLY
    if difference.bounds is None:
        return Standing.ONE_SEED
    low, high = difference.bounds
    if low > tie:
        return Standing.BETTER
    if high < -tie:
        return Standing.WORSE
    if -tie <= low and high <= tie:
        return Standing.EQUAL  # even if it excludes zero
    return Standing.AHEAD if low > 0 else Standing.BEHIND if high < 0 else Standing.UNCLEAR


def seeds_due(task: TaskResults, row: str, design: SequentialDesign, first_seed: int = 0) -> int:
    """Return the number of seeds that a row needs, as far as its results show.

    It is that of the first interim analysis which decides the headline difference of the row, or has a seed
    without a finite score; of the first one whose runs have not finished; or of the last. They are repeated
    in order over the first seeds alone, so that the number depends on nothing but the results, whenever and
    in which order they came.

    Args:
        task: results with the cells of all seeds up to the last interim analysis.

    Raises:
        StoreError: if two runs were tested on different examples.
    """
    treatment, control = task.headline
    compared = [cell for cell in task.cells if cell.row == row and cell.column in (treatment, control)]
    if {cell.column for cell in compared} != {treatment, control}:
        return design.first  # nothing to decide, e.g. a mixer without self-pretraining
    for n in design:
        seen = [cell for cell in compared if cell.seed < first_seed + n]
        if not all(cell.tested for cell in seen):
            return n
        found = difference(replace(task, cells=tuple(seen)), (row, treatment), (row, control))
        if found.standing in FINAL:
            return n
    return design.last


def over_examples(
    task: TaskResults, ours: Sequence[CellResult], theirs: Sequence[CellResult]
) -> float | None:
    """Return the half-width over test examples of the mean difference; None if unknown.

    It is unknown if predictions were not kept or do not reproduce the score (another metric).

    Raises:
        StoreError: if the runs were tested on different examples.
    """
    kind = task.card.kind
    a = _answers(ours)
    b = _answers(theirs)
    if a is None or b is None:
        return None
    if not all(np.array_equal(a[0].target, other.target) for other in a[1:] + b):
        both = " and ".join(cells[0].folders[-1] for cells in (ours, theirs))
        raise StoreError(
            f"{both} were tested on different examples and cannot be compared; delete result.json of the "
            f"older one, and run again"
        )
    clusters = next((answers.cluster for answers in a + b if answers.cluster is not None), None)
    # All runs share the test examples (checked above): average each example over seeds, then subtract arms.
    if kind != "reals":
        parts = np.mean([_correct(p) for p in a], axis=0) - np.mean([_correct(p) for p in b], axis=0)
    else:
        target = a[0].target.astype(np.float64)
        squared = (np.mean([(p.prediction - target) ** 2 for p in side], axis=0) for side in (a, b))
        parts = r2_parts(target, *squared)
    return example_half_width(parts, clusters, task.confidence)


def score_of(cell: CellResult) -> float:
    """Return the score of a cell that has one."""
    score = cell.score
    assert score is not None, "cells without a score are left out by TaskResults.at"
    return score


def _answers(cells: Sequence[CellResult]) -> list[Predictions] | None:
    """Return the test predictions of cells; None unless all were kept and reproduce the scores."""
    found = [cell.scored.predictions for cell in cells]
    kept = [predictions for predictions in found if predictions is not None]
    if len(kept) < len(cells):
        return None
    pairs = zip(kept, cells, strict=True)
    agree = [abs(predictions.score() - score_of(cell)) < CLOSE for predictions, cell in pairs]
    return kept if all(agree) else None


def _correct(kept: Predictions) -> NDArray[np.float64]:
    """Return each example's contribution (n,) to the score, their mean; first-order for a ratio of sums."""
    if kept.asked is None:
        return (kept.prediction == kept.target).astype(np.float64)
    score = kept.score()
    return score + (kept.prediction - score * kept.asked) / max(float(kept.asked.mean()), 1e-12)
