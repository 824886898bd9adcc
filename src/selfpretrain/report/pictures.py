"""The figures of a report by kind: which there are, their file names and alternative texts."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from . import over_tasks
from .analysis import SEPARATOR, Analysis
from .diagnostics import rankings
from .figures import charts
from .format import MINUS
from .layout import Picture

MAX_ROWS = 4  # largest number of rows whose learning curves are side by side in one picture
MAX_TASKS = 30  # largest number of tasks below each other in one picture


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
    panels = [charts.gain_panel(task, task.label) for task in known]
    return _numbered("gain", [(f"{p.title}: paired gains", partial(charts.gain_plot, p)) for p in panels])


def gains_over_tasks(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture of the gains averaged over tasks, a dot per task; none if few tasks are finished."""
    averaged = replace(analysis.tasks[0], gains=over_tasks.gains(analysis))
    if not any(gain.estimate for gain in averaged.gains):
        return ()
    panel = replace(charts.gain_panel(averaged, "Averaged over tasks"), dot="one task")
    return _numbered("gain", [("Gains averaged over tasks", partial(charts.gain_plot, panel))])


def gains_by_task(analysis: Analysis) -> tuple[Picture, ...]:
    """Return pictures of the headline gain of every model, some tasks in each."""
    known = [task for task in analysis.tasks if any(gain.estimate for gain in task.headline)]
    panels = []
    for at in range(0, len(known), MAX_TASKS):
        tasks = known[at : at + MAX_TASKS]
        by_row = zip(*(task.headline for task in tasks), strict=True)
        lines = tuple((gains[0].a[0], colour, gains) for colour, gains in enumerate(by_row))
        title = f" {MINUS} ".join(tasks[0].task.headline)
        panels.append(charts.GainPanel(title, tasks[0].metric, tuple(t.label for t in tasks), lines))
    drawn = [(f"{panel.title}, by task", partial(charts.gain_plot, panel)) for panel in panels]
    return _numbered("gain-by-task", drawn)


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
