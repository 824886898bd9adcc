"""The plain-language summary of a report: result, explanation of the arms, and advice."""

import math

from . import format
from .analysis import Analysis, Difference, Standing, TaskAnalysis, score_of
from .caveats import late
from .generalization import training_score
from .verdict import best_baseline

ARMS = {
    "scratch": "The network learns from the labels alone, starting from random numbers.",
    "scratch (matched)": "The same, for as long as pretraining and finetuning take together: a fair control.",
    "SPT": "Self-pretraining: the network first guesses hidden or coming parts of the same sequences, "
    "without labels, and then learns the labels.",
}
"""Explanations of the arms."""
HELPED = {
    Standing.BETTER: "helped",
    Standing.AHEAD: "helped, perhaps by very little,",
    Standing.EQUAL: "made no difference for",
    Standing.WORSE: "hurt",
    Standing.BEHIND: "hurt, perhaps by very little,",
}
"""Effect of a treatment on a model, by standing; undecided standings are absent."""
OVERFIT = 0.1
"""Gap of training to test score, as a fraction, above which more labels are advised."""
SEEDS = 6
"""Smallest number of seeds with which a sign-flip test can reach p < 0.05."""


def sentence(analysis: Analysis) -> str:
    """Return the result in one sentence without statistics; "" if there is none yet or at smoke scale."""
    gains = [(task, gain) for task in analysis.tasks for gain in task.headline if gain.estimate is not None]
    if not gains or analysis.results.record.scale == "smoke":
        return ""
    treatments = {task.task.headline[0] for task in analysis.tasks}
    name = "Self-pretraining" if all("SPT" in found for found in treatments) else min(treatments)
    known = [(task, gain) for task, gain in gains if gain.standing in HELPED]
    if not known:
        return f"Whether {name[0].lower()}{name[1:]} helps on these data cannot be told from these runs."
    if len(gains) > len(analysis.tasks) * 4 or len(analysis.tasks) > 1:
        return _counted(name, [gain for _, gain in gains])
    said = [_effect(task, gain) for task, gain in known]
    open_ = [gain.a[0] for _, gain in gains if gain.standing not in HELPED]
    rest = f"; for {format.listing(open_)} it cannot be told" if open_ else ""
    return f"{name} {format.listing(said)}{rest}."


def arms(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    """Return (arm, explanation) for the arms of this experiment that have one."""
    there = {column for task in analysis.tasks for column in task.task.columns}
    return tuple((arm, said) for arm, said in ARMS.items() if arm in there)


def advice(analysis: Analysis) -> tuple[str, ...]:
    """Return advice on what to do next, most useful first; only for experiments on one task."""
    if analysis.results.record.scale == "smoke":
        return ("Run it again without --scale smoke: this run only shows that everything works.",)
    if len(analysis.tasks) != 1 or not analysis.tasks[0].means:
        return ()
    (task,) = analysis.tasks
    return tuple(filter(None, (_choice(task), _longer(task), _labels(task), _seeds(task))))


def _counted(name: str, gains: list[Difference]) -> str:
    better = sum(gain.standing in (Standing.BETTER, Standing.AHEAD) for gain in gains)
    worse = sum(gain.standing in (Standing.WORSE, Standing.BEHIND) for gain in gains)
    return (
        f"{name} helped in {better} of {format.plural(len(gains), 'comparison')} and hurt in {worse}; "
        f"in {len(gains) - better - worse} there was no difference, or none that could be told."
    )


def _effect(task: TaskAnalysis, gain: Difference) -> str:
    ours, theirs = (format.score(task.metric, task.means[place].mean) for place in (gain.a, gain.b))
    unit = f" {task.metric.unit}".rstrip()
    scores = f"{ours}{unit} with it, {theirs}{unit} without, for equal effort"
    if "matched" not in gain.b[1]:
        scores = scores.removesuffix(", for equal effort")
    return f"{HELPED[gain.standing]} {gain.a[0]} ({scores})"


def _choice(task: TaskAnalysis) -> str:
    """Recommend the best arm, or the simple baseline if it is as good."""
    place, found = max(task.means.items(), key=lambda item: item[1].mean)
    name, reached = best_baseline(task)
    score = format.score(task.metric, found.mean)
    if reached > -math.inf and found.mean <= reached + task.metric.tie:
        simple = format.score(task.metric, reached)
        return f"Use the simple baseline: “{name}” scores {simple}, the best network {score}."
    beside = f"; “{name}”, the best simple baseline, {format.score(task.metric, reached)}" if name else ""
    return f"Take this model: {place[0]}, {place[1]}, which scores {score}{beside}."


def _longer(task: TaskAnalysis) -> str:
    columns = list(late(task))
    return f"Train longer: {format.listing(columns)} still improved when training ended." if columns else ""


def _labels(task: TaskAnalysis) -> str:
    """Recommend more labels if the best arm overfits; "" otherwise."""
    place, _ = max(task.means.items(), key=lambda item: item[1].mean)
    cells = list(task.task.at(*place).values())
    gaps = [train - score_of(cell) for cell in cells if (train := training_score(cell)) is not None]
    if not gaps or sum(gaps) / len(gaps) < OVERFIT:
        return ""
    card = task.task.record.task
    return (
        f"Label more: {place[0]}, {place[1]}, knows its {card.labelled} labelled sequences better than new "
        f"ones by {format.score(task.metric, sum(gaps) / len(gaps))}{format.points(task.metric)}."
    )


def _seeds(task: TaskAnalysis) -> str:
    most = max((len(gain.seeds) for gain in task.headline), default=0)
    return f"Repeat with --seeds {SEEDS}: {format.plural(most, 'seed')} can mislead." if most < SEEDS else ""
