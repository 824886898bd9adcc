"""The verdict on a task: one sentence on the gain, one on the ranking, both decided by the intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import format
from .analysis import Analysis, Difference, Ranking, RowOrder, RowPair, Standing, TaskAnalysis
from .stage_results import CellResult

GLOSS = {
    "scratch": "training from scratch with the same finetuning budget",
    "scratch (matched)": "training from scratch for as long as pretraining and finetuning together",
}
"""Explanations of the control columns."""

PHRASES = {
    Standing.BETTER: "better for {rows}",
    Standing.AHEAD: "ahead for {rows}, perhaps by less than the tie of {tie}",
    Standing.EQUAL: "equal within the tie of {tie} for {rows}",
    Standing.UNCLEAR: "neither shown better nor worse for {rows}",
    Standing.BEHIND: "behind for {rows}, perhaps by less than the tie of {tie}",
    Standing.WORSE: "worse for {rows}",
    Standing.ONE_SEED: "measured only once for {rows}, and one seed cannot tell chance from effect",
    Standing.NOTHING: "not measured yet for {rows}",
}

PERFECT = 1.0
"""Maximum of accuracy and R2."""
FEW = 3
"""A short headline names its rows up to this number."""


@dataclass(frozen=True)
class Verdict:
    """The sentences on a task at the top of its report."""

    gain: str  # one sentence
    ranking: str | None  # one sentence; None with a single row


def verdict(analysis: TaskAnalysis) -> Verdict:
    """Return the verdict on a task."""
    ranking = None if analysis.ranking is None else _ranking(analysis, analysis.ranking)
    return Verdict(_gain(analysis), ranking)


def standings(tasks: Sequence[TaskAnalysis]) -> str:
    """Return the headline gains of tasks as counts: ``SPT against scratch: 1 better (s4d), 9 unclear``."""
    gains = [gain for analysis in tasks for gain in analysis.headline]
    low = sum(len(_low(analysis)) for analysis in tasks)
    groups = {standing: [gain for gain in gains if gain.standing is standing] for standing in Standing}
    found = [_counted(standing, there, named=len(tasks) == 1) for standing, there in groups.items() if there]
    heads = dict.fromkeys(" against ".join(analysis.task.headline) for analysis in tasks)
    but = f"; {low} of {len(gains)} not clearly above a simple baseline" if low else ""
    void = sum(bool(gain.estimate and _no_evidence(task, gain)) for task in tasks for gain in task.headline)
    but += f"; {void} of {len(gains)} decide nothing (diverged, equal answers or ceiling)" if void else ""
    return f"{' or '.join(heads)}: {', '.join(found)}{but}"


def on_average(analysis: Analysis) -> str:
    """Return the headline gains averaged over tasks, per model; "" if the tasks cannot be averaged."""
    if not analysis.overall:
        return ""
    metric, (treatment, control) = analysis.tasks[0].metric, analysis.tasks[0].task.headline
    found = [
        f"{format.signed(metric, gain.estimate.mean)} {format.interval(metric, gain.estimate.bounds)} "
        f"({gain.a[0]})"
        for gain in analysis.overall
        if gain.estimate is not None and (gain.a[1], gain.b[1]) == (treatment, control)
    ]
    both = f"{treatment} against {control}"
    tasks, unit = format.plural(len(analysis.tasks), "task"), format.points(metric).strip()
    return f"On average over {tasks}: {both}, in {unit or 'score'}: {', '.join(found)}." if found else ""


def claim(analysis: Analysis) -> str:
    """Return one sentence to quote: the headline gains with their intervals, seeds and version."""
    record, several = analysis.results.record, len(analysis.tasks) > 1
    found = [
        f"{format.signed(task.metric, gain.estimate.mean)}{format.points(task.metric)} "
        f"{format.interval(task.metric, gain.estimate.bounds)} for {gain.a[0]}{f' on {task.label}' * several}"
        for task in analysis.tasks
        for gain in task.headline
        if gain.estimate is not None
    ]
    if not found or record.scale == "smoke":
        return "Nothing can be claimed yet."
    task = analysis.tasks[0]
    treatment, control = task.task.headline
    return (
        f"The difference in test {format.name(task.metric)}{f' on {task.label}' * (not several)} between "
        f"{treatment} and {_named(control)}, paired by seed, is {format.listing(found)} "
        f"({format.plural(analysis.seeds, 'seed')}; 95 % intervals over seeds and test examples; "
        f"selfpretrain {record.version}, {record.scale} scale)."
    )


def _counted(standing: Standing, gains: list[Difference], named: bool) -> str:
    names = f" ({', '.join(gain.a[0] for gain in gains)})" if named and len(gains) <= FEW else ""
    return f"{len(gains)} {standing.value}{names}"


def _gain(analysis: TaskAnalysis) -> str:
    treatment, control = analysis.task.headline
    if all(found.estimate is None for found in analysis.headline):
        both = f"{treatment} against {_named(control)}"
        return f"Nothing can be said yet about {both}: {_unfinished(analysis)}."
    phrases = []
    for standing in Standing:
        there = [found for found in analysis.headline if found.standing is standing]
        if there:
            rows = format.listing([_row(analysis, found) for found in there])
            phrases.append(PHRASES[standing].format(rows=rows, tie=format.tie(analysis.metric)))
    first = "".join(f"Nothing is decided for {each}. " for each in _undecided(analysis))
    return f"{first}Against {_named(control)}, {treatment} is {'; '.join(phrases + _but(analysis))}."


def _undecided(analysis: TaskAnalysis) -> list[str]:
    """Return the rows whose comparison is no evidence, whatever its interval, with the reason."""
    reasons: dict[str, list[str]] = {}
    for found in analysis.headline:
        if found.estimate is not None and (why := _no_evidence(analysis, found)):
            reasons.setdefault(why, []).append(found.a[0])
    return [f"{format.listing(rows)}: {why}" for why, rows in reasons.items()]


def _no_evidence(analysis: TaskAnalysis, found: Difference) -> str:
    """Return why a difference is no evidence (divergence, equal answers, ceiling); "" if it is."""
    task, lost = analysis.task, {place[1]: analysis.diverged(place) for place in (found.a, found.b)}
    if any(lost.values()):
        runs = [
            f"{len(seeds)} of {len(task.at(found.a[0], arm))} of {arm}"
            for arm, seeds in lost.items()
            if seeds
        ]
        return f"training diverged in {format.listing(runs)}"
    if all(_same(task.at(*found.a)[seed], task.at(*found.b)[seed]) for seed in found.seeds):
        return "both arms answer the same on every test example"
    worst = min(analysis.means[place].mean for place in (found.a, found.b))
    if worst >= PERFECT - analysis.metric.tie:
        return f"both arms are at the ceiling ({format.score(analysis.metric, worst)} and more)"
    return ""


def _same(one: CellResult, other: CellResult) -> bool:
    ours, theirs = one.scored.predictions, other.scored.predictions
    return bool(ours and theirs and np.array_equal(ours.prediction, theirs.prediction))


def _but(analysis: TaskAnalysis) -> list[str]:
    """Return the reservations on a gain: arms not above a simple baseline, and missing cells."""
    low, metric = _low(analysis), analysis.metric
    said = []
    if low:
        name, reached = best_baseline(analysis)
        arms = "no arm" if len(low) == len(analysis.task.rows) else f"no arm of {format.listing(list(low))}"
        theirs, ours = format.score(metric, reached), format.score(metric, max(low.values()))
        said.append(f"{arms} is clearly above the simple baseline “{name}” ({theirs}; best arm {ours})")
    return said + ([_unfinished(analysis)] if analysis.task.missing else [])


def _low(analysis: TaskAnalysis) -> dict[str, float]:
    """Return the rows whose best arm is not clearly above the best simple baseline, with that arm's mean."""
    best: dict[str, float] = {}
    for (row, _), found in analysis.means.items():
        best[row] = max(found.mean, best.get(row, found.mean))
    _, reached = best_baseline(analysis)
    return {row: mean for row, mean in best.items() if mean <= reached + analysis.metric.tie}


def best_baseline(analysis: TaskAnalysis) -> tuple[str, float]:
    """Return the best simple baseline, chance included, and its score; ("", -inf) if there is none."""
    record = analysis.task.record
    known = {"chance": record.task.chance or -math.inf} | record.baselines
    return max(known.items(), key=lambda item: item[1], default=("", -math.inf))


def _row(analysis: TaskAnalysis, found: Difference) -> str:
    if found.estimate is None:
        return found.a[0]
    metric = analysis.metric
    size = f"{format.signed(metric, found.estimate.mean)}{format.points(metric)}"
    if found.estimate.bounds is None:
        return f"{found.a[0]} ({size})"
    low, high = (format.signed(metric, bound) for bound in found.estimate.bounds)
    return f"{found.a[0]} ({size}, 95 % interval {low} to {high}, {format.plural(found.estimate.n, 'seed')})"


def _unfinished(analysis: TaskAnalysis) -> str:
    task = analysis.task
    if not task.missing:
        return "no seed has a score in both"
    verb = "is" if task.missing == 1 else "are"
    return f"{task.missing} of {format.plural(len(task.cells), 'cell')} {verb} missing"


def _ranking(analysis: TaskAnalysis, ranking: Ranking) -> str:
    treatment, control = analysis.task.headline
    if ranking.order is RowOrder.CHANGES:
        swaps = [_swap(pair) for pair in ranking.pairs if pair.order is RowOrder.CHANGES]
        return f"The ranking changes from {control} to {treatment}: {'; '.join(swaps)}."
    if ranking.order is RowOrder.STAYS:
        means = {row: analysis.means[row, control].mean for row in analysis.task.rows}
        order = format.listing(sorted(means, key=lambda row: -means[row]))
        return f"The ranking does not change: {order}, best first, in {control} and in {treatment}."
    return f"Whether the ranking changes is not resolved: {_unresolved(analysis, ranking)}."


def _unresolved(analysis: TaskAnalysis, ranking: Ranking) -> str:
    treatment, control = analysis.task.headline
    sides = {side.standing for pair in ranking.pairs for side in (pair.control, pair.treatment)}
    if Standing.ONE_SEED in sides and sides <= {Standing.ONE_SEED, Standing.NOTHING}:
        return "one seed cannot tell chance from effect"
    tie = format.tie(analysis.metric)
    both = f"clearly further apart than the tie of {tie} in both {control} and {treatment}"
    if len(ranking.pairs) == 1:
        return f"{format.listing(list(ranking.pairs[0].rows))} are not {both}"
    stay = sum(pair.order is RowOrder.STAYS for pair in ranking.pairs)
    return f"of {len(ranking.pairs)} pairs of models, {stay or 'none'} {'is' if stay < 2 else 'are'} {both}"


def _swap(pair: RowPair) -> str:
    first, second = pair.rows
    upper, lower = (first, second) if pair.control.standing is Standing.BETTER else (second, first)
    return f"{upper} falls from above {lower} to below it"


def _named(column: str) -> str:
    return f"{GLOSS[column]} ({column})" if column in GLOSS else column
