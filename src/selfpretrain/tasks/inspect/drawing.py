"""Drawing of previews of a task's data as text in the terminal; ``examples/draw_data.py`` draws a figure.

A preview shows some sequences of a split, then labels and lengths of all splits. Square sequences of grey or
coloured pixels are drawn as images, channels as bars, tokens as text.
"""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 76  # characters per line
MAX_LINES = 3  # maximum lines per text
MAX_SIDE = 32  # maximum pixels per side of an image
MAX_LEVELS = 256
"""Maximum levels of a pixel; finer values are not drawn as an image, even if their number is a square."""
MAX_CHANNELS = 6  # maximum channels to draw
MAX_CLASSES = 12  # maximum classes to list; the most frequent ones are shown
MAX_BINS = 30  # maximum bins of a histogram
GREYS = " .:-=+*#%@"
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class PreviewItem:
    """One sequence and its caption."""

    caption: str
    sequence: np.ndarray  # (L,) tokens or (L, C) values


@dataclass(frozen=True)
class Preview:
    """The contents of a preview: a sample of sequences, and labels and lengths of all splits."""

    title: str
    shown: tuple[PreviewItem, ...]
    targets: Mapping[str, np.ndarray]  # by split: (n,) classes or real numbers, of labelled examples
    lengths: Mapping[str, np.ndarray]  # by split: (n,)
    names: tuple[str, ...] = ()  # of classes; empty: real targets
    symbols: tuple[str, ...] | None = None  # text of each token; None: shown as numbers
    levels: int | None = None  # number of distinct values from ``low`` to ``high``; None: continuous
    low: float = 0.0
    high: float = 1.0

    @property
    def kind(self) -> str:
        """Return the kind of drawing: text, image or wave."""
        sequences = [shown.sequence for shown in self.shown]
        if sequences[0].ndim == 1:
            return "text"
        square = all(math.isqrt(len(s)) ** 2 == len(s) > 1 for s in sequences)
        few_levels = self.levels is not None and self.levels <= MAX_LEVELS
        return "image" if square and few_levels and sequences[0].shape[1] in (1, 3) else "wave"

    @property
    def one_length(self) -> bool:
        """Return whether all sequences are equally long."""
        return len({length for n in self.lengths.values() for length in (n.min(), n.max())}) == 1

    def class_shares(self, most: int) -> tuple[list[str], dict[str, np.ndarray]]:
        """Return the names of the ``most`` frequent classes, and the share of each by split, in %."""
        n_classes = len(self.names)
        shares = {
            split: 100 * np.bincount(y, minlength=n_classes) / max(len(y), 1)
            for split, y in self.targets.items()
        }
        chosen = np.sort(np.argsort(-shares["train"], kind="stable")[:most])
        return [self.names[k] for k in chosen], {split: part[chosen] for split, part in shares.items()}

    def image(self, values: np.ndarray) -> np.ndarray:
        """Return the (S, S) or (S, S, 3) brightness in [0, 1] of a square sequence."""
        side = math.isqrt(len(values))
        square = ((values - self.low) / (self.high - self.low)).reshape(side, side, -1)
        return square[:, :, 0] if square.shape[2] == 1 else square

    def text(self, tokens: np.ndarray) -> str:
        """Return tokens as one line of text; characters that cannot be printed become a dot."""
        if self.symbols is None:
            return " ".join(map(str, tokens.tolist()))
        text = "".join(self.symbols[token] for token in tokens.tolist())
        return "".join(c if c.isprintable() else " " if c.isspace() else "·" for c in text)


def bins(values: np.ndarray) -> np.ndarray:
    """Return the edges of at most ``MAX_BINS`` bins; for integers, bins hold equally many values."""
    low = float(values.min())
    high = float(values.max())
    if values.dtype.kind == "f":
        return np.linspace(low, high if high > low else low + 1, MAX_BINS + 1)
    step = -(-(high - low + 1) // MAX_BINS)
    return np.arange(low - 0.5, high + step, step)


def render_text(view: Preview) -> "RenderableType":
    """Return the preview as a renderable for a rich console."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    drawn = [
        Text("\n".join(["", shown.caption, *_lines(view, shown.sequence)]), no_wrap=True)
        for shown in view.shown
    ]
    side_by_side = [Columns(drawn, padding=(0, 3))] if view.kind == "image" else drawn
    lengths = [] if view.one_length else _histogram_lines("lengths", view.lengths)
    below = [Text(line) for line in ["", *_label_lines(view), *lengths]]
    return Group(Text(view.title, style="bold"), *side_by_side, *below)


def _lines(view: Preview, sequence: np.ndarray) -> list[str]:
    """Return the lines of one sequence."""
    if view.kind == "image":
        return _image_lines(view, sequence)
    if view.kind == "wave":
        return [_sparkline(channel.astype(np.float64)) for channel in sequence.T[:MAX_CHANNELS]]
    text = view.text(sequence[: WIDTH * MAX_LINES])
    lines = textwrap.wrap(text, WIDTH, max_lines=MAX_LINES, placeholder=" …", drop_whitespace=False)
    return lines or [""]


def _image_lines(view: Preview, values: np.ndarray) -> list[str]:
    """Draw an image with two characters per pixel, since characters are twice as high as wide."""
    grey = view.image(values)
    grey = grey.mean(-1) if grey.ndim == 3 else grey
    step = -(-len(grey) // MAX_SIDE)
    side = len(grey) // step * step
    small = grey[:side, :side].reshape(side // step, step, side // step, step).mean((1, 3))
    return ["".join(2 * GREYS[k] for k in row) for row in _levels(small, len(GREYS))]


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


def _label_lines(view: Preview) -> list[str]:
    if not view.names:
        return _histogram_lines("targets", view.targets)
    names, shares = view.class_shares(MAX_CLASSES)
    head = "labels in %"
    width = max(map(len, [head, *view.names]))
    lines = [head.ljust(width) + "".join(f"{split:>8}" for split in shares)]
    for name, row in zip(names, zip(*shares.values(), strict=True), strict=True):
        lines.append(name.ljust(width) + "".join(f"{share:8.1f}" for share in row))
    rest = len(view.names) - len(names)
    return lines + ([f"and {rest} rarer classes"] if rest else [])


def _histogram_lines(what: str, values: Mapping[str, np.ndarray]) -> list[str]:
    pooled = np.concatenate(list(values.values()))
    edges = bins(pooled)
    lines = [f"{what}: {pooled.min():,.6g} to {pooled.max():,.6g}, median {np.median(pooled):,.6g}"]
    for split, of_split in values.items():
        counts = np.histogram(of_split, edges)[0]
        bars = zip(_bars(counts / max(counts.max(), 1)), counts, strict=True)
        lines.append(f"{split:<6}" + "".join(bar if count else " " for bar, count in bars))
    return lines
