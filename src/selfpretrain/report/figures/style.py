"""Style and helpers of all figures, the gain plot, and learning curves; SVG is reproducible byte for byte.

Colours are those of Okabe and Ito (2008), distinguishable by colour-blind readers; line styles and markers
distinguish the arms in greyscale.
"""

import io
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, TypeVar

from .. import format
from ..analysis import Difference, TaskAnalysis
from ..manifest import Metric
from ..results import TaskResults
from ..stage_results import CellResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")
Path = dict[int, tuple[float, float]]
"""Points of a learning curve: step of the scored stage -> (compute spent, score)."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#4b9cd3", "#6b6b6b")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (8, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, FAINT, BAND = "#1c1e21", "#c9ccd1", "#eceef1"
"""Colours of text and axes, grid, tie band. Used for nothing else, so that a page can replace them."""
POINTS = 4000
"""Largest number of points of all single-seed curves of a task: limits the size of a page."""
PAPER: dict[str, Any] = {"marker": "o", "markerfacecolor": "none", "linestyle": ""}
"""Marker of a paper's number, the same for all arms."""
SEED: dict[str, Any] = {"marker": ".", "markersize": 4, "linestyle": "", "alpha": 0.75}
"""Marker of the score of one seed."""


@dataclass(frozen=True)
class Look:
    """Width and fonts of figures."""

    width: float = 4.2  # inches; readable on a phone and in one column of a paper
    letter: float = 4.6  # mean width of a letter in legends and ticks, in points
    settings: dict[str, Any] = field(default_factory=dict)  # matplotlib rcParams on top of ``SETTINGS``


def _of_paper(width: float) -> Look:
    """Return the look of a paper: a Times-like font in caption size, as paths or embedded."""
    fonts = {"font.family": "serif", "font.serif": ["STIXGeneral"], "font.size": 8, "legend.fontsize": 7.5}
    return Look(width, 3.6, fonts | {"svg.fonttype": "path", "pdf.fonttype": 42, "lines.markersize": 4})


LOOKS = {"page": Look(settings={"pdf.fonttype": 42}), "neurips": _of_paper(5.5), "icml": _of_paper(3.25)}
"""Look of the report; text width of NeurIPS; column width of ICML."""
LOOK = ContextVar("LOOK", default=LOOKS["page"])
"""The look of figures drawn in this context."""
PDF = ContextVar[File | None]("PDF", default=None)
"""File to which figures drawn in this context are also written as PDF, or None."""

SETTINGS: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may contain dollar signs
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def gain_plot(analysis: TaskAnalysis, title: str = "") -> str:
    """Draw paired gains per row and contrast with combined intervals, dots per seed and the tie band."""
    rows, contrasts = analysis.task.rows, analysis.task.record.contrasts
    with inked(f"gain {title}"):
        arms = _told_apart(analysis)
        labels = [f"{treatment} {format.MINUS} {control}" for treatment, control in contrasts]
        columns = min(2, abreast([*labels, "one seed"], rows))
        lines = -(-(len(labels) + 2) // columns)
        step = 0.24 * len(contrasts) + 0.22
        figure, axes = canvas(1.05 + 0.2 * lines + step * len(rows) + 0.25 * bool(title))
        _zero(axes, analysis.metric)
        for at, found in enumerate(analysis.gains):
            contrast, row = divmod(at, len(rows))
            height = row + _offset(contrast, len(contrasts))
            _gain(axes, found, (height, arms[contrast]), analysis.metric)
        axes.locator_params(axis="x", nbins=6)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(f"difference in test {_difference_unit(analysis.metric)}")
        _contrast_legend(axes, dict(zip(labels, arms, strict=True)), columns)
        named(axes, title, lines)
        return drawn(figure)


def with_curves(task: TaskResults) -> list[str]:
    """Return the rows with validation scores of at least one run."""
    return list(dict.fromkeys(cell.row for cell in task.finished if cell.scored.curve))


def learning_curves(task: TaskResults, rows: Sequence[str], title: str) -> str:
    """Draw the validation scores of rows side by side, with their pretraining losses above.

    The x axis is the compute spent, pretraining included: an arm starts where its pretraining ends.
    """
    flops = all(cell.flops > 0 for cell in task.finished if cell.row in rows)
    losses = any(stage.curve for cell in task.finished if cell.row in rows for stage in cell.stages[:-1])
    with inked(f"curves {title} {' '.join(rows)}"):
        figure = blank(4.0 if losses else 3.1)
        heights = [2, 3] if losses else [1]
        grid = figure.subplots(
            len(heights), len(rows), sharex="col", sharey="row", squeeze=False, height_ratios=heights
        )
        for at, row in enumerate(rows):
            done = [cell for cell in task.finished if cell.row == row]
            for axes in grid[:, at]:
                axes.patch.set_alpha(0)
                axes.grid(axis="y")
            for arm, column in enumerate(task.columns):
                cells = [cell for cell in done if cell.column == column]
                most = max(8, POINTS // len(task.cells))
                if losses:
                    before = [path for cell in cells for path in _pretraining(cell, flops)]
                    _arm(grid[0, at], before, (arm, column), most)
                _arm(
                    grid[-1, at],
                    [_path(cell, flops, task.record.metric.factor) for cell in cells],
                    (arm, column),
                    most,
                )
            grid[-1, at].set_xlim(left=0)
            grid[-1, at].locator_params(axis="x", nbins=6 if len(rows) == 1 else 4)
            if flops:
                grid[-1, at].xaxis.set_major_formatter(lambda value, _: format.quantity(value))
            if len(rows) > 1:
                grid[0, at].set_title(row, loc="left", fontsize=9)
        figure.supxlabel(
            "compute, pretraining included (FLOP)" if flops else "steps, pretraining included", fontsize=9
        )
        if losses:
            grid[0, 0].set_ylabel("pretraining loss")
        grid[-1, 0].set_ylabel(f"validation {format.unit(task.record.metric)}")
        legend_above(grid[-1, 0], title)
        return drawn(figure)


def _told_apart(analysis: TaskAnalysis) -> list[int]:
    """Return a colour index per contrast: its control's, or its treatment's, if these are distinct."""
    columns, contrasts = analysis.task.columns, analysis.task.record.contrasts
    for arms in ([control for _, control in contrasts], [treatment for treatment, _ in contrasts]):
        if len(set(arms)) == len(arms):
            return [columns.index(arm) for arm in arms]
    return list(range(len(contrasts)))


def _pretraining(cell: CellResult, flops: bool) -> Iterator[Path]:
    """Yield the curve of validation loss against compute spent for every stage before the scored one."""
    start = 0.0
    for stage in cell.stages[:-1]:
        per_step = stage.cost.flops / max(stage.steps, 1) if flops else 1.0
        yield {p.step: (start + p.step * per_step, p.loss) for p in stage.curve if math.isfinite(p.loss)}
        start += stage.cost.flops if flops else stage.steps


def _path(cell: CellResult, flops: bool, factor: float) -> Path:
    before = cell.stages[:-1]
    start = sum(stage.cost.flops if flops else stage.steps for stage in before)
    per_step = cell.scored.cost.flops / max(cell.scored.steps, 1) if flops else 1.0
    return {p.step: (start + p.step * per_step, p.score * factor) for p in cell.scored.curve}


def _arm(axes: "Axes", paths: Sequence[Path], arm: tuple[int, str], most: int) -> None:
    """Draw a faint curve of at most ``most`` points per seed, and their mean where all seeds have one."""
    from matplotlib.collections import LineCollection

    at, label = arm
    paths = [path for path in paths if path]
    if not paths:
        return
    colour, style = COLOURS[at % len(COLOURS)], STYLES[at % len(STYLES)]
    if len(paths) > 1:
        faint = [thin(list(path.values()), most) for path in paths]
        axes.add_collection(LineCollection(faint, colors=colour, linewidths=0.7, alpha=0.4))
    points: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for path in paths:
        for step, point in path.items():
            points[step].append(point)
    means = [
        (sum(x for x, _ in reached) / len(reached), sum(y for _, y in reached) / len(reached))
        for _, reached in sorted(points.items())
        if len(reached) == len(paths)
    ]
    mean = thin(means, 100)
    xs, ys = zip(*mean, strict=True) if mean else ((), ())
    marker = MARKERS[at % len(MARKERS)]
    every = max(1, len(mean) // 8)
    axes.plot(
        xs, ys, color=colour, linestyle=style, linewidth=1.8, marker=marker, markersize=4, markevery=every,
        label=label,
    )  # fmt: skip


def thin(points: list[T], most: int) -> list[T]:
    """Keep every k-th point and the last one, about ``most`` in all."""
    k = -(-len(points) // most)
    return points if k <= 1 else [*points[:-1:k], points[-1]]


def _zero(axes: "Axes", metric: Metric) -> None:
    tie = metric.tie * metric.factor
    axes.axvspan(-tie, tie, color=BAND, linewidth=0, zorder=0)
    axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
    axes.grid(axis="x", zorder=0)
    axes.set_axisbelow(True)


def _gain(axes: "Axes", difference: Difference, place: tuple[float, int], metric: Metric) -> None:
    height, at = place
    if difference.estimate is None:
        return
    colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
    mean, half = difference.estimate.mean * metric.factor, difference.estimate.half
    if half is not None:
        low, high = possible(metric)
        ends = [max(mean - half * metric.factor, low - high), min(mean + half * metric.factor, high - low)]
        axes.plot(ends, [height] * 2, color=colour, linewidth=1.8)
    dots = [value * metric.factor for value in difference.values]
    axes.plot(dots, [height + 0.09] * len(dots), **SEED, color=colour)
    filled = colour if half is not None else "none"  # hollow: no interval
    axes.plot([mean], [height], marker=marker, markersize=6, color=colour, markerfacecolor=filled)


def _contrast_legend(axes: "Axes", arms: dict[str, int], columns: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=COLOURS[at % len(COLOURS)], marker=MARKERS[at % len(MARKERS)], label=label)
        for label, at in arms.items()
    ]
    handles.append(Line2D([], [], **SEED, color=INK, label="one seed"))
    handles.append(Patch(color=BAND, label="tie"))
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2)


def _offset(contrast: int, contrasts: int) -> float:
    return (contrast - (contrasts - 1) / 2) * 0.6 / contrasts


def possible(metric: Metric) -> tuple[float, float]:
    """Return the smallest and largest possible score, to which drawn intervals are clipped."""
    best = metric.factor if metric.unit == "%" or metric.name == "r2" else math.inf
    return (0.0, best) if metric.unit == "%" else (-math.inf, best)


def _difference_unit(metric: Metric) -> str:
    return f"{format.name(metric)} (points)" if metric.unit == "%" else format.unit(metric)


def named(axes: "Axes", title: str, lines: int) -> None:
    """Write a title above the axes, with room for a legend of ``lines`` lines in between."""
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", pad=7 + 12.5 * lines)


def abreast(labels: Sequence[str], beside: Sequence[str] = ()) -> int:
    """Return the number of legend columns, at most three, that fit above axes with these tick labels."""
    look = LOOK.get()
    room = 72 * look.width - 20 - look.letter * max(map(len, beside), default=0)
    for columns in (3, 2):
        rows = -(-len(labels) // columns)
        parts = [labels[at : at + rows] for at in range(0, len(labels), rows)]
        if sum(37 + look.letter * max(map(len, part)) for part in parts) <= room:
            return columns
    return 1


def legend_above(axes: "Axes", title: str, more: Sequence[Any] = ()) -> None:
    """Write a title and a legend above all axes of a figure; ``more`` are additional handles."""
    handles = [*axes.get_legend_handles_labels()[0], *more]
    labels = [str(handle.get_label()) for handle in handles]
    columns = min(abreast(labels), 2 if len(labels) == 4 else 3)
    legend = axes.figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=columns,
        borderaxespad=0.2,
        handlelength=2.4,
        columnspacing=1.2,
        title=title,
        alignment="left",
    )
    legend.get_title().set(fontsize=10, fontweight="bold")


def on_paper(svg: str) -> str:
    """Add a white background to an SVG, so that it is readable as a file on any page."""
    head, tag, rest = svg.partition("<svg")
    size, end, body = rest.partition(">")
    return f'{head}{tag}{size}{end}\n <rect width="100%" height="100%" fill="#ffffff"/>{body}'


def inked(salt: str) -> AbstractContextManager[None]:
    """Apply the shared matplotlib settings in a with block; ``salt`` makes SVG ids reproducible."""
    from matplotlib import rc_context

    settings: Any = SETTINGS | LOOK.get().settings | {"svg.hashsalt": salt}
    return rc_context(settings)


@contextmanager
def looking(style: str, pdf: File | None = None) -> Iterator[None]:
    """Draw figures in one of ``LOOKS`` in a with block; with ``pdf``, also write them to this file."""
    look, beside = LOOK.set(LOOKS[style]), PDF.set(pdf)
    try:
        yield
    finally:
        LOOK.reset(look)
        PDF.reset(beside)


def canvas(height: float, width: float | None = None) -> "tuple[Figure, Axes]":
    """Create a transparent figure with axes; sizes in inches, by default as wide as the current look."""
    figure = blank(height, width)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    return figure, axes


def blank(height: float, width: float | None = None) -> "Figure":
    """Create a transparent figure without axes; sizes in inches, by default as wide as the current look."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width or LOOK.get().width, height), layout="constrained")
    figure.patch.set_alpha(0)
    return figure


def drawn(figure: "Figure") -> str:
    """Return a figure as SVG without a date; write it to the current PDF file, if any."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    # Run the layout once here: savefig would otherwise draw the whole figure once more for it.
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine("none")
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    if (pdf := PDF.get()) is not None:
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    return text.getvalue()
