"""The figures of an experiment by kind, for its page or as single files for a paper or a talk."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ..errors import SpecError, nearest
from ..system.files import write_text
from .analysis import SEPARATOR, Analysis
from .diagnostics import rankings
from .figures import charts, style
from .layout import Picture

MOST_TASKS = 2
MOST_ROWS = 4
"""Up to these numbers, scores and learning curves are side by side at the top of a page."""
Drawing = tuple[str, Callable[[], str]]
"""(alternative text, function that draws the SVG)."""


def gain(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture of the paired gains per task."""
    known = [task for task in analysis.tasks if any(gain.estimate for gain in task.gains)]
    drawn = [(f"{t.label}: paired gains", partial(charts.gain_plot, t, t.label)) for t in known]
    return _numbered("gain", drawn)


def points(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture of the scores per task: mean, interval and a dot per seed for every row and arm."""
    return _numbered("scores", _panels(analysis, charts.points, grouped=False))


def lines(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a line plot of scores per task and group of rows ``GROUP · PLACE``, places along x."""
    return _numbered("scores", _panels(analysis, charts.lines, grouped=True))


def curves(analysis: Analysis) -> tuple[Picture, ...]:
    """Return the learning curves of every task: one picture if rows are few, else one per row."""
    drawn: list[Drawing] = []
    for task in analysis.results.tasks:
        rows = charts.with_curves(task)
        together = abreast(analysis)
        for shown in [rows] if together and rows else [[row] for row in rows]:
            title = task.label if together else SEPARATOR.join([task.label, *shown])
            alt = f"Validation score of {title} against compute, per arm"
            drawn.append((alt, partial(charts.learning_curves, task, shown, title)))
    return _numbered("curves", drawn)


def abreast(analysis: Analysis) -> bool:
    """Return whether there is room for the learning curves next to the scores."""
    rows = [len(task.rows) for task in analysis.results.tasks]
    return len(rows) <= MOST_TASKS and max(rows) <= MOST_ROWS


def top(analysis: Analysis) -> tuple[Picture, ...]:
    """Return the pictures at the top of a page: scores of every task, each with its learning curves."""
    scores = KINDS["lines" if analysis.results.record.figure == "lines" else "points"](analysis)
    learning_curves = curves(analysis) if abreast(analysis) else ()
    if len(scores) != len(learning_curves):
        return scores + learning_curves
    return tuple(picture for pair in zip(scores, learning_curves, strict=True) for picture in pair)


def ranks(analysis: Analysis) -> tuple[Picture, ...]:
    """Return critical-difference diagrams of the average ranks."""
    found = rankings(analysis).items()
    return _numbered(
        "ranks", [(f"Average ranks, {name}", partial(charts.ladder, made, name)) for name, made in found]
    )


def measures(analysis: Analysis) -> tuple[Picture, ...]:
    """Return a picture per measure of a study that has data."""
    found = [measure for measure in analysis.results.record.measures if measure.series]
    drawn = [(f"{m.title}: {m.y} against {m.x}", partial(charts.curves, m)) for m in found]
    return _numbered("measure", drawn)


KINDS: dict[str, Callable[[Analysis], tuple[Picture, ...]]] = {
    "gain": gain,
    "points": points,
    "lines": lines,
    "curves": curves,
    "ranks": ranks,
    "measures": measures,
}
"""Kinds of pictures and the functions that return them."""


def papers_task(analysis: Analysis) -> bool:
    """Return whether the paper's numbers may share our axes: only at paper scale are the data the same."""
    return analysis.results.record.scale == "paper" and bool(analysis.printed)


def save(analysis: Analysis, kind: str, look: str, folder: Path) -> list[Path]:
    """Write all pictures of a kind to a folder, as SVG and as PDF, and return their paths.

    Args:
        look: one of ``style.LOOKS``.

    Raises:
        SpecError: if there is no such kind or look, or nothing to draw.
    """
    for what, name, known in (("kind", kind, KINDS), ("style", look, style.LOOKS)):
        if name not in known:
            raise SpecError(f"there is no {what} of figure {name!r}{nearest(name, known)}")
    found = KINDS[kind](analysis)
    if not found:
        there = [name for name, made in KINDS.items() if made(analysis)]
        raise SpecError(
            f"{analysis.results.folder} has no {kind} to draw; it has {', '.join(there) or 'no picture yet'}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / one.file for one in _numbered(kind, [(one.alt, one.draw) for one in found])]
    for picture, svg in zip(found, files, strict=True):
        with style.figure_look(look, svg.with_suffix(".pdf")):
            write_text(svg, style.with_background(picture.svg))
    return [file.with_suffix(end) for file in files for end in (".svg", ".pdf")]


def _panels(analysis: Analysis, draw: Callable[[charts.Panel], str], grouped: bool) -> list[Drawing]:
    paper = papers_task(analysis)
    found = [panel for task in analysis.tasks for panel in charts.panels(task, grouped, paper) if panel.lines]
    return [(f"{panel.title}: test {panel.unit}", partial(draw, panel)) for panel in found]


def _numbered(name: str, drawn: Iterable[Drawing]) -> tuple[Picture, ...]:
    """Return pictures with the file names NAME.svg, NAME-2.svg, ..."""
    named = ((f"{name}-{at}.svg" if at > 1 else f"{name}.svg", *one) for at, one in enumerate(drawn, 1))
    return tuple(Picture(file, alt, draw) for file, alt, draw in named)
