"""Report of a layer benchmark: tables, a CSV and a log-log figure of time and memory, with fitted slopes.

A slope of 1 means linear growth, of 2 quadratic; it is fitted to the logarithms by least squares. The
figure draws a few mixers as lines, and many as rows, fastest first, with a dot for each size.
"""

import csv
import io
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from .. import format
from ..layout import Entry, ReportTable
from ..render import markdown as md
from ..render import terminal
from .style import FAINT, INK, LOOK, curve_style, figure_settings, unzipped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType

Quantity = Literal["seconds", "bytes"]
Points = list[tuple[int, float]]

AXES: dict[Quantity, tuple[str, float]] = {
    "seconds": ("forward and backward in ms", 1e3),
    "bytes": ("additional memory in MB", 1e-6),
}
MANY = 8
"""From this number of mixers, each is drawn as a row: so many lines would be indistinguishable."""
SHADES = ("#f6c445", "#e08b3a", "#b8563f", "#7d3350", "#3d2352")
"""Colours of sizes, smallest first, from light to dark: also ordered in greyscale."""


@dataclass(frozen=True)
class Measurement:
    """Time and memory of a forward and a backward pass over one batch, or the reason why they are missing."""

    mixer: str
    length: int  # positions
    width: int
    batch: int  # sequences
    parameters: int | None = None
    seconds: float | None = None  # median over rounds; processor time on a CPU
    bytes: int | None = None  # additional memory in use during one pass
    rounds: int = 1
    reason: str = ""  # reason for a missing measurement
    depth: int = 1  # number of layers

    def line(self) -> str:
        """Return the measurement as text, e.g. ``s4  length 1024  width 128  12.1 ms  47 MB``."""
        where = f"{self.mixer}  length {self.length}  width {self.width}"
        if self.seconds is None or self.bytes is None:
            return f"{where}  {self.reason}"
        return f"{where}  {milliseconds(self.seconds)}  {megabytes(self.bytes)}"


@dataclass(frozen=True)
class Report:
    """All measurements of a benchmark over increasing lengths, or over increasing widths at one length."""

    readings: tuple[Measurement, ...]

    @property
    def along(self) -> Literal["length", "width"]:
        """The size that varies; widths that only differ between mixers do not count."""
        widths = {reading.width for reading in self.readings if reading.mixer == self.mixers[0]}
        lengths = {reading.length for reading in self.readings}
        return "width" if len(widths) > len(lengths) else "length"

    @property
    def mixers(self) -> list[str]:
        """Mixers in the order of measurement."""
        return list(dict.fromkeys(reading.mixer for reading in self.readings))

    @property
    def sizes(self) -> list[int]:
        """The lengths or widths, smallest first."""
        return sorted({self.size(reading) for reading in self.readings})

    @property
    def ranked(self) -> list[str]:
        """Mixers, the fastest at the largest size first; those that failed at large sizes come later."""
        largest = {mixer: (self.points(mixer, "seconds") or [(0, 0.0)])[-1] for mixer in self.mixers}
        return sorted(largest, key=lambda mixer: (-largest[mixer][0], largest[mixer][1]))

    def points(self, mixer: str, quantity: Quantity) -> Points:
        """Return (size, value) of a mixer's measurements, smallest size first; missing ones are left out."""
        found = [r for r in self.readings if r.mixer == mixer]
        pairs = [(self.size(r), r.seconds if quantity == "seconds" else r.bytes) for r in found]
        return sorted((x, float(y)) for x, y in pairs if y)

    def size(self, reading: Measurement) -> int:
        """Return the length or width of a measurement, whichever varies."""
        return reading.length if self.along == "length" else reading.width


def slope(points: Points) -> float | None:
    """Fit the exponent a of y ~ x^a; None for fewer than two sizes."""
    if len({x for x, _ in points}) < 2:
        return None
    from scipy.stats import linregress

    return float(linregress([math.log(x) for x, _ in points], [math.log(y) for _, y in points]).slope)


def document(report: Report) -> str:
    """Return the measurements as CSV, numbers unrounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Measurement)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(reading) for reading in report.readings)
    return text.getvalue()


def table(report: Report) -> "RenderableType":
    """Return the table for a terminal: a row per measurement, or per mixer if there are many."""
    return terminal.grid(_by_mixer(report) if len(report.mixers) >= MANY else _by_reading(report))


def markdown(report: Report) -> str:
    """Return a Markdown table, a row per mixer, followed by the reasons for missing measurements."""
    lines = "\n".join(f"- {md.escaped(line)}" for line in _missing(report))
    return md.table(replace(_by_mixer(report), caption=""), 2) + (f"\n\n{lines}" if lines else "") + "\n"


def _by_mixer(report: Report) -> ReportTable:
    sizes = report.sizes
    rows = []
    for mixer in report.ranked:
        cells = _cells(report, mixer, "seconds", sizes) + _cells(report, mixer, "bytes", sizes[-1:])
        rows.append((Entry(mixer), *map(Entry, cells)))
    heads = ["mixer", *(f"ms, {_size(x)}" for x in sizes), "slope"]
    heads += [*(f"MB, {_size(x)}" for x in sizes[-1:]), "slope"]
    return ReportTable("mixers", _title(report), tuple(heads), tuple(rows), "\n".join(_missing(report)))


def _by_reading(report: Report) -> ReportTable:
    rows: list[tuple[str, ...]] = []
    for r in report.readings:
        size = format.NONE if r.parameters is None else f"{r.parameters:,}"
        there = r.seconds is not None and r.bytes is not None
        cost = (milliseconds(r.seconds or 0.0), megabytes(r.bytes or 0)) if there else (r.reason, "")
        rows.append((r.mixer, f"{r.length:,}", f"{r.width:,}", size, *cost))
    for mixer in report.mixers:
        slopes = [_exponent(report, mixer, quantity) for quantity in AXES]
        rows.append((mixer, "", "", "slope", *slopes))
    heads = ("mixer", "length", "width", "parameters", "time", "memory")
    return ReportTable("readings", _title(report), heads, tuple(tuple(map(Entry, row)) for row in rows))


def _cells(report: Report, mixer: str, quantity: Quantity, sizes: list[int]) -> list[str]:
    """Return the values at these sizes, followed by the slope over all sizes."""
    found = dict(report.points(mixer, quantity))
    factor = AXES[quantity][1]
    values = [_three(found[x] * factor) if x in found else format.NONE for x in sizes]
    return [*values, _exponent(report, mixer, quantity)]


def _missing(report: Report) -> list[str]:
    """Return the reasons for missing measurements, one line per mixer and reason."""
    sizes: dict[tuple[str, str], list[str]] = {}
    for reading in report.readings:
        if reading.seconds is None:
            sizes.setdefault((reading.mixer, reading.reason), []).append(_size(report.size(reading)))
    return [f"{mixer}, {report.along} {' and '.join(at)}: {reason}" for (mixer, reason), at in sizes.items()]


def figures(report: Report) -> dict[str, bytes]:
    """Draw time and memory on logarithmic axes, as SVG and PNG; the files are reproducible byte for byte."""
    draw = _rows if len(report.mixers) >= MANY else _lines
    with figure_settings("slopes"):
        figure = draw(report)
        figure.suptitle(_title(report), fontsize=10, fontweight="bold")
        images = {}
        for kind, metadata in {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}.items():
            image = io.BytesIO()
            figure.savefig(image, format=kind, metadata=metadata, dpi=160)
            images[kind] = image.getvalue()
        return images


def milliseconds(seconds: float) -> str:
    """Format a time in milliseconds with three figures, e.g. ``12.1 ms``."""
    return f"{_three(1e3 * seconds)} ms"


def megabytes(size: int) -> str:
    """Format bytes in megabytes with three figures, e.g. ``47 MB``."""
    return f"{_three(1e-6 * size)} MB"


def _three(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"


def _lines(report: Report) -> "Figure":
    """Draw a line per mixer against size."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    figure = Figure(figsize=(2 * LOOK.get().width, 3.6), layout="constrained")
    for axes, quantity in zip(figure.subplots(1, 2), AXES, strict=True):
        label, factor = AXES[quantity]
        for at, mixer in enumerate(report.mixers):
            if points := [(float(x), y * factor) for x, y in report.points(mixer, quantity)]:
                name = f"{mixer}, slope {_exponent(report, mixer, quantity)}"
                axes.plot(*unzipped(points), **curve_style(at) | {"linewidth": 1.5}, markersize=4, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xticks(report.sizes, [_size(x) for x in report.sizes])
        axes.grid(which="major")
        axes.set_xlabel(report.along)
        axes.set_ylabel(label)
        if axes.lines:
            axes.legend(handlelength=3, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure


def _rows(report: Report) -> "Figure":
    """Draw a row per mixer with a dot per size."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    mixers = report.ranked
    figure = Figure(figsize=(2 * LOOK.get().width, 1.1 + 0.19 * len(mixers)), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for axes, quantity in zip(both, AXES, strict=True):
        for row, mixer in enumerate(mixers):
            _row(axes, report, row, mixer, quantity)
        axes.text(1.02, 1.0, "slope", transform=axes.transAxes, va="bottom", fontsize=8, color=INK)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(which="major", axis="x")
        axes.set_axisbelow(True)
        axes.set_xlabel(AXES[quantity][0])
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    both[0].set_yticks(range(len(mixers)), mixers)
    both[0].set_ylim(len(mixers) - 0.5, -0.5)
    dots = [
        Line2D([], [], linestyle="", marker="o", color=_shade(report, x), label=_size(x))
        for x in report.sizes
    ]
    figure.legend(handles=dots, title=report.along, loc="outside lower center", ncols=max(1, len(dots)))
    return figure


def _row(axes: "Axes", report: Report, row: int, mixer: str, quantity: Quantity) -> None:
    points = report.points(mixer, quantity)
    factor = AXES[quantity][1]
    axes.plot([y * factor for _, y in points], [row] * len(points), color=FAINT, linewidth=3, zorder=1)
    for x, y in points:
        axes.plot([y * factor], [row], marker="o", markersize=4.5, color=_shade(report, x))
    exponent = _exponent(report, mixer, quantity)
    axes.text(1.02, row, exponent, transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=INK)


def _shade(report: Report, size: int) -> str:
    sizes = report.sizes
    return SHADES[sizes.index(size) * (len(SHADES) - 1) // max(1, len(sizes) - 1)]


def _exponent(report: Report, mixer: str, quantity: Quantity) -> str:
    found = slope(report.points(mixer, quantity))
    return format.NONE if found is None else f"{found:.2f}".replace("-", format.MINUS)


def _title(report: Report) -> str:
    batches = sorted({reading.batch for reading in report.readings})
    widths = {reading.width for reading in report.readings}
    wide = f" of width {widths.pop()}" if len(widths) == 1 else ""
    depth = report.readings[0].depth if report.readings else 1
    layers = "One layer" if depth == 1 else f"{depth} layers"
    return f"{layers}{wide}, forward and backward, batch {', '.join(map(str, batches))}"


def _size(x: int) -> str:
    return f"{x // 1024}k" if x % 1024 == 0 else f"{x}"
