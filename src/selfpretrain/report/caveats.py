"""Caveats of a report: checks for anything in the results that weakens the comparison.

Whether a simple baseline does as well is not checked here, but part of the verdict.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from . import format
from .analysis import TaskAnalysis
from .statistics import FEWEST

SLACK = 0.01  # largest relative difference of compute between matched arms that goes without saying
MIN_GROUPS = 5  # smallest number of groups in the test split from which scores generalise to other groups


@dataclass(frozen=True)
class Caveat:
    """One weakness of a comparison: a sentence in which ``found`` is the part specific to a task."""

    before: str
    found: str = ""
    after: str = ""


def caveats(tasks: Sequence[TaskAnalysis]) -> list[str]:
    """Return a sentence for every kind of caveat, the most serious first; empty if there is none.

    A sentence names its tasks unless it applies to all of them.
    """
    checks: list[Callable[[TaskAnalysis], Iterator[Caveat]]] = [
        _faults, _diverged, _collapsed, _missing, _restored, _undefined, _overlap, _not_matched, _clusters,
        _no_examples, _late, _few_seeds, _machines,
    ]  # fmt: skip
    lines = []
    for check in checks:
        kinds: dict[tuple[str, str], dict[str, list[str]]] = {}
        for label, caveat in [(task.label, caveat) for task in tasks for caveat in check(task)]:
            found = kinds.setdefault((caveat.before, caveat.after), {})
            found.setdefault(caveat.found, []).append(label)
        for (before, after), found in kinds.items():
            if all(len(labels) == len(tasks) for labels in found.values()):
                lines.append(f"{before}{'; '.join(found)}{after}")
            elif "" in found:
                lines.append(f"{format.listing(found[''])}: {before}{after}")
            else:
                parts = [f"{format.listing(labels)}: {each}" for each, labels in found.items()]
                lines.append(f"{before}{'; '.join(parts)}{after}")
    return lines


def _faults(analysis: TaskAnalysis) -> Iterator[Caveat]:
    if analysis.task.faults:
        yield Caveat("Found before training: ", "; ".join(analysis.task.faults), ".")


def _diverged(analysis: TaskAnalysis) -> Iterator[Caveat]:
    task = analysis.task
    places = [(row, column) for row in task.rows for column in task.columns]
    lost = [f"{place[0]}, {place[1]}, seed {s}" for place in places for s in analysis.task.diverged(place)]
    if lost:
        yield Caveat(
            "Training diverged (its loss was not finite): ",
            "; ".join(lost),
            ". These runs are marked † and still count in every mean: they show that the settings do "
            "not fit, not what the arm can do.",
        )


def _collapsed(analysis: TaskAnalysis) -> Iterator[Caveat]:
    columns = analysis.task.columns
    found = [
        f"{column} ({format.plural(n, 'run')})" for column in columns if (n := analysis.collapsed(column))
    ]
    if found:
        after = ". Representations of all positions are alike there, so there was nothing to predict."
        yield Caveat("The targets of pretraining collapsed: ", "; ".join(found), after)


def _missing(analysis: TaskAnalysis) -> Iterator[Caveat]:
    task = analysis.task
    if task.missing:
        found = f"{task.missing} of {format.plural(len(task.cells), 'cell')} missing"
        simple = "" if task.baselines else ", and the simple methods, which are fitted last"
        yield Caveat("", found, f"{simple}; the same command, without --only, goes on with them.")


def _restored(analysis: TaskAnalysis) -> Iterator[Caveat]:
    taken = [found for c in analysis.task.finished if (found := {stage.source for stage in c.stages} - {""})]
    if taken:
        total = format.plural(len(analysis.task.cells), "cell")
        files = format.listing(sorted(set().union(*taken)))
        yield Caveat("", f"{len(taken)} of {total} not trained here but taken from {files}", ".")


def _undefined(analysis: TaskAnalysis) -> Iterator[Caveat]:
    task = analysis.task
    lost = [c for c in task.cells if c.undefined and c.seed in task.undefined(c.row, c.column)]
    if lost:
        of = task.repetition
        where = format.listing([f"{c.row}, {c.column}, seed {of(c)}" for c in lost])
        after = ". These runs count like any other, so their arms have no mean, interval or verdict."
        yield Caveat("Without a finite test score: ", where, after)


def _overlap(analysis: TaskAnalysis) -> Iterator[Caveat]:
    shared = {pair: n for pair, n in analysis.task.card.overlap.items() if n}
    if shared:
        found = format.listing([f"{pair} {n}" for pair, n in shared.items()])
        yield Caveat("Splits share equal sequences: ", found, ".")


def _not_matched(analysis: TaskAnalysis) -> Iterator[Caveat]:
    """Yield a caveat for every comparison with a matched control whose compute is another."""
    task = analysis.task
    for treatment, control in task.contrasts:
        off = []
        for row in task.rows if "matched" in control else ():
            cells = [list(task.at(row, column).values()) for column in (control, treatment)]
            ours, theirs = (sum(cell.flops for cell in each) / max(len(each), 1) for each in cells)
            if all(cells) and theirs > 0 and abs(ours / theirs - 1) > SLACK:
                off.append(f"{row} {ours / theirs:.2f}")
        if off:
            before = f"Compute is not matched; FLOPs of {control} relative to {treatment}: "
            yield Caveat(before, format.listing(off), ".")


def _clusters(analysis: TaskAnalysis) -> Iterator[Caveat]:
    """Yield a caveat if the test examples come from few groups (patients, speakers, recordings)."""
    examples, groups = _tested(analysis)
    if 0 < groups < MIN_GROUPS:
        widened = " Intervals of differences take each group as one observation, so they are wide."
        yield Caveat(
            "",
            f"The {examples} test examples are of {format.plural(groups, 'group')} (patients, speakers, "
            f"files or the like): scores say how well these are known, and little of others",
            f".{widened * (groups > 1)}",
        )


def _tested(analysis: TaskAnalysis) -> tuple[int, int]:
    """Return the numbers of test examples and of their groups; (0, 0) if all examples are independent."""
    scored = (cell for place in analysis.means for cell in analysis.task.at(*place).values())
    kept = next((cell.scored.predictions for cell in scored), None)
    if kept is None or kept.cluster is None:
        return 0, 0
    return len(kept.target), len(set(kept.cluster.tolist()))


def _no_examples(analysis: TaskAnalysis) -> Iterator[Caveat]:
    known = [found.estimate for found in analysis.headline if found.estimate is not None]
    if known and _tested(analysis)[1] == 1:
        yield Caveat("Intervals hold for seeds alone: of one group, nothing can be said about others.")
    elif any(found.over_examples is None for found in known):
        yield Caveat(
            "Some intervals hold for seeds alone: test predictions were not kept, or do not reproduce the "
            "score, so the choice of test examples is not counted."
        )


def _late(analysis: TaskAnalysis) -> Iterator[Caveat]:
    found = [f"{column} ({many} of {runs})" for column, (many, runs) in analysis.late.items()]
    if found:
        found[0] = f"{found[0][:-1]} {'run' if found[0].endswith('of 1)') else 'runs'})"
        after = ". A larger budget may raise these scores."
        yield Caveat("Still improving at the end of training: ", ", ".join(found), after)


def _few_seeds(analysis: TaskAnalysis) -> Iterator[Caveat]:
    most = max((len(found.seeds) for found in analysis.headline), default=0)
    if analysis.task.design:
        return  # as many as the verdict needed
    if most == 1:
        yield Caveat("One seed: no interval can be given. Add --seeds 3 or more.")
    elif 1 < most < FEWEST:
        yield Caveat(f"{most} seeds: too few for a test; n ≥ {FEWEST} needed for p < 0.05.")


def _machines(analysis: TaskAnalysis) -> Iterator[Caveat]:
    kept = [stage.environment for cell in analysis.task.finished for stage in cell.stages]
    devices = sorted({str(found["device"]) for found in kept if "device" in found})
    if len(devices) > 1:
        yield Caveat("Runs used different devices: ", format.listing(devices), ".")
    if any((found.get("git") or {}).get("dirty") for found in kept):
        yield Caveat("The code had uncommitted changes when some runs were made.")
