"""The tables of scores, gains and costs, shared by all renderers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..system.events import format_duration
from . import format, summary
from .analysis import Analysis, Difference, RowColumn, Standing, TaskAnalysis
from .layout import Entry, ReportTable
from .results import CellResult, Metric
from .sequential import SequentialDesign
from .stage_results import StageCost
from .statistics import holm

MEANS = "Mean ± half-width of the 95 % t-interval over seeds (number of seeds); one seed has none."
BEST = "Bold: the best arm of a model."
MISSING = Entry("missing")
UNDEFINED = Entry("no finite score")
BLANK = Entry(format.NONE)


def scores(analysis: Analysis) -> ReportTable:
    """Build the main table: a row per model for one task or for many; else per model and arm."""
    if analysis.reported or not (analysis.many or len(analysis.tasks) == 1):
        return _scores_of_tasks(analysis)
    first = analysis.tasks[0].task
    tests = _p_heading([gain for task in analysis.tasks for gain in task.headline])
    rows = tuple(row for task in analysis.tasks for row in _score_rows(task, len(tests)))
    difference = f" {format.MINUS} ".join(first.headline)
    headings = ("task", "model", "parameters", *first.columns, difference, *tests)
    caption = (
        f"{MEANS} The difference is paired by seed; its 95 % interval counts seeds and test examples, for "
        f"each row by itself. {BEST}{repeated(first.design)}"
    )
    return by_task(
        analysis, ReportTable("scores", title_of_scores(analysis), headings, rows, caption, words=2)
    )


def _score_rows(task: TaskAnalysis, tests: int) -> tuple[tuple[Entry, ...], ...]:
    columns = task.task.columns
    planned = task.task.places
    return tuple(
        (
            Entry(task.label),
            Entry(gain.a[0]),
            _parameters(task, gain.a[0]),
            *(_score(task, place) if (place := (gain.a[0], c)) in planned else BLANK for c in columns),
            _gain(task.metric, gain) if {gain.a, gain.b} <= planned else BLANK,
            *[Entry(format.probability(gain.p), key=gain.p)] * tests,
        )
        for gain in task.headline
    )


def baselines(analysis: Analysis) -> ReportTable:
    """Build the table of simple methods without a network, a row per task."""
    found = [{"chance": task.task.card.chance, **task.task.baselines} for task in analysis.tasks]
    names = list(dict.fromkeys(name for of in found for name, reached in of.items() if reached is not None))
    rows = tuple(
        (Entry(task.label), *(_reached(task.metric, of.get(name)) for name in names))
        for task, of in zip(analysis.tasks, found, strict=True)
    )
    title = f"Without a network: {title_of_scores(analysis).lower()}"
    return ReportTable("baselines", title, ("task", *names), rows if names else ())


def _reached(metric: Metric, score: float | None) -> Entry:
    return BLANK if score is None else Entry(format.score(metric, score), key=score)


def _scores_of_tasks(analysis: Analysis) -> ReportTable:
    """Build the main table of several tasks, a row per model and arm: our and the paper's scores, average."""
    papers = [any(cell.reported for cell in task.task.cells) for task in analysis.tasks]
    headings: list[str] = []
    for label, paper in zip(_labels(analysis), papers, strict=True):
        headings += [label, "paper"] if paper else [label]
    caption = f"{MEANS} {BEST[:-1]} on a task.{repeated(analysis.results.design)}"
    if analysis.averaged:
        headings.append("average")
        caption += " Average: over the means of all tasks, where all have one."
    if analysis.paper_tables:
        caption += f" Paper: {format.listing(analysis.paper_tables)}."
    rows = []
    for place in places(analysis):
        entries = []
        for task, paper in zip(analysis.tasks, papers, strict=True):
            entries.append(_score(task, place) if place in task.task.places else BLANK)
            entries += [_paper(task, place)] if paper else []
        if analysis.averaged:
            means = [task.means[place].mean for task in analysis.tasks if place in task.means]
            mean = sum(means) / max(len(means), 1)
            shown = Entry(format.score(analysis.tasks[0].metric, mean), key=mean)
            entries.append(shown if len(means) == len(analysis.tasks) else BLANK)
        rows.append((*map(Entry, place), *entries))
    return ReportTable(
        "results", title_of_scores(analysis), ("model", "arm", *headings), tuple(rows), caption, words=2
    )


def compact(analysis: Analysis) -> ReportTable:
    """Build the table for a paper: a row per model and arm, mean ± interval on every task."""
    rows = tuple(
        (*map(Entry, place), *(_score_without_count(task, place) for task in analysis.tasks))
        for place in places(analysis)
    )
    means = [found for task in analysis.tasks for found in task.means.values()]
    seeds = summary.seeds_of(analysis, means) or format.plural(0, "seed")
    title = f"{title_of_scores(analysis)}, mean ± half-width of the 95 % interval over {seeds}"
    caption = f"{BEST}{repeated(analysis.results.design)}"
    return ReportTable("compact", title, ("model", "arm", *_labels(analysis)), rows, caption, words=2)


def repeated(design: SequentialDesign | None) -> str:
    """Return a sentence, with a space before it, on the intervals of a sequential design; "" without one."""
    if design is None:
        return ""
    return (
        f" Seeds were added from {design.first} to at most {design.last}, until the verdict was decided; "
        "intervals are repeated confidence intervals: those of all interim analyses together hold at 95 %, "
        f"each by itself at {100 * design.confidence:.2f} %."
    )


def brief(analysis: Analysis) -> tuple[ReportTable, ...]:
    """Build a table per task for a terminal of 80 columns: score, gain and interval."""
    made = [_brief(task) for task in analysis.tasks]
    if len({table.caption for table in made}) > 1:
        return tuple(made)
    return (*(replace(table, caption="") for table in made[:-1]), made[-1])


def _brief(task: TaskAnalysis) -> ReportTable:
    _, control = task.task.headline
    gains = {gain.a: gain for gain in reversed(task.gains) if gain.b[1] == control}
    rows = []
    for place in ((row, column) for row in task.task.rows for column in task.task.columns):
        gain = gains.get(place)
        size = bounds = Entry("")
        if gain and gain.estimate:
            size = Entry(format.signed(task.metric, gain.estimate.mean), key=gain.estimate.mean)
            bounds = Entry(format.interval(task.metric, gain.estimate.bounds))
        rows.append((*map(Entry, place), _score_without_count(task, place), size, bounds))
    return ReportTable(
        "brief",
        f"{task.label}: test {format.unit(task.metric)}",
        ("model", "arm", "score", "gain", "95 % interval"),
        tuple(rows),
        f"Score: mean ± half-width of the 95 % interval over seeds. Gain: over {control}, paired by seed; "
        f"its interval counts seeds and test examples. {BEST}{repeated(task.task.design)}",
        words=2,
    )


def gains(analysis: Analysis) -> ReportTable:
    """Build the table of all contrasts: verdict, intervals, p values with and without Holm's correction."""
    known = [(task, gain) for task in analysis.tasks for gain in task.gains if gain.estimate is not None]
    corrected: list[float | None] = [None] * len(known)  # within each comparison
    for contrast in dict.fromkeys((gain.a[1], gain.b[1]) for _, gain in known):
        family = [at for at, (_, gain) in enumerate(known) if (gain.a[1], gain.b[1]) == contrast]
        for at, p in zip(family, holm([known[at][1].p for at in family]), strict=True):
            corrected[at] = p
    tests = _p_heading([gain for _, gain in known])
    if sum(p is not None for p in corrected) > 1:
        tests = (*tests, "Holm p")
    labels = dict(zip((task.label for task in analysis.tasks), _labels(analysis, _of_gain), strict=True))
    lines = [
        (labels[task.label], task.metric, gain, p) for (task, gain), p in zip(known, corrected, strict=True)
    ] + [("average", analysis.tasks[0].metric, gain, None) for gain in analysis.overall]
    rows = []
    for label, metric, gain, p in lines:
        assert gain.estimate is not None, "contrasts without a pair are left out"
        words = (label, gain.a[0], f"{gain.a[1]} {format.MINUS} {gain.b[1]}", gain.standing.value)
        found = gain.estimate
        numbers = (
            Entry(str(found.n)),
            Entry(format.signed(metric, found.mean), key=found.mean),
            interval(metric, found.seed_bounds),
            interval(metric, found.bounds),
        )
        ps = (Entry(format.probability(of), key=of) for of in (gain.p, p)[: len(tests)])
        rows.append((*map(Entry, words), *numbers, *ps))
    ties = dict.fromkeys(format.tie(task.metric) for task in analysis.tasks)
    caption = (
        "95 % intervals: Student's t over seeds; and combined with the choice of test examples, which is "
        f"conservative and decides the verdict. Tie: less than {' or '.join(ties)}."
    )
    caption += repeated(analysis.results.design)
    if "Holm p" in tests:
        caption += " Holm: corrected for all models and tasks of the same comparison."
    if analysis.overall:
        caption += " Average: over tasks, seed by seed, not corrected."
    units = {_of_gain(task.metric) for task in analysis.tasks}
    title = f"Differences{f' in {units.pop()}' if len(units) == 1 else ''}, paired by seed"
    intervals = ("seeds only", "seeds and examples")
    headings = ("task", "model", "comparison", "verdict", "seeds", "difference", *intervals, *tests)
    return by_task(analysis, ReportTable("gains", title, headings, tuple(rows), caption, words=4))


def costs(analysis: Analysis) -> ReportTable:
    """Build the table of costs: one run of each arm by task, all runs, and the compute really spent."""
    rows = []
    for column in dict.fromkeys(column for _, column in places(analysis)):
        entries = []
        every = []
        for task in analysis.tasks:
            cells = [cell for cell in task.task.finished if cell.column == column]
            absent = MISSING if column in task.task.columns else BLANK
            entries.append(_cost(cells, len(cells)) if cells else absent)
            every += cells
        rows.append((Entry(column), *entries, _cost(every)))
    rows.append((Entry("spent, each stage once"), *[Entry("")] * len(analysis.tasks), spent(analysis)))
    headings = ("arm", *(task.label for task in analysis.tasks), "all runs")
    if analysis.many:  # tasks in a column would be too wide
        rows = [(row[0], row[-1]) for row in rows]
        headings = ("arm", "all runs")
    caption = (
        "One task: mean over models and seeds of one run with all its stages. All runs: their sum, a shared "
        "stage counted in each."
    )
    if any(len(task.task.places) < len(task.task.rows) * len(task.task.columns) for task in analysis.tasks):
        caption += " Not every model has every arm, so means of two arms may be over different models."
    results = analysis.results
    if results.asked:
        caption += f" The cells ask for {results.asked} stages, {results.different} of them different."
    if results.tried:
        caption += f" Spent: with the {format.plural(len(results.tried), 'stage')} of tuning."
    return ReportTable(
        "costs", "One run of every arm, and all runs", headings, tuple(rows), caption, footer=1
    )


def spent(analysis: Analysis) -> Entry:
    """Return the cost of an experiment, with that of tuning; a stage that cells share counts once."""
    results = analysis.results
    once = {stage.folder: stage.cost for stage in (*results.done, *results.tried)}
    found = _cost(list(once.values()))
    if gone := len(results.trials) - len(results.tried):
        return replace(found, text=f"{found.text}, without {format.plural(gone, 'stage')} of tuning, deleted")
    return found


def _cost(parts: Sequence[CellResult | StageCost], among: int = 1) -> Entry:
    """Return the summed compute and time of cells or stages, divided by ``among``."""
    flops = sum((part.flops for part in parts), 0.0) / among
    seconds = sum((part.seconds for part in parts), 0.0) / among
    return Entry(f"{format.flops(flops)}, {format_duration(seconds)}", key=flops)


def interval(metric: Metric, bounds: tuple[float, float] | None) -> Entry:
    """Return the interval of a difference, sorted by its lower bound."""
    return Entry(format.interval(metric, bounds), key=bounds and bounds[0])


def by_task(analysis: Analysis, made: ReportTable) -> ReportTable:
    """Drop the first column, the task, if there is only one task."""
    if len(analysis.tasks) != 1:
        return made
    rows = tuple(row[1:] for row in made.rows)
    return replace(made, headings=made.headings[1:], rows=rows, words=made.words - 1)


def places(analysis: Analysis) -> list[RowColumn]:
    """Return the (row, column) places of all tasks, row by row."""
    tasks = [task.task for task in analysis.tasks]
    planned = {place for task in tasks for place in task.places}
    rows = dict.fromkeys(row for task in tasks for row in task.rows)
    columns = dict.fromkeys(column for task in tasks for column in task.columns)
    return [(row, column) for row in rows for column in columns if (row, column) in planned]


def title_of_scores(analysis: Analysis) -> str:
    """Return what all scores are, without a unit if tasks differ in it."""
    units = {format.unit(task.metric) for task in analysis.tasks}
    return f"Test {units.pop()}" if len(units) == 1 else "Test scores"


def _labels(analysis: Analysis, unit: Callable[[Metric], str] = format.unit) -> list[str]:
    """Return the names of the tasks, with their units if these differ."""
    if len({unit(task.metric) for task in analysis.tasks}) == 1:
        return [task.label for task in analysis.tasks]
    return [f"{task.label}, {unit(task.metric)}" for task in analysis.tasks]


def _of_gain(metric: Metric) -> str:
    """Return the unit of a difference: points, or as of a score."""
    return "points" if metric.unit == "%" else format.unit(metric)


def _score(task: TaskAnalysis, place: RowColumn) -> Entry:
    """Return mean and interval over seeds, bold if it is the best of its row; † if a run diverged."""
    estimate = task.means.get(place)
    if estimate is None:
        return UNDEFINED if task.task.undefined(*place) else MISSING
    mark = " †" if task.task.diverged(place) else ""
    return Entry(f"{format.spread(task.metric, estimate)}{mark}", place in task.best, estimate.mean)


def _score_without_count(task: TaskAnalysis, place: RowColumn) -> Entry:
    entry = _score(task, place)
    return BLANK if entry is MISSING else replace(entry, text=re.sub(r" \(\d+\)", "", entry.text))


def _paper(task: TaskAnalysis, place: RowColumn) -> Entry:
    """Return the number that the paper reports, in our unit where it can be converted."""
    number = task.task.reported(*place)
    if number is None or number.value is None:
        return BLANK
    value = number.in_unit(task.metric.unit)
    text = f"{number.value:g} {number.unit}" if value is None else f"{value:g}"
    return Entry(text.replace("-", format.MINUS), key=value)


def _gain(metric: Metric, difference: Difference) -> Entry:
    if difference.estimate is None:
        return UNDEFINED if difference.standing is Standing.UNDEFINED else MISSING
    bounds = difference.estimate.bounds
    spread = "(one seed)" if bounds is None else format.interval(metric, bounds)
    return Entry(f"{format.signed(metric, difference.estimate.mean)} {spread}", key=difference.estimate.mean)


def _p_heading(gains: Sequence[Difference]) -> tuple[str, ...]:
    """Return the heading of the column of p values; none if there were too few seeds for any."""
    if all(gain.p is None for gain in gains):
        return ()
    return ("repeated p" if any(gain.design for gain in gains) else "sign-flip p",)


def _parameters(task: TaskAnalysis, row: str) -> Entry:
    counts = sorted({cell.scored.cost.parameters for cell in task.task.finished if cell.row == row})
    texts = list(dict.fromkeys(format.quantity(float(count)) for count in counts[:1] + counts[-1:]))
    return Entry(" to ".join(texts) or format.NONE, key=float(counts[0]) if counts else None)
