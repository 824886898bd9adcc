"""The figures of a report by kind: which there are, their file names and alternative texts."""

from collections.abc import Callable, Iterable
from functools import partial

from .analysis import SEPARATOR, Analysis
from .diagnostics import rankings
from .figures import charts
from .layout import Picture

MAX_ROWS = 4  # largest number of rows whose learning curves are side by side in one picture


def scores(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture of the scores per task; of a line plot, per group of rows ``GROUP · PLACE``."""
    grouped = analysis.results.figure == "lines"
    draw = charts.lines if grouped else charts.points
    paper = papers_task(analysis)
    found = [panel for task in analysis.tasks for panel in charts.panels(task, grouped, paper) if panel.lines]
    return _numbered("scores", [(f"{p.title}: test {p.unit}", partial(draw, p)) for p in found])


def gains(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture of the paired gains per task."""
    known = [task for task in analysis.tasks if any(gain.estimate for gain in task.gains)]
    drawn = [(f"{t.label}: paired gains", partial(charts.gain_plot, t, t.label)) for t in known]
    return _numbered("gain", drawn)


def ranks(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture of the average ranks per headline arm."""
    found = rankings(analysis).items()
    drawn = [(f"Average ranks, {name}", partial(charts.rank_plot, made, name)) for name, made in found]
    return _numbered("ranks", drawn)


def curves(analysis: Analysis) -> tuple[Picture, ...]:
    """Return the learning curves of every task, a few rows side by side in each picture."""
    drawn = []
    for task in analysis.results.tasks:
        rows = list(dict.fromkeys(cell.row for cell in task.finished if cell.scored.curve))
        for at in range(0, len(rows), MAX_ROWS):
            some = rows[at : at + MAX_ROWS]
            title = SEPARATOR.join([task.label, *some]) if len(some) == 1 else task.label
            alt = f"Validation score of {', '.join(some)} on {task.label} against compute, per arm"
            drawn.append((alt, partial(charts.learning_curves, task, some, title)))
    return _numbered("curves", drawn)


def measures(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture per measure of a study that has data."""
    found = [measure for measure in analysis.results.measures if measure.series]
    drawn = [(f"{m.title}: {m.y} against {m.x}", partial(charts.curves, m)) for m in found]
    return _numbered("measure", drawn)


def papers_task(analysis: Analysis) -> bool:
    """Return whether the paper's numbers may share our axes: only at paper scale are the data the same."""
    return analysis.results.scale == "paper" and bool(analysis.reported)


def _numbered(name: str, drawn: Iterable[tuple[str, Callable[[], str]]]) -> tuple[Picture, ...]:
    """Return pictures with the file names NAME.svg, NAME-2.svg, ..., from their texts and functions."""
    named = ((f"{name}-{at}.svg" if at > 1 else f"{name}.svg", *one) for at, one in enumerate(drawn, 1))
    return tuple(Picture(file, alt, draw) for file, alt, draw in named)
