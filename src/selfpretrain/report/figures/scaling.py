"""Measurements of layers as rows relative to a reference, and as a log-log figure of time and memory."""

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .style import LOOK, curve_style, figure_settings, to_svg


@dataclass(frozen=True)
class Measurement:
    """Time and memory of a forward and a backward pass over one batch, or the reason why they are missing."""

    mixer: str
    length: int
    width: int
    batch: int
    depth: int
    parameters: int | None = None
    seconds: float | None = None  # median; processor time on a CPU
    bytes: int | None = None  # additional memory in use during one pass
    reason: str = ""

    def line(self) -> str:
        """Return the measurement as text, e.g. ``s4  length 1024  width 128  12.1 ms  47 MB``."""
        where = f"{self.mixer}  length {self.length}  width {self.width}"
        if self.seconds is None or self.bytes is None:
            return f"{where}  {self.reason}"
        return f"{where}  {three_digits(1e3 * self.seconds)} ms  {three_digits(1e-6 * self.bytes)} MB"


def rows(found: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Return measurements as rows with speed and memory relative to the first mixer at the same size."""
    reference = {(it.length, it.width): it for it in found if it.mixer == found[0].mixer}
    relative = []
    for it in found:
        of = reference[it.length, it.width]
        speed = of.seconds / it.seconds if of.seconds and it.seconds else None
        memory = it.bytes / of.bytes if of.bytes and it.bytes is not None else None
        relative.append(asdict(it) | {"speed": speed, "memory": memory})
    return relative


def figure(found: Sequence[Measurement]) -> dict[str, bytes]:
    """Draw time and memory by length, or by width where that varies, as PNG and SVG."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    drawn = [it for it in found if it.seconds and it.bytes]
    along = "width" if len({it.width for it in found}) > 1 else "length"
    sizes = sorted({getattr(it, along) for it in drawn})
    mixers = dict.fromkeys(it.mixer for it in drawn)
    with figure_settings("bench"):
        drawing = Figure(figsize=(2 * LOOK.get().width, max(3.2, 0.19 * len(mixers))), layout="constrained")
        panels = drawing.subplots(1, 2)
        quantities = (("seconds", 1e3, "ms"), ("bytes", 1e-6, "additional memory, MB"))
        for axes, (quantity, factor, label) in zip(panels, quantities, strict=True):
            for i, mixer in enumerate(mixers):
                kept = [it for it in drawn if it.mixer == mixer]
                values = [factor * getattr(it, quantity) for it in kept]
                axes.plot([getattr(it, along) for it in kept], values, **curve_style(i), label=mixer)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.grid(which="major")
            axes.set(xlabel=along, ylabel=label)
        drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", handlelength=3)
        image = io.BytesIO()
        drawing.savefig(image, format="png", dpi=160)
        return {"png": image.getvalue(), "svg": to_svg(drawing).encode()}


def three_digits(value: float) -> str:
    """Format a number with three significant digits, e.g. ``1,240``."""
    return f"{float(f'{value:.3g}'):,g}"
