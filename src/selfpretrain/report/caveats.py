"""What a reader must know before trusting an experiment: whatever in its files weakens the comparison.

That a simple method does as well is part of the verdict itself.
"""

from collections.abc import Callable

from . import format
from .analysis import TaskAnalysis

SLACK = 0.05
"""Relative difference of compute up to which two arms count as tied."""
ENOUGH_GROUPS = 5
"""Groups in the test split from which on a score says something about others."""
LATE = 0.9
"""A best step beyond this share of all steps says that training may have been cut short."""


def caveats(analysis: TaskAnalysis) -> list[str]:
    """Sentences, the gravest first; empty if nothing is wrong."""
    checks: list[Callable[[TaskAnalysis], list[str]]] = [
        _diverged, _missing, _theirs, _undefined, _leaks, _untied, _clusters, _no_examples, _cut_short, _few,
        _machines,
    ]  # fmt: skip
    return [line for check in checks for line in check(analysis)]


def _diverged(analysis: TaskAnalysis) -> list[str]:
    task = analysis.task
    places = [(row, column) for row in task.rows for column in task.columns]
    lost = [f"{place[0]}, {place[1]}, seed {s}" for place in places for s in analysis.diverged(place)]
    said = (
        "These runs are marked † and count in every mean all the same: they show that the settings do not "
        "fit, not what the arm can do."
    )
    return [f"Training diverged (its loss was not finite): {'; '.join(lost)}. {said}"] if lost else []


def _missing(analysis: TaskAnalysis) -> list[str]:
    task = analysis.task
    if not task.missing:
        return []
    total = format.plural(len(task.cells), "cell")
    return [f"{task.missing} of {total} missing; repeating the command continues where it stopped."]


def _theirs(analysis: TaskAnalysis) -> list[str]:
    taken = [found for c in analysis.task.finished if (found := {stage.source for stage in c.stages} - {""})]
    files = format.listing(sorted(set().union(*taken))) if taken else ""
    total = format.plural(len(analysis.task.cells), "cell")
    return [f"{len(taken)} of {total} not trained here but taken from {files}."] if taken else []


def _undefined(analysis: TaskAnalysis) -> list[str]:
    lost = [cell for cell in analysis.task.cells if cell.finished and cell.score is None]
    where = format.listing([f"{c.row}, {c.column}, seed {c.seed}" for c in lost]) if lost else ""
    return [f"Without a finite test score and left out of every mean: {where}."] if lost else []


def _leaks(analysis: TaskAnalysis) -> list[str]:
    shared = {pair: n for pair, n in analysis.task.record.task.overlap.items() if n}
    found = format.listing([f"{pair} {n}" for pair, n in shared.items()]) if shared else ""
    return [f"Splits share equal sequences: {found}."] if shared else []


def _untied(analysis: TaskAnalysis) -> list[str]:
    task = analysis.task
    treatment, control = task.headline
    if "tied" not in control:
        return []
    ratios = {row: _ratio(analysis, row, treatment, control) for row in task.rows}
    off = {row: ratio for row, ratio in ratios.items() if ratio is not None and abs(ratio - 1) > SLACK}
    found = format.listing([f"{row} {ratio:.2f}" for row, ratio in off.items()]) if off else ""
    return [f"Compute is not quite tied; FLOPs of {control} relative to {treatment}: {found}."] if off else []


def _ratio(analysis: TaskAnalysis, row: str, treatment: str, control: str) -> float | None:
    spent = [list(analysis.task.at(row, column).values()) for column in (control, treatment)]
    if not all(spent):
        return None
    ours, theirs = (sum(cell.flops for cell in cells) / len(cells) for cells in spent)
    return ours / theirs if theirs > 0 else None


def _clusters(analysis: TaskAnalysis) -> list[str]:
    """That test examples are few patients, speakers or recordings, however many windows they are."""
    examples, groups = _tested(analysis)
    if not 0 < groups < ENOUGH_GROUPS:
        return []
    widened = " Intervals of differences take each group as one observation, so they are wide."
    return [
        f"The {examples} test examples are of {format.plural(groups, 'group')} (patients, speakers, files or"
        f" the like): scores say how well these are known, and little of others.{widened * (groups > 1)}"
    ]


def _tested(analysis: TaskAnalysis) -> tuple[int, int]:
    """How many test examples there are, and of how many groups, 0 if each is evidence of its own."""
    scored = (cell for place in analysis.means for cell in analysis.task.at(*place).values())
    kept = next((cell.scored.predictions for cell in scored), None)
    if kept is None or kept.cluster is None:
        return 0, 0
    return len(kept.target), len(set(kept.cluster.tolist()))


def _no_examples(analysis: TaskAnalysis) -> list[str]:
    known = [found.estimate for found in analysis.headline if found.estimate is not None]
    if known and _tested(analysis)[1] == 1:
        return ["Intervals hold for seeds alone: of one group, nothing can be said about others."]
    if not any(found.over_examples is None for found in known):
        return []
    return [
        "Some intervals hold for seeds alone: test predictions were not kept, or do not reproduce the score, "
        "so the choice of test examples is not counted."
    ]


def _cut_short(analysis: TaskAnalysis) -> list[str]:
    return [
        f"{column}: in {many} of {format.plural(runs, 'run')} the best validation score came "
        f"in the last tenth of training; a larger budget may raise it."
        for column, (many, runs) in late(analysis).items()
    ]


def late(analysis: TaskAnalysis) -> dict[str, tuple[int, int]]:
    """Columns of which most runs were best in the last tenth of their training: how many, of how many."""
    found = {}
    for column in analysis.task.columns:
        cells = [c for c in analysis.task.cells if c.column == column and c.finished]
        many = sum(c.scored.stopped == "budget" and c.scored.best_step > LATE * c.scored.steps for c in cells)
        if 2 * many > len(cells):
            found[column] = many, len(cells)
    return found


def _few(analysis: TaskAnalysis) -> list[str]:
    most = max((len(found.seeds) for found in analysis.headline), default=0)
    if most == 1:
        return ["One seed: no interval can be given. Add --seeds 3 or more."]
    return [f"{most} seeds: too few for a test; n ≥ 6 needed for p < 0.05."] if 1 < most < 6 else []


def _machines(analysis: TaskAnalysis) -> list[str]:
    kept = [cell.scored.environment for cell in analysis.task.cells if cell.finished]
    devices = sorted({str(found["device"]) for found in kept if "device" in found})
    dirty = any((found.get("git") or {}).get("dirty") for found in kept)
    lines = [f"Runs used different devices: {format.listing(devices)}."] if len(devices) > 1 else []
    return lines + (["The code had uncommitted changes when some runs were made."] if dirty else [])
