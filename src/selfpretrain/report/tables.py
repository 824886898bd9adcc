"""The tables of a report (scores, gains, costs, runs), shared by all renderers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from ..system.events import format_duration
from . import format
from .analysis import Analysis, Difference, RowColumn, RowOrder, TaskAnalysis
from .layout import Entry, ReportTable
from .manifest import Metric
from .paper_numbers import PaperNumber
from .stage_results import CellResult, StageCost
from .statistics import holm

INTERVALS = (
    "95 % intervals: Student's t over seeds; and combined with the choice of test examples, which is "
    "conservative and decides the verdict."
)
MEANS = "Mean ± half-width of the 95 % t-interval over seeds (number of seeds); one seed has none."
BEST = "Bold: the best arm of a model."
AVERAGE = "average"
SIGN_FLIP, HOLM = "sign-flip p", "Holm p"
MISSING, BLANK = Entry("missing"), Entry(format.NONE)
MOST_PAIRS = 15
"""Up to this number of model pairs, unresolved pairs are listed, too."""


def scores(analysis: Analysis) -> ReportTable:
    """Build the main table: a row per model for one task; per model and arm for several tasks or a paper."""
    alone = len(analysis.tasks) == 1 and not analysis.printed
    return _arms_abreast(analysis.tasks[0]) if alone else _tasks_abreast(analysis)


def compact(analysis: Analysis) -> ReportTable:
    """Build the table for a paper: a row per model and arm, mean ± interval on every task."""
    units = {format.unit(task.metric) for task in analysis.tasks}
    named = [f"{t.label}{'' if len(units) == 1 else f', {format.unit(t.metric)}'}" for t in analysis.tasks]
    rows = tuple(
        (*map(Entry, place), *(_without_count(task, place) for task in analysis.tasks))
        for place in places(analysis)
    )
    what = f"Test {units.pop()}" if len(units) == 1 else "Test scores"
    return ReportTable(
        "compact",
        f"{what}, mean ± half-width of the 95 % interval over {format.plural(analysis.seeds, 'seed')}",
        ("model", "arm", *named),
        rows,
        BEST,
        words=2,
    )


def brief(analysis: Analysis) -> tuple[ReportTable, ...]:
    """Build a table per task for a terminal of 80 columns: score, gain and interval."""
    made = [_brief(task) for task in analysis.tasks]
    captions = dict.fromkeys(table.caption for table in made)
    return tuple(
        replace(table, caption=table.caption if table is made[-1] or len(captions) > 1 else "")
        for table in made
    )


def spent(analysis: Analysis) -> Entry:
    """Return the cost of an experiment; a stage that cells share counts once."""
    once = {stage.folder: stage.cost for cell in analysis.results.cells for stage in cell.stages}
    return _spent(list(once.values()))


def _brief(task: TaskAnalysis) -> ReportTable:
    _, control = task.task.headline
    gains = {gain.a: gain for gain in reversed(task.gains) if gain.b[1] == control}
    rows = tuple(
        (
            Entry(row),
            Entry(column),
            _without_count(task, (row, column)),
            *_brief_gain(task, gains.get((row, column))),
        )
        for row in task.task.rows
        for column in task.task.columns
    )
    return ReportTable(
        "brief",
        f"{task.label}: test {format.unit(task.metric)}",
        ("model", "arm", "score", "gain", "95 % interval"),
        rows,
        f"Score: mean ± half-width of the 95 % interval over seeds. Gain: over {control}, paired by seed; "
        f"its interval counts seeds and test examples. {BEST}",
        words=2,
    )


def _brief_gain(task: TaskAnalysis, gain: Difference | None) -> tuple[Entry, Entry]:
    if gain is None or gain.estimate is None:
        return Entry(""), Entry("")
    size = Entry(format.signed(task.metric, gain.estimate.mean), key=gain.estimate.mean)
    return size, Entry(format.interval(task.metric, gain.estimate.bounds))


def gains(analysis: Analysis) -> ReportTable:
    """Build the table of all contrasts: both intervals, and p values with and without Holm's correction."""
    known = [(task, gain) for task in analysis.tasks for gain in task.gains if gain.estimate is not None]
    corrected = _holm([gain for _, gain in known])
    tests = _tests([gain for _, gain in known], corrected)
    rows = tuple(
        (
            Entry(task.label),
            *_contrast(task.metric, gain),
            *(_probability(p) for p in (gain.p, p)[: len(tests)]),
        )
        for (task, gain), p in zip(known, corrected, strict=True)
    )
    rows += tuple(
        (
            Entry(AVERAGE),
            *_contrast(analysis.tasks[0].metric, gain),
            *(_probability(p) for p in (gain.p, None)[: len(tests)]),
        )
        for gain in analysis.overall
    )
    counts = dict.fromkeys(_counted(task.metric) for task in analysis.tasks)
    ties = dict.fromkeys(format.tie(task.metric) for task in analysis.tasks)
    holm_said = " Holm: corrected for all models and tasks of the same comparison." if HOLM in tests else ""
    overall = " Average: over tasks, seed by seed, not corrected." if analysis.overall else ""
    intervals = ("seeds only", "seeds and examples")
    made = ReportTable(
        "gains",
        f"Differences{f' in {next(iter(counts))}' if len(counts) == 1 else ''}, paired by seed",
        ("task", "model", "comparison", "seeds", "difference", *intervals, *tests),
        rows,
        f"{INTERVALS} Tie: less than {' or '.join(ties)}.{holm_said}{overall}",
        words=3,
    )
    return by_task(analysis, made)


def order(task: TaskAnalysis) -> ReportTable:
    """Build the table of model pairs and whether their order changes from control to treatment."""
    treatment, control = task.task.headline
    pairs = task.ranking.pairs if task.ranking else ()
    shown = [pair for pair in pairs if len(pairs) <= MOST_PAIRS or pair.order is not RowOrder.UNRESOLVED]
    words = {RowOrder.CHANGES: "changes", RowOrder.STAYS: "stays", RowOrder.UNRESOLVED: "not resolved"}
    rows = tuple(
        (
            Entry(f"{pair.rows[0]} {format.MINUS} {pair.rows[1]}"),
            _gain(task.metric, pair.control),
            _gain(task.metric, pair.treatment),
            Entry(words[pair.order]),
        )
        for pair in shown
    )
    left_out = (
        f" {len(pairs) - len(shown)} pairs that are not are left out." if len(shown) < len(pairs) else ""
    )
    return ReportTable(
        "ranking",
        f"Does the order of the models change? Differences in {_counted(task.metric)}",
        ("pair", control, treatment, "order"),
        rows,
        "Difference [95 % interval of seeds and examples]; resolved if it excludes ties in both columns."
        + left_out,
    )


def costs(analysis: Analysis) -> ReportTable:
    """Build the table of costs: one run of each arm by task, all runs, and the compute really spent."""
    rows = []
    for column in dict.fromkeys(column for _, column in places(analysis)):
        cells = [[c for c in task.task.finished if c.column == column] for task in analysis.tasks]
        planned = [column in task.task.columns for task in analysis.tasks]
        rows.append((Entry(column), *map(_cost, cells, planned), _spent(list(chain.from_iterable(cells)))))
    blank = [Entry("")] * len(analysis.tasks)
    rows.append((Entry("spent, each stage once"), *blank, spent(analysis)))
    record = analysis.results.record
    asked = f" The cells ask for {record.asked} stages, {record.different} of them different."
    return ReportTable(
        "costs",
        "One run of every arm, and all runs",
        ("arm", *(task.label for task in analysis.tasks), "all runs"),
        tuple(rows),
        "Of a task: mean over models and seeds of one run with all its stages. All runs: their sum, a shared "
        f"stage counted in each.{asked if record.asked else ''}",
    )


def costs_by_model(task: TaskAnalysis) -> ReportTable:
    """Build the table of compute and time of every model and arm, mean over seeds."""
    rows = tuple(
        (Entry(row), *(_cost(list(task.task.at(row, column).values())) for column in task.task.columns))
        for row in task.task.rows
    )
    caption = "Mean over seeds of all stages of an arm, pretraining included, also where stages are shared."
    title = "What one run of each arm cost"
    return ReportTable("model-costs", title, ("model", *task.task.columns), rows, caption)


def baselines(analysis: Analysis) -> ReportTable:
    """Build the table of simple baselines of every task, chance included."""
    rows = tuple(
        (Entry(task.label), Entry(name), Entry(format.score(task.metric, value), key=value))
        for task in analysis.tasks
        for name, value in {"chance": task.task.record.task.chance, **task.task.record.baselines}.items()
        if value is not None
    )
    units = list(dict.fromkeys(format.unit(task.metric) for task in analysis.tasks))
    title = f"Without a network, test {format.listing(units)}"
    return by_task(analysis, ReportTable("baselines", title, ("task", "baseline", "score"), rows, words=2))


def runs(analysis: Analysis) -> ReportTable:
    """Build the table of all runs, a row per cell and seed."""
    headings = ("test", "validation", "best step", "steps", "stopped by", "compute", "time")
    units = list(dict.fromkeys(format.unit(task.metric) for task in analysis.tasks))
    made = ReportTable(
        "seeds",
        "Every run",
        ("task", "model", "arm", "seed", *headings),
        tuple((Entry(t.label), *_run(cell, t)) for t in analysis.tasks for cell in t.task.cells),
        f"Scores: {format.listing(units)}. Steps of the scored stage; compute and time of all stages.",
        words=3,
        sortable=True,
    )
    return by_task(analysis, made)


def by_task(analysis: Analysis, made: ReportTable) -> ReportTable:
    """Drop the first column, the task, if there is only one task."""
    if len(analysis.tasks) != 1:
        return made
    rows = tuple(row[1:] for row in made.rows)
    return replace(made, headings=made.headings[1:], rows=rows, words=made.words - 1)


def places(analysis: Analysis) -> list[RowColumn]:
    """Return the (row, column) places of all tasks, row by row."""
    tasks = [task.task for task in analysis.tasks]
    there = {(cell.row, cell.column) for task in tasks for cell in task.cells}
    rows = dict.fromkeys(row for task in tasks for row in task.rows)
    columns = dict.fromkeys(column for task in tasks for column in task.columns)
    return [(row, column) for row in rows for column in columns if (row, column) in there]


def _arms_abreast(task: TaskAnalysis) -> ReportTable:
    """Build the main table of one task, a row per model: parameters, score of every arm, headline gain."""
    treatment, control = task.task.headline
    columns = task.task.columns
    tests = _tests(task.headline, [])
    rows = tuple(
        (
            Entry(gain.a[0]),
            _parameters(task, gain.a[0]),
            *(_score(task, (gain.a[0], column)) for column in columns),
            _gain(task.metric, gain),
            *(_probability(gain.p) for _ in tests),
        )
        for gain in task.headline
    )
    return ReportTable(
        "scores",
        f"Test {format.unit(task.metric)}",
        ("model", "parameters", *columns, f"{treatment} {format.MINUS} {control}", *tests),
        rows,
        f"{MEANS} The difference is paired by seed; its 95 % interval counts seeds and test examples, for "
        f"each row by itself. {BEST}",
    )


def _tasks_abreast(analysis: Analysis) -> ReportTable:
    """Build the main table of several tasks, a row per model and arm: our and the paper's scores, average."""
    units = {format.unit(task.metric) for task in analysis.tasks}
    averaged = analysis.averaged
    headings: list[str] = []
    for task in analysis.tasks:
        unit = "" if len(units) == 1 else f", {format.unit(task.metric)}"
        headings += [f"{task.label}{unit}", *(["paper"] if _has_paper(task) else [])]
    rows = tuple(
        (
            *map(Entry, place),
            *chain.from_iterable(_beside(task, place) for task in analysis.tasks),
            *([_average(analysis.tasks, place)] if averaged else []),
        )
        for place in places(analysis)
    )
    average = " Average: over the means of all tasks, where all have one." if averaged else ""
    paper = f" Paper: {format.listing(analysis.paper_tables)}." if analysis.paper_tables else ""
    return ReportTable(
        "results",
        f"Test {units.pop()}" if len(units) == 1 else "Test scores",
        ("model", "arm", *headings, *(["average"] if averaged else [])),
        rows,
        f"{MEANS} {BEST[:-1]} on a task.{average}{paper}",
        words=2,
    )


def _score(task: TaskAnalysis, place: RowColumn) -> Entry:
    """Return mean and interval over seeds, bold if it is the best of its row; † if a run diverged."""
    estimate = task.means.get(place)
    if estimate is None:
        return MISSING
    mark = " †" if task.diverged(place) else ""
    return Entry(f"{format.spread(task.metric, estimate)}{mark}", place in task.best, estimate.mean)


def _without_count(task: TaskAnalysis, place: RowColumn) -> Entry:
    entry = BLANK if place not in task.means else _score(task, place)
    return replace(entry, text=re.sub(r" \(\d+\)", "", entry.text))


def _has_paper(task: TaskAnalysis) -> bool:
    return any(cell.printed for cell in task.task.cells)


def _beside(task: TaskAnalysis, place: RowColumn) -> list[Entry]:
    """Return our score, followed by the paper's number if it has any for this task."""
    planned = any((cell.row, cell.column) == place for cell in task.task.cells)
    paper = [_paper(task.metric, task.task.printed(*place))] if _has_paper(task) else []
    return [_score(task, place) if planned else BLANK, *paper]


def _paper(metric: Metric, number: PaperNumber | None) -> Entry:
    if number is None or number.value is None:
        return BLANK
    value = number.within(metric.unit)
    text = f"{number.value:g} {number.unit}" if value is None else f"{value:g}"
    return Entry(text.replace("-", format.MINUS), key=value)


def _average(tasks: Sequence[TaskAnalysis], place: RowColumn) -> Entry:
    means = [task.means[place].mean for task in tasks if place in task.means]
    if len(means) < len(tasks):
        return BLANK
    mean = sum(means) / len(means)
    return Entry(format.score(tasks[0].metric, mean), key=mean)


def _gain(metric: Metric, difference: Difference) -> Entry:
    if difference.estimate is None:
        return MISSING
    size = format.signed(metric, difference.estimate.mean)
    bounds = difference.estimate.bounds
    spread = "(one seed)" if bounds is None else format.interval(metric, bounds)
    return Entry(f"{size} {spread}", key=difference.estimate.mean)


def _contrast(metric: Metric, difference: Difference) -> tuple[Entry, ...]:
    assert difference.estimate is not None, "contrasts without a pair are left out"
    return (
        Entry(difference.a[0]),
        Entry(f"{difference.a[1]} {format.MINUS} {difference.b[1]}"),
        Entry(str(difference.estimate.n)),
        Entry(format.signed(metric, difference.estimate.mean), key=difference.estimate.mean),
        Entry(format.interval(metric, difference.estimate.seed_bounds)),
        Entry(format.interval(metric, difference.estimate.bounds)),
    )


def _tests(gains: Sequence[Difference], corrected: Sequence[float | None]) -> tuple[str, ...]:
    """Return the headings of the p value columns that are not empty."""
    if all(gain.p is None for gain in gains):
        return ()
    return (SIGN_FLIP, HOLM) if sum(p is not None for p in corrected) > 1 else (SIGN_FLIP,)


def _holm(gains: list[Difference]) -> list[float | None]:
    """Return the p values of gains, Holm-corrected within each comparison."""
    corrected: dict[int, float | None] = {}
    for contrast in dict.fromkeys((gain.a[1], gain.b[1]) for gain in gains):
        family = [at for at, gain in enumerate(gains) if (gain.a[1], gain.b[1]) == contrast]
        corrected |= zip(family, holm([gains[at].p for at in family]), strict=True)
    return [corrected[at] for at in range(len(gains))]


def _probability(p: float | None) -> Entry:
    return Entry(format.probability(p), key=p)


def _parameters(task: TaskAnalysis, row: str) -> Entry:
    counts = sorted({cell.scored.cost.parameters for cell in task.task.finished if cell.row == row})
    texts = list(dict.fromkeys(format.quantity(float(count)) for count in counts[:1] + counts[-1:]))
    return Entry(" to ".join(texts) or format.NONE, key=float(counts[0]) if counts else None)


def _cost(cells: Sequence[CellResult], planned: bool = True) -> Entry:
    """Return compute and time of one run, mean over finished cells."""
    return _spent(cells, len(cells)) if cells else MISSING if planned else BLANK


def _spent(cells: Sequence[CellResult | StageCost], among: int = 1) -> Entry:
    """Return the summed compute and time of cells or stages, divided by ``among``."""
    flops = sum((cell.flops for cell in cells), 0.0) / among
    seconds = sum((cell.seconds for cell in cells), 0.0) / among
    return Entry(f"{format.flops(flops)}, {format_duration(seconds)}", key=flops)


def _counted(metric: Metric) -> str:
    return "points" if metric.unit == "%" else format.unit(metric)


def _run(cell: CellResult, task: TaskAnalysis) -> tuple[Entry, ...]:
    known, metric = tuple(map(Entry, (cell.row, cell.column, task.task.repetition(cell)))), task.metric
    if not cell.finished:
        return (*known, MISSING, *([BLANK] * 6))
    scored = cell.scored
    return (
        *known,
        _plain(cell.score, metric),
        _plain(scored.scores.get("val", {}).get("score"), metric),
        Entry(str(scored.best_step)),
        Entry(str(scored.steps)),
        Entry(scored.stopped),
        Entry(format.flops(cell.flops), key=cell.flops),
        Entry(format_duration(cell.seconds), key=cell.seconds),
    )


def _plain(value: float | None, metric: Metric) -> Entry:
    return BLANK if value is None else Entry(format.score(metric, value), key=value)
