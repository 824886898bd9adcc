"""What further arms make of the gap between control and treatment, and whether both order models alike."""

from collections.abc import Iterator

from . import format
from .analysis import Analysis, Standing, TaskAnalysis, difference
from .layout import Entry, ReportTable
from .statistics import rank_correlation, ratio_bounds
from .tables import BLANK, by_task

SEVERAL_ARMS = 3
"""Fewest further arms for which the table of gaps is built."""
SHOWN = {Standing.BETTER, Standing.AHEAD}
"""Standings of a headline difference that is a gap."""


def gaps(analysis: Analysis) -> ReportTable:
    """Build the table of the share of the gap that every further arm closes, with the compute of each."""
    rows = [
        (Entry(task.label), Entry(row), *line)
        for task in analysis.tasks
        if len(further_arms(task)) >= SEVERAL_ARMS
        for row in task.task.rows
        for line in _arms_of_row(task, row)
    ]
    headings = ("task", "model", "arm", "score", "of the gap", "95 % interval", "compute")
    caption = (
        f"Of the gap: (arm {format.MINUS} control) / (treatment {format.MINUS} control), of the means over "
        "the seeds that all three have; 0 % is the control, 100 % the treatment. Its interval is Fieller's, "
        "over seeds; without one the gap is not clear, and nothing can be said of its parts. Compute: FLOPs "
        "of one run relative to the treatment."
    )
    title = "How much of the gap other arms close"
    return by_task(analysis, ReportTable("gaps", title, headings, tuple(rows), caption, words=3))


def further_arms(task: TaskAnalysis) -> list[str]:
    """Return the columns that are compared with both columns of the headline."""
    headline = set(task.task.headline)
    compared: dict[str, set[str]] = {}
    for ours, theirs in task.task.record.contrasts:
        compared.setdefault(ours, set()).add(theirs)
    return [column for column in task.task.columns if compared.get(column, set()) >= headline]


def share_of_gap(task: TaskAnalysis, row: str, column: str) -> tuple[float, tuple[float, float]] | None:
    """Return the share of a row's gap that an arm closes, with its interval; None without a clear gap."""
    treatment, control = task.task.headline
    gap = difference(task.task, (row, treatment), (row, control))
    closed = difference(task.task, (row, column), (row, control))
    if gap.standing not in SHOWN or closed.estimate is None:
        return None
    wholes = dict(zip(gap.seeds, gap.values, strict=True))
    parts = dict(zip(closed.seeds, closed.values, strict=True))
    seeds = [seed for seed in parts if seed in wholes]
    bounds = ratio_bounds([parts[seed] for seed in seeds], [wholes[seed] for seed in seeds])
    if bounds is None:
        return None
    return sum(parts[seed] for seed in seeds) / sum(wholes[seed] for seed in seeds), bounds


def order(analysis: Analysis) -> ReportTable:
    """Build the table of the rank correlation between control and treatment over the models of every task."""
    rows = []
    for task in analysis.tasks if analysis.rows_compete else ():
        treatment, control = task.task.headline
        both = [row for row in task.task.rows if {(row, treatment), (row, control)} <= task.means.keys()]
        means = [[task.means[row, column].mean for row in both] for column in (control, treatment)]
        found = rank_correlation(*means)
        if found is not None:
            r, (low, high) = found
            texts = (task.label, str(len(both)), _decimal(r), f"[{_decimal(low)}, {_decimal(high)}]")
            rows.append(tuple(map(Entry, texts)))
    if not rows:
        return ReportTable("order", "", (), ())
    treatment, control = analysis.tasks[0].task.headline
    return by_task(
        analysis,
        ReportTable(
            "order",
            f"Does the order of the models in {control} predict that in {treatment}?",
            ("task", "models", "rank correlation", "95 % interval"),
            tuple(rows),
            f"Spearman's, of the means over seeds; 1: the same order, 0: none of it, {format.MINUS}1: the "
            "reverse. The interval is over models (Bonett & Wright 2000), as if they were drawn from many; "
            "noise between seeds draws the correlation towards 0.",
        ),
    )


def _arms_of_row(task: TaskAnalysis, row: str) -> Iterator[tuple[Entry, ...]]:
    """Yield arm, score, share of the gap, interval and relative compute of every further arm of a row."""
    treatment, _ = task.task.headline
    whole = _flops(task, row, treatment)
    for column in further_arms(task):
        cells = task.task.at(row, column)
        if not cells:
            continue
        mean = task.means[row, column]
        found = share_of_gap(task, row, column)
        share = Entry(_percent(found[0]), key=found[0]) if found else BLANK
        bounds = Entry(f"[{_percent(found[1][0])}, {_percent(found[1][1])}]") if found else BLANK
        compute = Entry(f"{_flops(task, row, column) / whole:.2f}") if whole else BLANK
        yield Entry(column), Entry(format.spread(task.metric, mean), key=mean.mean), share, bounds, compute


def _flops(task: TaskAnalysis, row: str, column: str) -> float:
    cells = task.task.at(row, column).values()
    return sum(cell.flops for cell in cells) / len(cells) if cells else 0.0


def _percent(share: float) -> str:
    return f"{round(100 * share)} %".replace("-", format.MINUS)  # an integer: no "-0"


def _decimal(value: float) -> str:
    return f"{value:.2f}".replace("-", format.MINUS)
