"""Preview of a task's data in the terminal: the contents of the figure as text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .preview_figure import CHANNELS, Preview, bins, wrap

if TYPE_CHECKING:
    from rich.console import RenderableType

GREYS = " .:-=+*#%@"
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 76
"""Characters per line."""
SIDE = 32
"""Maximum pixels per side of an image."""
LINES = 3
"""Maximum lines per text."""
CLASSES = 12
"""Maximum classes to list; the most frequent ones are shown."""


def render(view: Preview) -> "RenderableType":
    """Return the preview as a renderable for a rich console."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    drawn = [
        Text("\n".join(["", shown.caption, *DRAWN[view.kind](view, shown.sequence)]), no_wrap=True)
        for shown in view.shown
    ]
    side_by_side = [Columns(drawn, padding=(0, 3))] if view.kind == "image" else drawn
    below = [Text(line) for line in ["", *_labels(view), *_lengths(view)]]
    return Group(Text(view.title, style="bold"), *side_by_side, *below)


def _image(view: Preview, values: np.ndarray) -> list[str]:
    """Draw an image with two characters per pixel, since characters are twice as high as wide."""
    grey = view.image(values)
    grey = grey.mean(-1) if grey.ndim == 3 else grey
    step = -(-len(grey) // SIDE)
    side = len(grey) // step * step
    small = grey[:side, :side].reshape(side // step, step, side // step, step).mean((1, 3))
    return ["".join(2 * GREYS[k] for k in row) for row in _levels(small, len(GREYS))]


def _wave(view: Preview, values: np.ndarray) -> list[str]:
    return [_sparkline(channel.astype(np.float64)) for channel in values.T[:CHANNELS]]


def _text(view: Preview, tokens: np.ndarray) -> list[str]:
    return wrap(view.text(tokens[: WIDTH * LINES]), WIDTH, LINES)


def _sparkline(values: np.ndarray) -> str:
    """Return a wave as bars, each the maximum of a segment: the mean of a sound is about zero."""
    edges = np.unique(np.linspace(0, len(values), WIDTH + 1).astype(int))
    peaks = np.maximum.reduceat(values, edges[:-1])
    span = peaks.max() - peaks.min()
    return _bars((peaks - peaks.min()) / (span if span > 0 else 1.0))


def _bars(shares: np.ndarray) -> str:
    return "".join(BARS[k] for k in _levels(shares, len(BARS)))


def _levels(shares: np.ndarray, number: int) -> np.ndarray:
    """Map shares in [0, 1] to integers 0..number-1."""
    return (shares * number).astype(int).clip(0, number - 1)


def _labels(view: Preview) -> list[str]:
    if not view.names:
        return _histograms("targets", view.targets)
    names, shares = view.class_shares(CLASSES)
    head = "labels in %"
    width = max(map(len, [head, *view.names]))
    lines = [head.ljust(width) + "".join(f"{split:>8}" for split in shares)]
    for name, row in zip(names, zip(*shares.values(), strict=True), strict=True):
        lines.append(name.ljust(width) + "".join(f"{share:8.1f}" for share in row))
    rest = len(view.names) - len(names)
    return lines + ([f"and {rest} rarer classes"] if rest else [])


def _lengths(view: Preview) -> list[str]:
    return [] if view.one_length else _histograms("lengths", view.lengths)


def _histograms(what: str, values: Mapping[str, np.ndarray]) -> list[str]:
    pooled = np.concatenate(list(values.values()))
    edges = bins(pooled)
    lines = [f"{what}: {pooled.min():,.6g} to {pooled.max():,.6g}, median {np.median(pooled):,.6g}"]
    for split, of_split in values.items():
        counts = np.histogram(of_split, edges)[0]
        bars = zip(_bars(counts / max(counts.max(), 1)), counts, strict=True)
        lines.append(f"{split:<6}" + "".join(bar if count else " " for bar, count in bars))
    return lines


DRAWN = {"image": _image, "wave": _wave, "map": _wave, "text": _text}
