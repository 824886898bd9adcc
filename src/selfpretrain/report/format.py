"""Formatting of numbers, names and intervals, shared by all reports."""

import math
import re

from .results import Metric
from .statistics import Estimate

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"  # placeholder for a missing number
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Terminal control characters, bidirectional text controls, and characters that XML forbids."""


def printable(text: str) -> str:
    """Remove control characters from a text; keep its line breaks."""
    return CONTROLS.sub("", text)


def plain(text: str) -> str:
    """Return a text as one line without control characters; each renderer escapes it further."""
    return " ".join(printable(text).split())


def fixed(value: float, digits: int) -> str:
    """Format a number with this many decimals, e.g. ``0.52``; zero has no sign."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if not text.strip("-0.") else text.replace("-", MINUS)


def score(metric: Metric, value: float) -> str:
    """Format a score without its unit, e.g. ``64.0``."""
    return fixed(value * metric.factor, metric.digits)


def signed(metric: Metric, value: float) -> str:
    """Format a difference of scores without its unit, e.g. ``+6.1``."""
    text = score(metric, value)
    return text if text.startswith(MINUS) or not text.strip("0.") else f"+{text}"


def interval(metric: Metric, bounds: tuple[float, float] | None) -> str:
    """Format the interval of a difference, e.g. ``[+3.2, +9.0]``; a dash if there is none."""
    return f"[{signed(metric, bounds[0])}, {signed(metric, bounds[1])}]" if bounds else NONE


def spread(metric: Metric, found: Estimate) -> str:
    """Format a mean with its 95 % interval over seeds and their number, e.g. ``64.0 ± 1.2 (3)``."""
    half = "" if found.over_seeds is None else f" ± {score(metric, found.over_seeds)}"
    return f"{score(metric, found.mean)}{half} ({found.n})"


def points(metric: Metric) -> str:
    """Return the unit of a difference with a leading space; ``%`` becomes `` points``."""
    return " points" if metric.unit == "%" else f" {metric.unit}".rstrip()


def tie(metric: Metric) -> str:
    """Format the size of a tie with its unit, e.g. ``1.0 points``."""
    return f"{score(metric, metric.tie)}{points(metric)}"


def name(metric: Metric) -> str:
    """Return the printed name of a metric."""
    return {"r2": "R²"}.get(metric.name, metric.name)


def unit(metric: Metric) -> str:
    """Return the name of a metric with its unit, e.g. ``accuracy in %``."""
    return f"{name(metric)} in {metric.unit}" if metric.unit else name(metric)


def probability(p: float | None) -> str:
    """Format a p value; a dash if there were too few seeds for a test."""
    if p is None:
        return NONE
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def quantity(value: float) -> str:
    """Format a large number with three figures and an SI prefix, e.g. ``84.2 k``."""
    if value < 1000:
        return f"{value:.0f}"
    size = min(math.floor(math.log10(value) / 3 + 1e-9), 6)
    scaled = f"{value / 1000**size:.3g}"
    if float(scaled) >= 1000 and size < 6:
        size += 1
        scaled = f"{value / 1000**size:.3g}"
    return f"{float(scaled):g} {' kMGTPE'[size]}"


def flops(value: float) -> str:
    """Format a number of operations, e.g. ``1.2 TFLOP``; a dash if none were counted."""
    text = quantity(value)
    return NONE if value <= 0 else f"{text}{'' if text[-1].isalpha() else ' '}FLOP"


def listing(words: list[str]) -> str:
    """Join words as in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def plural(n: int, noun: str) -> str:
    """Format a count with its noun, e.g. ``1 cell``, ``3 cells``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
