"""What layers cost as they grow: a table, a CSV file and a log-log figure with fitted slopes.

A slope of 1 means linear growth, of 2 quadratic; it is fitted to the logarithms by least squares.
"""

import csv
import io
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Literal

from . import numbers
from .figures import COLOURS, MARKERS, SETTINGS, STYLES, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

Quantity = Literal["seconds", "bytes"]
Points = list[tuple[int, float]]

AXES: dict[Quantity, tuple[str, float]] = {
    "seconds": ("forward and backward in ms", 1e3),
    "bytes": ("additional memory in MB", 1e-6),
}


@dataclass(frozen=True)
class Reading:
    """What one layer took for a forward and a backward pass over one batch, or why it took nothing."""

    mixer: str
    length: int  # positions
    width: int
    batch: int  # sequences
    parameters: int | None = None
    seconds: float | None = None  # median over the rounds; processor time on a CPU
    bytes: int | None = None  # growth of the memory in use by one pass
    rounds: int = 1
    said: str = ""  # why there is no number

    def line(self) -> str:
        """The reading in words, e.g. ``s4  length 1024  width 128  12.1 ms  47 MB``."""
        where = f"{self.mixer}  length {self.length}  width {self.width}"
        if self.seconds is None or self.bytes is None:
            return f"{where}  {self.said}"
        return f"{where}  {milliseconds(self.seconds)}  {megabytes(self.bytes)}"


@dataclass(frozen=True)
class Report:
    """All readings of a benchmark: length grows, or width at one length."""

    readings: tuple[Reading, ...]

    @property
    def along(self) -> Literal["length", "width"]:
        """What grows; widths that differ between mixers only do not."""
        widths = {reading.width for reading in self.readings if reading.mixer == self.mixers[0]}
        lengths = {reading.length for reading in self.readings}
        return "width" if len(widths) > len(lengths) else "length"

    @property
    def mixers(self) -> list[str]:
        """In the order in which they were measured."""
        return list(dict.fromkeys(reading.mixer for reading in self.readings))

    def points(self, mixer: str, quantity: Quantity) -> Points:
        """Size and value of a mixer's readings that have one, smallest first."""
        found = [r for r in self.readings if r.mixer == mixer]
        pairs = [(self.size(r), r.seconds if quantity == "seconds" else r.bytes) for r in found]
        return sorted((x, float(y)) for x, y in pairs if y)

    def size(self, reading: Reading) -> int:
        """The length or width of a reading, whichever grows."""
        return reading.length if self.along == "length" else reading.width


def slope(points: Points) -> float | None:
    """The exponent a of y ~ x^a that fits best; None for fewer than two sizes."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    if len(set(xs)) < 2:
        return None
    x0, y0 = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - x0) ** 2 for x in xs)


def document(report: Report) -> str:
    """The readings as CSV, numbers unrounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Reading)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(reading) for reading in report.readings)
    return text.getvalue()


def table(report: Report) -> "Table":
    """The readings for a terminal, and the slopes below them."""
    from rich.markup import escape
    from rich.table import Table

    made = Table("mixer", "length", "width", "parameters", "time", "memory", title=_title(report))
    for column in made.columns[1:]:
        column.justify = "right"
    for r in report.readings:
        size = numbers.NONE if r.parameters is None else f"{r.parameters:,}"
        there = r.seconds is not None and r.bytes is not None
        cost = (milliseconds(r.seconds or 0.0), megabytes(r.bytes or 0)) if there else (escape(r.said), "")
        made.add_row(r.mixer, f"{r.length:,}", f"{r.width:,}", size, *cost)
    made.add_section()
    for mixer in report.mixers:
        slopes = [_exponent(report, mixer, quantity) for quantity in ("seconds", "bytes")]
        made.add_row(mixer, "", "", "slope", *slopes)
    return made


def figures(report: Report) -> dict[str, bytes]:
    """Time and memory against size on logarithmic axes, as SVG and PNG; equal readings give equal files."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({**SETTINGS, "svg.hashsalt": "slopes"}):
        figure = Figure(figsize=(2 * WIDTH, 3.6), layout="constrained")
        for axes, quantity in zip(figure.subplots(1, 2), AXES, strict=True):
            _panel(axes, report, quantity)
        figure.suptitle(_title(report), fontsize=10, fontweight="bold")
        kinds = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
        return {kind: _drawn(figure.savefig, kind, metadata) for kind, metadata in kinds.items()}


def milliseconds(seconds: float) -> str:
    """A short time with three figures, e.g. ``12.1 ms``."""
    return f"{float(f'{1e3 * seconds:.3g}'):,g} ms"


def megabytes(size: int) -> str:
    """An amount of memory with three figures, e.g. ``47 MB``."""
    return f"{float(f'{1e-6 * size:.3g}'):,g} MB"


def _panel(axes: "Axes", report: Report, quantity: Quantity) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    label, factor = AXES[quantity]
    for at, mixer in enumerate(report.mixers):
        points = report.points(mixer, quantity)
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        axes.plot(
            xs,
            [y * factor for y in ys],
            color=COLOURS[at % len(COLOURS)],
            linestyle=STYLES[at % len(STYLES)],
            marker=MARKERS[at % len(MARKERS)],
            markersize=4,
            label=f"{mixer}, slope {_exponent(report, mixer, quantity)}",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    sizes = sorted({report.size(reading) for reading in report.readings})
    axes.set_xticks(sizes, [_size(x) for x in sizes])
    axes.grid(which="major")
    axes.set_xlabel(report.along)
    axes.set_ylabel(label)
    if axes.lines:
        axes.legend(handlelength=3, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _exponent(report: Report, mixer: str, quantity: Quantity) -> str:
    found = slope(report.points(mixer, quantity))
    return numbers.NONE if found is None else f"{found:.2f}".replace("-", numbers.MINUS)


def _title(report: Report) -> str:
    batches = sorted({reading.batch for reading in report.readings})
    return f"One layer, forward and backward, batch {', '.join(map(str, batches))}"


def _size(x: int) -> str:
    return f"{x // 1024}k" if x % 1024 == 0 else f"{x}"


def _drawn(save: Callable[..., None], kind: str, metadata: dict[str, None]) -> bytes:
    image = io.BytesIO()
    save(image, format=kind, metadata=metadata, dpi=160)
    return image.getvalue()
