"""The tables of a study, in memory: every report draws these, so numbers are written once."""

from dataclasses import dataclass

from . import format
from .analysis import Analysis, Difference, Order
from .old_results import Cell, Metric

INTERVALS = (
    "95 % intervals: Student's t over seeds; and combined with the choice of test examples, which is "
    "conservative and decides the verdict."
)


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table."""

    text: str
    bold: bool = False
    key: float | None = None  # to sort by, where the text does not sort by itself


@dataclass(frozen=True)
class Table:
    """Headings, rows of entries and what to know when reading them."""

    name: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""
    words: int = 1  # how many leading columns hold words; the others hold numbers


def tables(analysis: Analysis) -> list[Table]:
    """All tables of a report, in order; those that would be empty are left out."""
    made = [scores(analysis), gains(analysis), ranking(analysis), costs(analysis), baselines(analysis)]
    return [table for table in made if table.rows]


def scores(analysis: Analysis) -> Table:
    """The main table: every arm, and the headline gain."""
    plan, (treatment, control) = analysis.study.plan, analysis.study.headline
    columns = analysis.study.columns
    rows = tuple(
        (
            Entry(found.a[0]),
            _parameters(analysis, found.a[0]),
            *(score(analysis, found.a[0], column) for column in columns),
            _gain(analysis, found),
            _probability(found),
        )
        for found in analysis.headline
    )
    return Table(
        "scores",
        f"Test {format.unit(plan.metric)}",
        ("model", "parameters", *columns, f"{treatment} {format.MINUS} {control}", "sign-flip p"),
        rows,
        "Mean ± half-width of the 95 % t-interval over seeds (number of seeds); one seed has none. The "
        "difference is paired by seed; its 95 % interval counts seeds and test examples, for each row by "
        "itself. Bold: the best of a row, and what cannot be told from it.",
    )


def gains(analysis: Analysis) -> Table:
    """Every contrast with both of its intervals."""
    metric = analysis.study.plan.metric
    intervals = ("seeds only", "seeds and examples")
    return Table(
        "gains",
        f"Differences in {_counted(analysis)}, paired by seed",
        ("model", "comparison", "seeds", "difference", *intervals, "wins", "sign-flip p"),
        tuple(_contrast(analysis, found) for found in analysis.gains if found.estimate is not None),
        f"{INTERVALS} Tie: less than {format.tie(metric)}.",
        words=2,
    )


def ranking(analysis: Analysis) -> Table:
    """Every pair of rows in the control and in the treatment."""
    treatment, control = analysis.study.headline
    pairs = analysis.ranking.pairs if analysis.ranking else ()
    verdicts = {Order.CHANGES: "changes", Order.STAYS: "stays", Order.UNRESOLVED: "not resolved"}
    rows = tuple(
        (
            Entry(f"{pair.rows[0]} {format.MINUS} {pair.rows[1]}"),
            _gain(analysis, pair.control),
            _gain(analysis, pair.treatment),
            Entry(verdicts[pair.order]),
        )
        for pair in pairs
    )
    caption = (
        "Difference [95 % interval of seeds and examples]; resolved if it excludes ties in both columns."
    )
    return Table(
        "ranking",
        f"Does the order of the models change? Differences in {_counted(analysis)}",
        ("pair", control, treatment, "order"),
        rows,
        caption,
    )


def costs(analysis: Analysis) -> Table:
    """Compute and time of every arm, mean over seeds."""
    study = analysis.study
    rows = tuple(
        (Entry(row), *(cost(list(study.at(row, column).values())) for column in study.columns))
        for row in study.rows
    )
    caption = "Mean over seeds of all stages of an arm, pretraining included, also where stages are shared."
    return Table("costs", "What one run of each arm cost", ("model", *study.columns), rows, caption)


def baselines(analysis: Analysis) -> Table:
    """Simple references: chance and what needs no network."""
    plan = analysis.study.plan
    known = {"chance": plan.task.chance, **plan.baselines}
    rows = tuple(
        (Entry(name), Entry(format.score(plan.metric, value), key=value))
        for name, value in known.items()
        if value is not None
    )
    title = f"Simple baselines, test {format.unit(plan.metric)}"
    return Table("baselines", title, ("baseline", "score"), rows)


def seeds(analysis: Analysis) -> Table:
    """One line per cell and seed."""
    metric = analysis.study.plan.metric
    return Table(
        "seeds",
        "Every run",
        ("model", "arm", "seed", "test", "validation", "best step", "steps", "stopped by", "compute", "time"),
        tuple(_run(cell, metric) for cell in analysis.study.cells),
        f"Scores: {format.unit(metric)}. Steps of the scored stage; compute and time of all stages.",
        words=2,
    )


def score(analysis: Analysis, row: str, column: str) -> Entry:
    """Mean and interval over seeds, bold if it is the best of its row or cannot be told from it."""
    found = analysis.means.get((row, column))
    if found is None:
        return Entry("missing")
    text = format.spread(analysis.study.plan.metric, found)
    return Entry(text, (row, column) in analysis.best, found.mean)


def _gain(analysis: Analysis, found: Difference) -> Entry:
    if found.estimate is None:
        return Entry("missing")
    metric = analysis.study.plan.metric
    size = format.signed(metric, found.estimate.mean)
    if found.estimate.bounds is None:
        return Entry(f"{size} (one seed)", key=found.estimate.mean)
    return Entry(f"{size} {format.interval(metric, found.estimate.bounds)}", key=found.estimate.mean)


def _contrast(analysis: Analysis, found: Difference) -> tuple[Entry, ...]:
    metric = analysis.study.plan.metric
    assert found.estimate is not None, "contrasts without a pair are left out"
    wins = sum(value > 0 for value in found.values)
    return (
        Entry(found.a[0]),
        Entry(f"{found.a[1]} {format.MINUS} {found.b[1]}"),
        Entry(str(found.estimate.n)),
        Entry(format.signed(metric, found.estimate.mean), key=found.estimate.mean),
        Entry(format.interval(metric, found.estimate.seed_bounds)),
        Entry(format.interval(metric, found.estimate.bounds)),
        Entry(f"{wins} of {found.estimate.n}", key=float(wins)),
        _probability(found),
    )


def _probability(found: Difference) -> Entry:
    return Entry(format.NONE if found.estimate is None else format.probability(found.p), key=found.p)


def _parameters(analysis: Analysis, row: str) -> Entry:
    counts = sorted({c.scored.cost.parameters for c in analysis.study.cells if c.row == row and c.finished})
    texts = list(dict.fromkeys(format.quantity(float(count)) for count in counts[:1] + counts[-1:]))
    return Entry(" to ".join(texts) or format.NONE, key=float(counts[0]) if counts else None)


def cost(cells: list[Cell]) -> Entry:
    """Compute and time of one run, mean over finished cells."""
    if not cells:
        return Entry("missing")
    flops, seconds = sum(cell.flops for cell in cells), sum(cell.seconds for cell in cells)
    return spent(flops / len(cells), seconds / len(cells))


def spent(flops: float, seconds: float) -> Entry:
    """Compute and time in one entry."""
    return Entry(f"{format.flops(flops)}, {format.seconds(seconds)}", key=flops)


def _counted(analysis: Analysis) -> str:
    metric = analysis.study.plan.metric
    return "points" if metric.unit == "%" else format.unit(metric)


def _run(cell: Cell, metric: Metric) -> tuple[Entry, ...]:
    known = (Entry(cell.row), Entry(cell.column), Entry(str(cell.seed)))
    if not cell.finished:
        return (*known, Entry("missing"), *(Entry(format.NONE) for _ in range(6)))
    scored = cell.scored
    val = scored.scores.get("val", {}).get("score")
    return (
        *known,
        _plain(cell.score, metric),
        _plain(val, metric),
        Entry(str(scored.best_step)),
        Entry(str(scored.steps)),
        Entry(scored.stopped),
        Entry(format.flops(cell.flops), key=cell.flops),
        Entry(format.seconds(cell.seconds), key=cell.seconds),
    )


def _plain(value: float | None, metric: Metric) -> Entry:
    return Entry(format.NONE) if value is None else Entry(format.score(metric, value), key=value)
