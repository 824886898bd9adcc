"""Style and helpers of all figures; SVG is reproducible byte for byte.

Colours are those of Okabe and Ito (2008), distinguishable by colour-blind readers; line styles and markers
distinguish the arms in greyscale.
"""

import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..results import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")
Point = tuple[float, float]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#4b9cd3", "#6b6b6b")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (8, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK = "#1c1e21"
FAINT = "#c9ccd1"
BAND = "#eceef1"
"""Colours of text and axes, grid, tie band. Used for nothing else, so that a page can replace them."""
PAPER: dict[str, Any] = {"marker": "o", "markerfacecolor": "none", "linestyle": "", "markersize": 6.5}
"""Marker of a paper's number, the same for all arms."""
SEED: dict[str, Any] = {"marker": ".", "markersize": 4, "linestyle": "", "alpha": 0.75}
"""Marker of the score of one seed."""
SWATCH = 37  # room of a marker and its margins in a legend, in points
AXIS = 40  # room of the ticks and the label of a y axis, in points


@dataclass(frozen=True)
class Look:
    """Width and fonts of figures."""

    width: float = 4.2  # inches; readable on a phone and in one column of a paper
    letter: float = 4.6  # mean width of a letter in legends and ticks, in points
    settings: dict[str, Any] = field(default_factory=dict)  # matplotlib rcParams on top of ``SETTINGS``
    pdf: Path | None = None  # file to which a figure is also written


OF_PAPERS: dict[str, Any] = {
    "font.family": "serif", "font.serif": ["STIXGeneral"], "font.size": 8, "legend.fontsize": 7.5,
    "svg.fonttype": "path", "lines.markersize": 4,
}  # fmt: skip
"""A Times-like font in caption size, as paths or embedded."""
LOOKS = {"page": Look(), "neurips": Look(5.5, 3.6, OF_PAPERS), "icml": Look(3.25, 3.6, OF_PAPERS)}
"""Look of the report; text width of NeurIPS; column width of ICML."""
LOOK = ContextVar("LOOK", default=LOOKS["page"])  # the look of figures drawn in this context

SETTINGS: Any = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # letters are embedded
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


def curve_style(at: int) -> dict[str, Any]:
    """Return colour, line style and marker of a curve, distinguishable in greyscale; 49 differ."""
    shifted = at + at // len(COLOURS)  # colours come again with another line and marker
    return {
        "color": COLOURS[at % len(COLOURS)],
        "linestyle": STYLES[shifted % len(STYLES)],
        "marker": MARKERS[shifted % len(MARKERS)],
        "linewidth": 1.8,
    }


def unzipped(points: Iterable[Point]) -> tuple[list[float], list[float]]:
    """Return the x and the y of points."""
    pairs = list(points)
    return [x for x, _ in pairs], [y for _, y in pairs]


def thin(points: list[T], most: int) -> list[T]:
    """Keep every k-th point and the last one, about ``most`` in all."""
    k = -(-len(points) // most)
    return points if k <= 1 else [*points[:-1:k], points[-1]]


def possible(metric: Metric) -> tuple[float, float]:
    """Return the smallest and largest possible score, to which drawn intervals are clipped."""
    best = metric.factor if metric.unit == "%" or metric.name == "r2" else math.inf
    return (0.0, best) if metric.unit == "%" else (-math.inf, best)


def legend_columns(labels: Sequence[str]) -> int:
    """Return the number of legend columns, at most three, that fit above the axes."""
    for columns in (3, 2):
        rows = -(-len(labels) // columns)
        parts = [labels[at : at + rows] for at in range(0, len(labels), rows)]
        if sum(SWATCH + LOOK.get().letter * max(map(len, part)) for part in parts) <= _room():
            return min(columns, 2) if len(labels) == 4 else columns
    return 1


def wrapped_title(title: str, panels: int) -> str:
    """Break the title of one of several panels side by side into lines that fit above it."""
    # Wider letters than the mean, since no title may reach into its neighbour's.
    letters = int((_room() - AXIS) / panels / (1.35 * LOOK.get().letter))
    return textwrap.fill(title, max(letters, 1))


def _room() -> float:
    """Return the width of a legend, in points."""
    return 72 * LOOK.get().width - 20


def legend_above(axes: "Axes", title: str, more: Sequence[Any] = ()) -> None:
    """Write a title and a legend above all axes of a figure; ``more`` are additional handles."""
    handles = [*axes.get_legend_handles_labels()[0], *more]
    letters = int((_room() - SWATCH) / LOOK.get().letter)
    labels = [textwrap.fill(str(handle.get_label()), letters) for handle in handles]
    columns = legend_columns(labels) if labels else 1
    space: Any = {"borderaxespad": 0.2, "handlelength": 2.4, "columnspacing": 1.2, "alignment": "left"}
    legend = axes.figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, title=title, **space
    )
    legend.get_title().set(fontsize=10, fontweight="bold")


def with_background(svg: str) -> str:
    """Add a white background to an SVG, so that it is readable as a file on any page."""
    head, tag, rest = svg.partition("<svg")
    size, end, body = rest.partition(">")
    return f'{head}{tag}{size}{end}\n <rect width="100%" height="100%" fill="#ffffff"/>{body}'


def figure_settings(salt: str) -> AbstractContextManager[None]:
    """Apply the shared matplotlib settings in a with block; ``salt`` makes SVG ids reproducible."""
    from matplotlib import rc_context

    return rc_context(SETTINGS | LOOK.get().settings | {"svg.hashsalt": salt})


@contextmanager
def figure_look(style: str, pdf: Path | None = None) -> Iterator[None]:
    """Draw figures in one of ``LOOKS`` in a with block; with ``pdf``, also write them to this file."""
    before = LOOK.set(replace(LOOKS[style], pdf=pdf))
    try:
        yield
    finally:
        LOOK.reset(before)


def canvas(height: float) -> "tuple[Figure, Axes]":
    """Create a transparent figure with axes, as wide as the current look; ``height`` in inches."""
    figure = blank(height)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    return figure, axes


def blank(height: float, width: float | None = None) -> "Figure":
    """Create a transparent figure without axes; sizes in inches, by default as wide as the current look."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width or LOOK.get().width, height), layout="constrained")
    figure.patch.set_visible(False)
    return figure


def to_svg(figure: "Figure") -> str:
    """Return a figure as SVG without a date; write it to the current PDF file, if any."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    svg = FigureCanvasSVG(figure)
    # Lay the figure out once, and write it with the canvas: savefig draws all twice, for the layout's sake.
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine("none")
    text = io.StringIO()
    svg.print_svg(text, metadata={"Date": None, "Creator": None})
    if pdf := LOOK.get().pdf:
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    return text.getvalue()
