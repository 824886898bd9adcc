"""The tables of a report (scores, gains, costs, runs), shared by all renderers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from ..system.events import format_duration
from . import format, summary
from .analysis import DECIDED, Analysis, Difference, RowColumn, RowOrder, TaskAnalysis
from .layout import Entry, ReportTable
from .manifest import Metric
from .paper_numbers import PaperNumber
from .sequential import Looks
from .stage_results import CellResult, StageCost
from .statistics import FEWEST, holm

MEANS = "Mean ± half-width of the 95 % t-interval over seeds (number of seeds); one seed has none."
BEST = "Bold: the best arm of a model."
SIGN_FLIP = "sign-flip p"
REPEATED = "repeated p"
HOLM = "Holm p"
MISSING = Entry("missing")
UNDEFINED = Entry("no finite score")
BLANK = Entry(format.NONE)
MOST_PAIRS = 15
"""Up to this number of model pairs, unresolved pairs are listed, too."""


def scores(analysis: Analysis) -> ReportTable:
    """Build the main table: a row per model for one task; per model and arm for several tasks or a paper."""
    alone = len(analysis.tasks) == 1 and not analysis.printed
    return _scores_of_task(analysis.tasks[0]) if alone else _scores_of_tasks(analysis)


def _scores_of_task(task: TaskAnalysis) -> ReportTable:
    """Build the main table of one task, a row per model: parameters, score of every arm, headline gain."""
    columns = task.task.columns
    tests = _p_headings(task.headline, [])
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
        ("model", "parameters", *columns, f" {format.MINUS} ".join(task.task.headline), *tests),
        rows,
        f"{MEANS} The difference is paired by seed; its 95 % interval counts seeds and test examples, for "
        f"each row by itself. {BEST}{repeated(task.task.looks)}",
    )


def _scores_of_tasks(analysis: Analysis) -> ReportTable:
    """Build the main table of several tasks, a row per model and arm: our and the paper's scores, average."""
    headings: list[str] = []
    for label, task in zip(_labels(analysis), analysis.tasks, strict=True):
        headings += [label, "paper"] if _has_paper(task) else [label]
    caption = f"{MEANS} {BEST[:-1]} on a task.{repeated(analysis.results.record.looks)}"
    if analysis.averaged:
        headings.append("average")
        caption += " Average: over the means of all tasks, where all have one."
    if analysis.paper_tables:
        caption += f" Paper: {format.listing(analysis.paper_tables)}."
    rows = []
    for place in places(analysis):
        entries = list(chain.from_iterable(_score_and_paper(task, place) for task in analysis.tasks))
        if analysis.averaged:
            entries.append(_average(analysis.tasks, place))
        rows.append((*map(Entry, place), *entries))
    return ReportTable("results", _unit(analysis), ("model", "arm", *headings), tuple(rows), caption, words=2)


def compact(analysis: Analysis) -> ReportTable:
    """Build the table for a paper: a row per model and arm, mean ± interval on every task."""
    rows = tuple(
        (*map(Entry, place), *(_score_without_count(task, place) for task in analysis.tasks))
        for place in places(analysis)
    )
    seeds = summary.seeds(analysis) or format.plural(0, "seed")
    title = f"{_unit(analysis)}, mean ± half-width of the 95 % interval over {seeds}"
    caption = f"{BEST}{repeated(analysis.results.record.looks)}"
    return ReportTable("compact", title, ("model", "arm", *_labels(analysis)), rows, caption, words=2)


def repeated(looks: Looks | None) -> str:
    """Return a sentence, with a space before it, on the intervals of a sequential design; "" without one."""
    if looks is None:
        return ""
    return (
        f" Seeds were added from {looks.first} to at most {looks.last}, until the verdict was decided; "
        "intervals are repeated confidence intervals: those of all looks together hold at 95 %."
    )


def looks(analysis: Analysis) -> ReportTable:
    """Build the table of the seeds after which every headline difference was decided, and what that saved."""
    design = analysis.results.record.looks
    gains = [(task, gain) for task in analysis.tasks for gain in task.headline if gain.estimate]
    rows = tuple(
        (
            Entry(task.label),
            Entry(gain.a[0]),
            Entry(f"{'decided' if gain.standing in DECIDED else 'not decided'}: {gain.standing.value}"),
            Entry(f"{len(gain.seeds)} of at most {gain.looks.last}", key=float(len(gain.seeds))),
            _gain(task.metric, gain),
            _probability(gain.p),
        )
        for task, gain in gains
        if gain.looks
    )
    caption = ""
    if design:
        alone = 100 * design.confidence
        caption = (
            f"Looks after {design.first} to {design.last} seeds, each with an interval of {alone:.2f} % by "
            f"itself. Spent: {spent(analysis).text}. Always {design.last} seeds would have cost "
            f"{_fixed_cost(analysis, design.last).text}; always {FEWEST} seeds, "
            f"{_fixed_cost(analysis, FEWEST).text}."
        )
    title = "As many seeds as the verdict needs"
    headings = ("task", "model", "verdict", "seeds", "difference", REPEATED)
    return by_task(analysis, ReportTable("looks", title, headings, rows, caption, words=3))


def _fixed_cost(analysis: Analysis, seeds: int) -> Entry:
    """Return what the same number of seeds of every model would have cost, at the mean cost of a seed."""
    costs = []
    for task in analysis.tasks:
        for row in task.task.rows:
            cells = [cell for cell in task.task.finished if cell.row == row]
            once = {stage.folder: stage.cost for cell in cells for stage in cell.stages}.values()
            repeats = seeds / max(len({cell.seed for cell in cells}), 1)
            flops = sum((cost.flops for cost in once), 0.0)
            seconds = sum((cost.seconds for cost in once), 0.0)
            costs.append(StageCost(0, flops * repeats, seconds * repeats))
    return _spent(costs)


def brief(analysis: Analysis) -> tuple[ReportTable, ...]:
    """Build a table per task for a terminal of 80 columns: score, gain and interval."""
    made = [_brief(task) for task in analysis.tasks]
    captions = dict.fromkeys(table.caption for table in made)
    return tuple(
        replace(table, caption=table.caption if table is made[-1] or len(captions) > 1 else "")
        for table in made
    )


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
        f"its interval counts seeds and test examples. {BEST}{repeated(task.task.looks)}",
        words=2,
    )


def gains(analysis: Analysis) -> ReportTable:
    """Build the table of all contrasts: both intervals, and p values with and without Holm's correction."""
    known = [(task, gain) for task in analysis.tasks for gain in task.gains if gain.estimate is not None]
    corrected = _holm([gain for _, gain in known])
    tests = _p_headings([gain for _, gain in known], corrected)
    lines = [
        (task.label, task.metric, gain, (gain.p, p)) for (task, gain), p in zip(known, corrected, strict=True)
    ]
    lines += [("average", analysis.tasks[0].metric, gain, (gain.p, None)) for gain in analysis.overall]
    rows = tuple(
        (Entry(label), *_contrast(metric, gain), *map(_probability, ps[: len(tests)]))
        for label, metric, gain, ps in lines
    )
    counts = dict.fromkeys(_counted(task.metric) for task in analysis.tasks)
    ties = dict.fromkeys(format.tie(task.metric) for task in analysis.tasks)
    caption = (
        "95 % intervals: Student's t over seeds; and combined with the choice of test examples, which is "
        f"conservative and decides the verdict. Tie: less than {' or '.join(ties)}."
    )
    caption += repeated(analysis.results.record.looks)
    if HOLM in tests:
        caption += " Holm: corrected for all models and tasks of the same comparison."
    if analysis.overall:
        caption += " Average: over tasks, seed by seed, not corrected."
    made = ReportTable(
        "gains",
        f"Differences{f' in {next(iter(counts))}' if len(counts) == 1 else ''}, paired by seed",
        ("task", "model", "comparison", "seeds", "difference", "seeds only", "seeds and examples", *tests),
        rows,
        caption,
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
            Entry(f" {format.MINUS} ".join(pair.rows)),
            _gain(task.metric, pair.control),
            _gain(task.metric, pair.treatment),
            Entry(words[pair.order]),
        )
        for pair in shown
    )
    caption = (
        "Difference [95 % interval of seeds and examples]; resolved if it excludes ties in both columns."
    )
    if len(shown) < len(pairs):
        caption += f" {len(pairs) - len(shown)} pairs that are not are left out."
    title = f"Does the order of the models change? Differences in {_counted(task.metric)}"
    return ReportTable("ranking", title, ("pair", control, treatment, "order"), rows, caption)


def costs(analysis: Analysis) -> ReportTable:
    """Build the table of costs: one run of each arm by task, all runs, and the compute really spent."""
    rows = []
    for column in dict.fromkeys(column for _, column in places(analysis)):
        cells = [[cell for cell in task.task.finished if cell.column == column] for task in analysis.tasks]
        planned = [column in task.task.columns for task in analysis.tasks]
        rows.append((Entry(column), *map(_cost, cells, planned), _spent(list(chain.from_iterable(cells)))))
    rows.append((Entry("spent, each stage once"), *[Entry("")] * len(analysis.tasks), spent(analysis)))
    caption = (
        "Of a task: mean over models and seeds of one run with all its stages. All runs: their sum, a shared "
        "stage counted in each."
    )
    record = analysis.results.record
    if record.asked:
        caption += f" The cells ask for {record.asked} stages, {record.different} of them different."
    headings = ("arm", *(task.label for task in analysis.tasks), "all runs")
    return ReportTable("costs", "One run of every arm, and all runs", headings, tuple(rows), caption)


def spent(analysis: Analysis) -> Entry:
    """Return the cost of an experiment; a stage that cells share counts once."""
    once = {stage.folder: stage.cost for cell in analysis.results.cells for stage in cell.stages}
    return _spent(list(once.values()))


def costs_by_model(task: TaskAnalysis, alone: bool = True) -> ReportTable:
    """Build the table of compute and time of every model and arm, mean over seeds.

    Args:
        alone: whether it is the only task; the title names it otherwise.
    """
    rows = tuple(
        (Entry(row), *(_cost(list(task.task.at(row, column).values())) for column in task.task.columns))
        for row in task.task.rows
    )
    caption = "Mean over seeds of all stages of an arm, pretraining included, also where stages are shared."
    title = f"What one run of each arm cost{'' if alone else f', {task.label}'}"
    return ReportTable("model-costs", title, ("model", *task.task.columns), rows, caption)


def baselines(analysis: Analysis) -> ReportTable:
    """Build the table of simple baselines of every task, chance included."""
    rows = tuple(
        (Entry(task.label), Entry(name), Entry(format.score(task.metric, value), key=value))
        for task in analysis.tasks
        for name, value in {"chance": task.task.record.task.chance, **task.task.record.baselines}.items()
        if value is not None
    )
    title = f"Without a network, test {_units(analysis)}"
    return by_task(analysis, ReportTable("baselines", title, ("task", "baseline", "score"), rows, words=2))


def runs(analysis: Analysis) -> ReportTable:
    """Build the table of all runs, a row per cell and seed."""
    headings = ("test", "validation", "best step", "steps", "stopped by", "compute", "time")
    made = ReportTable(
        "seeds",
        "Every run",
        ("task", "model", "arm", "seed", *headings),
        tuple(
            (*map(Entry, (task.label, cell.row, cell.column, task.task.repetition(cell))), *_run(task, cell))
            for task in analysis.tasks
            for cell in task.task.cells
        ),
        f"Scores: {_units(analysis)}. Steps of the scored stage; compute and time of all stages.",
        words=3,
        sortable=True,
    )
    return by_task(analysis, made)


def _run(task: TaskAnalysis, cell: CellResult) -> tuple[Entry, ...]:
    if not cell.finished:
        return (MISSING, *[BLANK] * 6)
    scored = cell.scored
    values = (cell.score, scored.scores.get("val", {}).get("score"))
    return (
        *(
            (UNDEFINED if cell.undefined else BLANK)
            if each is None
            else Entry(format.score(task.metric, each), key=each)
            for each in values
        ),
        *map(Entry, (str(scored.best_step), str(scored.steps), scored.stopped)),
        Entry(format.flops(cell.flops), key=cell.flops),
        Entry(format_duration(cell.seconds), key=cell.seconds),
    )


def by_task(analysis: Analysis, made: ReportTable) -> ReportTable:
    """Drop the first column, the task, if there is only one task."""
    if len(analysis.tasks) != 1:
        return made
    rows = tuple(row[1:] for row in made.rows)
    return replace(made, headings=made.headings[1:], rows=rows, words=made.words - 1)


def places(analysis: Analysis) -> list[RowColumn]:
    """Return the (row, column) places of all tasks, row by row."""
    tasks = [task.task for task in analysis.tasks]
    planned = {(cell.row, cell.column) for task in tasks for cell in task.cells}
    rows = dict.fromkeys(row for task in tasks for row in task.rows)
    columns = dict.fromkeys(column for task in tasks for column in task.columns)
    return [(row, column) for row in rows for column in columns if (row, column) in planned]


def _units(analysis: Analysis) -> str:
    return format.listing(list(dict.fromkeys(format.unit(task.metric) for task in analysis.tasks)))


def _unit(analysis: Analysis) -> str:
    """Return what all scores are, without a unit if tasks differ in it."""
    units = {format.unit(task.metric) for task in analysis.tasks}
    return f"Test {units.pop()}" if len(units) == 1 else "Test scores"


def _labels(analysis: Analysis) -> list[str]:
    """Return the names of the tasks, with their units if these differ."""
    if len({format.unit(task.metric) for task in analysis.tasks}) == 1:
        return [task.label for task in analysis.tasks]
    return [f"{task.label}, {format.unit(task.metric)}" for task in analysis.tasks]


def _counted(metric: Metric) -> str:
    return "points" if metric.unit == "%" else format.unit(metric)


def _score(task: TaskAnalysis, place: RowColumn) -> Entry:
    """Return mean and interval over seeds, bold if it is the best of its row; † if a run diverged."""
    estimate = task.means.get(place)
    if estimate is None:
        return UNDEFINED if task.task.undefined(*place) else MISSING
    mark = " †" if task.diverged(place) else ""
    return Entry(f"{format.spread(task.metric, estimate)}{mark}", place in task.best, estimate.mean)


def _score_without_count(task: TaskAnalysis, place: RowColumn) -> Entry:
    entry = _score(task, place)
    entry = BLANK if entry is MISSING else entry
    return replace(entry, text=re.sub(r" \(\d+\)", "", entry.text))


def _has_paper(task: TaskAnalysis) -> bool:
    return any(cell.printed for cell in task.task.cells)


def _score_and_paper(task: TaskAnalysis, place: RowColumn) -> list[Entry]:
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
    bounds = difference.estimate.bounds
    spread = "(one seed)" if bounds is None else format.interval(metric, bounds)
    return Entry(f"{format.signed(metric, difference.estimate.mean)} {spread}", key=difference.estimate.mean)


def _contrast(metric: Metric, difference: Difference) -> tuple[Entry, ...]:
    estimate = difference.estimate
    assert estimate is not None, "contrasts without a pair are left out"
    return (
        Entry(difference.a[0]),
        Entry(f"{difference.a[1]} {format.MINUS} {difference.b[1]}"),
        Entry(str(estimate.n)),
        Entry(format.signed(metric, estimate.mean), key=estimate.mean),
        Entry(format.interval(metric, estimate.seed_bounds)),
        Entry(format.interval(metric, estimate.bounds)),
    )


def _p_headings(gains: Sequence[Difference], corrected: Sequence[float | None]) -> tuple[str, ...]:
    """Return the headings of the p value columns that are not empty."""
    if all(gain.p is None for gain in gains):
        return ()
    single = REPEATED if any(gain.looks for gain in gains) else SIGN_FLIP
    return (single, HOLM) if sum(p is not None for p in corrected) > 1 else (single,)


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
