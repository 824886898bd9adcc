"""The results of an experiment in words: headline, verdict on every task, sentence to quote, and advice.

The sentences claim what the intervals allow, and no more.
"""

from collections.abc import Sequence

import numpy as np

from . import format
from .analysis import DECIDED, Analysis, Difference, RowColumn, Standing, TaskAnalysis, score_of
from .statistics import FEWEST, Estimate

ARMS = {
    "scratch": (
        "training from scratch with the same finetuning budget",
        "The network learns from the labels alone, starting from random numbers.",
    ),
    "scratch (matched)": (
        "training from scratch for as long as pretraining and finetuning together",
        "The same, for as long as pretraining and finetuning take together: a fair control.",
    ),
    "SPT": (
        "",
        "Self-pretraining: the network first guesses hidden or coming parts of the same sequences, without "
        "labels, and then learns the labels.",
    ),
}
"""What an arm is: within a sentence (controls only), and in a sentence of its own."""

WORDS = {
    Standing.BETTER: ("helped", "better for {rows}"),
    Standing.AHEAD: (
        "helped, perhaps by very little,",
        "ahead for {rows}, perhaps by less than the tie of {tie}",
    ),
    Standing.EQUAL: ("made no difference for", "equal within the tie of {tie} for {rows}"),
    Standing.UNCLEAR: ("", "neither shown better nor worse for {rows}"),
    Standing.BEHIND: (
        "hurt, perhaps by very little,",
        "behind for {rows}, perhaps by less than the tie of {tie}",
    ),
    Standing.WORSE: ("hurt", "worse for {rows}"),
    Standing.ONE_SEED: ("", "measured only once for {rows}, and one seed cannot tell chance from effect"),
    Standing.EARLY: ("", "not to be judged before the first interim analysis for {rows}"),
    Standing.UNDEFINED: ("", "not to be judged for {rows}, as a seed has no finite test score"),
    Standing.NOTHING: ("", "not measured yet for {rows}"),
}
"""Words for every standing: in the headline ("" if it decides nothing), and in the verdict."""

FEW = 3  # up to this number, the rows behind a count are named
OVERFIT = 0.1  # gap of training to test score, as a fraction, above which more labels are advised


def headline(analysis: Analysis) -> str:
    """Return the result in one sentence without statistics; "" if there is none yet or at smoke scale."""
    gains = [(task, gain) for task in analysis.tasks for gain in task.headline if gain.estimate is not None]
    if not gains or analysis.results.scale == "smoke":
        return ""
    headlines = {task.task.headline for task in analysis.tasks}
    alone = all(_is_pretraining(*found) for found in headlines)
    name = "Self-pretraining" if alone else " or ".join(sorted({found for found, _ in headlines}))
    decided = [(task, gain) for task, gain in gains if _decides(task, gain)]
    if not decided:
        within = name.replace("Self-pretraining", "self-pretraining")
        return f"These runs cannot decide whether {within} helps on these data."
    if len(analysis.tasks) > 1 or len(gains) > 4:
        better = sum(gain.standing in (Standing.BETTER, Standing.AHEAD) for _, gain in decided)
        worse = sum(gain.standing in (Standing.WORSE, Standing.BEHIND) for _, gain in decided)
        return (
            f"{name} helped in {better} of {format.plural(len(gains), 'comparison')} and hurt in {worse}; "
            f"in {len(gains) - better - worse} there was no difference, or none that these runs can show."
        )
    effects = []
    for task, gain in decided:
        with_it, without = (_paired_mean(task, gain, place) for place in (gain.a, gain.b))
        control = f"with {gain.b[1]}" if "SPT" in gain.b[1] else "without"
        equal_effort = ", for equal effort" if "matched" in gain.b[1] else ""
        scores = f"{with_it} with it, {without} {control}{equal_effort}"
        effects.append(f"{WORDS[gain.standing][0]} {gain.a[0]} ({scores})")
    undecided = [gain.a[0] for task, gain in gains if not _decides(task, gain)]
    rest = f"; for {format.listing(undecided)} these runs cannot decide" if undecided else ""
    return f"{name} {format.listing(effects)}{rest}."


def _is_pretraining(treatment: str, control: str) -> bool:
    """Return whether two arms differ in self-pretraining alone: ``SPT, Muon`` and ``scratch, Muon`` do."""
    same = treatment.partition(", ")[2] == control.partition(", ")[2]
    return "SPT" in treatment and "SPT" not in control and same


def _paired_mean(task: TaskAnalysis, gain: Difference, place: RowColumn) -> str:
    """Return the mean score at one side of a gain with its unit, over the seeds that both sides have."""
    cells = task.task.at(*place)
    mean = float(np.mean([score_of(cells[seed]) for seed in gain.seeds]))
    return f"{format.score(task.metric, mean)} {task.metric.unit}".rstrip()


def _decides(task: TaskAnalysis, gain: Difference) -> bool:
    """Return whether a gain says something about its arm."""
    return bool(WORDS[gain.standing][0]) and not task.no_evidence(gain)


def arms(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    """Return (arm, explanation) for the arms of this experiment that have one."""
    known = {column for task in analysis.tasks for column in task.task.columns}
    return tuple((arm, sentence) for arm, (_, sentence) in ARMS.items() if arm in known)


def verdict(analysis: TaskAnalysis) -> str:
    """Return one sentence on the gain of a task, after its rows that decide nothing, if there are any."""
    treatment, control = analysis.task.headline
    if {found.standing for found in analysis.headline} == {Standing.NOTHING}:
        return (
            f"Nothing can be said yet about {treatment} against {_named(control)}: {_unfinished(analysis)}."
        )
    gains = [found for found in analysis.headline if found.a[0] in analysis.task.compared]
    phrases = []
    for standing, (_, phrase) in WORDS.items():
        rows = [_row(analysis, found) for found in gains if found.standing is standing]
        if rows:
            phrases.append(phrase.format(rows=format.listing(rows), tie=format.tie(analysis.metric)))
    low = _not_above_baseline(analysis)
    if low:
        name, reached = analysis.best_baseline
        which = "no arm" if len(low) == len(analysis.task.rows) else f"no arm of {format.listing(list(low))}"
        theirs = format.score(analysis.metric, reached)
        ours = format.score(analysis.metric, max(low.values()))
        phrases.append(f"{which} is clearly above the simple baseline “{name}” ({theirs}; best arm {ours})")
    if analysis.task.missing:
        phrases.append(_unfinished(analysis))

    reasons: dict[str, list[str]] = {}
    for found in gains:
        if why := analysis.no_evidence(found):
            reasons.setdefault(why, []).append(found.a[0])
    undecided = [f"Nothing is decided for {format.listing(rows)}: {why}. " for why, rows in reasons.items()]
    return f"{''.join(undecided)}Against {_named(control)}, {treatment} is {'; '.join(phrases)}."


def _row(analysis: TaskAnalysis, found: Difference) -> str:
    """Return a row with its gain, interval and number of seeds."""
    if found.estimate is None:
        return found.a[0]
    metric = analysis.metric
    size = f"{format.signed(metric, found.estimate.mean)}{format.points(metric)}"
    if found.estimate.bounds is None:
        return f"{found.a[0]} ({size})"
    low, high = (format.signed(metric, bound) for bound in found.estimate.bounds)
    repeated = "repeated " if found.design else ""
    seeds = format.plural(found.estimate.n, "seed")
    if found.design:
        verb = "decided" if found.standing in DECIDED else "not decided"
        seeds = f"{verb} after {found.estimate.n} of at most {format.plural(found.design.last, 'seed')}"
    return f"{found.a[0]} ({size}, {repeated}95 % interval {low} to {high}, {seeds})"


def seeds(analysis: Analysis) -> str:
    """Return the number of seeds, e.g. ``4 to 7 of at most 12 seeds``; "" if nothing has run."""
    if analysis.results.design or not analysis.seeds:
        return seeds_of(analysis, [found for task in analysis.tasks for found in task.means.values()])
    return format.plural(analysis.seeds, "seed")


def seeds_of(analysis: Analysis, found: Sequence[Estimate]) -> str:
    """Return the smallest and the largest number of seeds behind some estimates; "" without any."""
    counts = sorted({each.n for each in found})
    if not counts:
        return ""
    fewest = f"{counts[0]} to " if len(counts) > 1 else ""
    design = analysis.results.design
    most = f"{counts[-1]} of at most {format.plural(design.last, 'seed')}" if design else ""
    return fewest + (most or format.plural(counts[-1], "seed"))


def _not_above_baseline(analysis: TaskAnalysis) -> dict[str, float]:
    """Return the rows whose best arm is not clearly above the best simple baseline, with that arm's mean."""
    best: dict[str, float] = {}
    for (row, _), found in analysis.means.items():
        best[row] = max(found.mean, best.get(row, found.mean))
    _, reached = analysis.best_baseline
    return {row: mean for row, mean in best.items() if mean <= reached + analysis.metric.tie}


def _unfinished(analysis: TaskAnalysis) -> str:
    task = analysis.task
    if not task.missing:
        return "no seed has a score in both"
    verb = "is" if task.missing == 1 else "are"
    return f"{task.missing} of {format.plural(len(task.cells), 'cell')} {verb} missing"


def ranking(analysis: TaskAnalysis) -> str:
    """Return one sentence on whether the order of the rows changes; "" with a single row."""
    pairs = analysis.pairs
    if not pairs:
        return ""
    treatment, control = analysis.task.headline
    if analysis.order == "changes":
        swaps = []
        for pair in (pair for pair in pairs if pair.order == "changes"):
            upper, lower = pair.rows if pair.control.standing is Standing.BETTER else pair.rows[::-1]
            swaps.append(f"{upper} falls from above {lower} to below it")
        return f"The ranking changes from {control} to {treatment}: {'; '.join(swaps)}."
    if analysis.order == "stays":
        means = {row: analysis.means[row, control].mean for row in analysis.task.compared}
        order = format.listing(sorted(means, key=lambda row: -means[row]))
        return f"The ranking does not change: {order}, best first, in {control} and in {treatment}."
    sides = {side.standing for pair in pairs for side in (pair.control, pair.treatment)}
    resolved = f"clearly further apart than the tie of {format.tie(analysis.metric)} in both {control} and "
    if Standing.ONE_SEED in sides and sides <= {Standing.ONE_SEED, Standing.NOTHING}:
        why = "one seed cannot tell chance from effect"
    elif any(pair.diverged for pair in pairs):
        why = f"training diverged in some of {control} or {treatment}"
    elif len(pairs) == 1:
        why = f"{format.listing(list(pairs[0].rows))} are not {resolved}{treatment}"
    else:
        stay = sum(pair.order == "stays" for pair in pairs)
        verb = "is" if stay < 2 else "are"
        why = f"of {len(pairs)} pairs of models, {stay or 'none'} {verb} {resolved}{treatment}"
    return f"Whether the ranking changes is not resolved: {why}."


def _named(column: str) -> str:
    explained, _ = ARMS.get(column, ("", ""))
    return f"{explained} ({column})" if explained else column


def standings(tasks: Sequence[TaskAnalysis]) -> str:
    """Return the headline gains of tasks as counts: ``SPT against scratch: 1 better (s4d), 9 unclear``."""
    gains = [(task, gain) for task in tasks for gain in task.headline if gain.a[0] in task.task.compared]
    counts = []
    for standing in Standing:
        rows = [gain.a[0] for _, gain in gains if gain.standing is standing]
        named = f" ({', '.join(rows)})" if len(tasks) == 1 and len(rows) <= FEW else ""
        counts += [f"{len(rows)} {standing.value}{named}"] if rows else []
    heads = dict.fromkeys(" against ".join(task.task.headline) for task in tasks)
    text = f"{' or '.join(heads)}: {', '.join(counts) or 'no model has both'}"
    if low := sum(len(_not_above_baseline(task)) for task in tasks):
        text += f"; {low} of {sum(len(task.task.rows) for task in tasks)} not clearly above a simple baseline"
    if void := sum(bool(task.no_evidence(gain)) for task, gain in gains):
        text += f"; {void} of {len(gains)} decide nothing (diverged, equal answers or ceiling)"
    return text


def on_average(analysis: Analysis) -> str:
    """Return the headline gains averaged over tasks, per model; "" if the tasks cannot be averaged."""
    first = analysis.tasks[0]
    found = [
        f"{format.signed(first.metric, gain.estimate.mean)} "
        f"{format.interval(first.metric, gain.estimate.bounds)} ({gain.a[0]})"
        for gain in analysis.overall
        if gain.estimate is not None and (gain.a[1], gain.b[1]) == first.task.headline
    ]
    if not found:
        return ""
    unit = format.points(first.metric).strip() or "score"
    both = " against ".join(first.task.headline)
    tasks = format.plural(len(analysis.tasks), "task")
    return f"On average over {tasks}: {both}, in {unit}: {', '.join(found)}."


def claim(analysis: Analysis) -> str:
    """Return one sentence to quote: the headline gains with their intervals, seeds and version."""
    results = analysis.results
    several = len(analysis.tasks) > 1
    gains = [
        (task, gain, gain.estimate) for task in analysis.tasks for gain in task.headline if gain.estimate
    ]
    if not gains or results.scale == "smoke":
        return "Nothing can be claimed yet."
    compared: dict[str, list[str]] = {}  # by metric and arms, in which tasks may differ
    for task, gain, estimate in gains:
        size = f"{format.signed(task.metric, estimate.mean)}{format.points(task.metric)}"
        interval = f" {format.interval(task.metric, estimate.bounds)}" if estimate.bounds else ""
        why = task.no_evidence(gain)
        said = f"{size}{interval} for {gain.a[0]}{f' on {task.label}' * several}{f' ({why})' * bool(why)}"
        where = f" on {task.label}" * (not several)
        arms_of_it = f"between {gain.a[1]} and {_named(gain.b[1])}, paired by seed, is "
        compared.setdefault(f"in test {format.name(task.metric)}{where} {arms_of_it}", []).append(said)
    found = "; that ".join(f"{words}{format.listing(sizes)}" for words, sizes in compared.items())
    repeated = "repeated " if results.design else ""
    bounded = [estimate for _, _, estimate in gains if estimate.bounds]
    over = "seeds" if any(each.over_examples is None for each in bounded) else "seeds and test examples"
    intervals = f"{repeated}95 % intervals over {over}" if bounded else "no interval"
    return (
        f"The difference {found} ({seeds_of(analysis, [estimate for *_, estimate in gains])}; {intervals}; "
        f"selfpretrain {results.version}, {results.scale} scale)."
    )


def advice(analysis: Analysis) -> tuple[str, ...]:
    """Return advice on what to do next, most useful first; only for experiments on one task."""
    if analysis.results.scale == "smoke":
        return ("Run it again without --scale smoke: this run only shows that everything works.",)
    if len(analysis.tasks) != 1 or not analysis.tasks[0].means:
        return ()
    task = analysis.tasks[0]
    place, best = max(task.means.items(), key=lambda item: item[1].mean)
    score = format.score(task.metric, best.mean)
    name, reached = task.best_baseline
    simple = format.score(task.metric, reached) if name else ""
    if name and best.mean <= reached + task.metric.tie:
        lines = [f"Use the simple baseline: “{name}” scores {simple}, the best network {score}."]
    else:
        beside = f"; “{name}”, the best simple baseline, {simple}" if name else ""
        lines = [f"Take this model: {place[0]}, {place[1]}, which scores {score}{beside}."]
    if task.late:
        lines.append(f"Train longer: {format.listing(list(task.late))} still improved when training ended.")
    cells = task.task.at(*place).values()
    gaps = [cell.training_score - score_of(cell) for cell in cells if cell.training_score is not None]
    if gaps and (gap := float(np.mean(gaps))) >= OVERFIT:
        lines.append(
            f"Label more: {place[0]}, {place[1]}, knows its {task.task.card.labelled} labelled "
            f"sequences better than new ones by {format.score(task.metric, gap)}{format.points(task.metric)}."
        )
    most = max((len(gain.seeds) for gain in task.headline), default=0)
    if 0 < most < FEWEST and task.task.design is None:
        lines.append(f"Repeat with --seeds {FEWEST}: {format.plural(most, 'seed')} can mislead.")
    return tuple(lines)
