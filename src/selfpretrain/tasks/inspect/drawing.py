"""Drawing of previews of a task's data, as a figure or as text in the terminal.

A preview shows some sequences of a split, then labels and lengths of all splits. In a figure, square
sequences of grey or coloured pixels are drawn as images, few channels as waves, many channels as a heat map,
tokens as text. Colours and fonts are those of the report figures. In the terminal, the same contents are
text.
"""

import math
import textwrap
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SpecError
from ...report.figures.style import COLOURS, SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from rich.console import RenderableType

WIDTH = 7.2
"""Width of the figure, in inches."""
HISTOGRAMS = 2.4
"""Height of the histograms, in inches."""
LETTERS = 100
"""Characters per line of text."""
LINES = 5
"""Maximum lines per text."""
LEVELS = 256
"""Maximum levels of a pixel; finer values are not drawn as an image, even if their number is a square."""
CHANNELS = 6
"""Maximum channels to draw as waves."""
POINTS = 1000
"""Segments of a long wave; each is drawn as its minimum and maximum."""
CLASSES = 40
"""Maximum classes with a bar; the most frequent ones are shown."""
BINS = 30
"""Maximum bins of a histogram."""
GREYS = " .:-=+*#%@"
BARS = "▁▂▃▄▅▆▇█"
TERMINAL_WIDTH = 76
"""Characters per line."""
SIDE = 32
"""Maximum pixels per side of an image."""
TERMINAL_LINES = 3
"""Maximum lines per text."""
LISTED_CLASSES = 12
"""Maximum classes to list; the most frequent ones are shown."""


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
        """Kind of drawing: text, image, wave or map."""
        sequences = [shown.sequence for shown in self.shown]
        if sequences[0].ndim == 1:
            return "text"
        channels = sequences[0].shape[1]
        square = all(math.isqrt(len(s)) ** 2 == len(s) > 1 for s in sequences)
        if square and channels in (1, 3) and self.levels is not None and self.levels <= LEVELS:
            return "image"
        return "wave" if channels <= CHANNELS else "map"

    @property
    def one_length(self) -> bool:
        """Whether all sequences are equally long."""
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


def save_figure(view: Preview, path: Path) -> None:
    """Draw the preview into a PNG or SVG file, depending on the suffix.

    Raises:
        SpecError: if the name ends in neither .png nor .svg, or the file cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if path.suffix not in (".png", ".svg"):
        raise SpecError(f"{path} ends in neither .png nor .svg; give the picture such a name")
    height = HEIGHTS[view.kind](view) + 0.4
    settings = {**SETTINGS, "svg.hashsalt": view.title, "text.parse_math": False}  # names may contain "$"
    with rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font lacks are drawn as boxes
        figure = Figure(figsize=(WIDTH, height + HISTOGRAMS), layout="constrained")
        upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(height, HISTOGRAMS)).ravel()
        upper.suptitle(view.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        DRAWN[view.kind](upper, view)
        if view.one_length:
            _labels(lower.subplots(), view)
        else:
            labels, lengths = lower.subplots(1, 2, width_ratios=(3, 2))
            _labels(labels, view)
            _histogram(lengths, view.lengths)
            lengths.set_xlabel("length")
        _lay_out(figure)
        try:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise SpecError(f"{path} cannot be written ({error.strerror}); name another file") from error


def _lay_out(figure: "Figure") -> None:
    """Fix the positions of all axes, rounded so that the file is reproducible."""
    # The last digits that the layout solver finds for many panels differ between runs.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position().bounds
        axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))


def _columns(view: Preview) -> int:
    return min(len(view.shown), 6)


def _rows(view: Preview) -> int:
    return -(-len(view.shown) // _columns(view))


def _images(figure: "SubFigure", view: Preview) -> None:
    panels = figure.subplots(_rows(view), _columns(view), squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    for axes, shown in zip(panels[: len(view.shown)], view.shown, strict=True):
        axes.imshow(view.image(shown.sequence), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(shown.caption, fontsize=8)


def _waves(figure: "SubFigure", view: Preview) -> None:
    """Draw one line per channel, each scaled to its minimum and maximum."""
    panels = figure.subplots(len(view.shown), 1, squeeze=False, sharex=True).ravel()
    for axes, shown in zip(panels, view.shown, strict=True):
        for channel, values in enumerate(shown.sequence.T):
            x, y = envelope(values.astype(np.float64), POINTS)
            low = y.min()
            span = y.max() - low
            level = (y - low) / (span if span > 0 else 1.0) - 1.1 * channel
            axes.plot(x, level, color=COLOURS[channel], linewidth=0.7)
        axes.set_title(shown.caption, loc="left", fontsize=8)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.margins(x=0)


def _maps(figure: "SubFigure", view: Preview) -> None:
    panels = figure.subplots(len(view.shown), 1, squeeze=False, sharex=True).ravel()
    for axes, shown in zip(panels, view.shown, strict=True):
        axes.imshow(shown.sequence.T, aspect="auto", origin="lower", cmap="cividis", interpolation="nearest")
        axes.set_title(shown.caption, loc="left", fontsize=8)
        axes.set_ylabel("channel")


def _texts(figure: "SubFigure", view: Preview) -> None:
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_ylim(_lines(view), 0)
    line = 0.0
    for shown in view.shown:
        axes.text(0, line, shown.caption, fontsize=8, fontweight="bold", va="top")
        text = wrap(view.text(shown.sequence))
        axes.text(0, line + 1, "\n".join(text), fontsize=7.5, family="monospace", va="top", linespacing=1.25)
        line += len(text) + 1.8


def _lines(view: Preview) -> float:
    return sum(len(wrap(view.text(shown.sequence))) + 1.8 for shown in view.shown)


def wrap(text: str, letters: int = LETTERS, lines: int = LINES) -> list[str]:
    """Return the first lines of a text."""
    return textwrap.wrap(text, letters, max_lines=lines, placeholder=" …", drop_whitespace=False) or [""]


def envelope(values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and values of a shortened wave: minimum and maximum of each of ``points`` segments."""
    if len(values) <= 2 * points:
        return np.arange(len(values)), values
    edges = np.linspace(0, len(values), points + 1).astype(int)
    low = np.minimum.reduceat(values, edges[:-1])
    high = np.maximum.reduceat(values, edges[:-1])
    return np.repeat(edges[:-1], 2), np.stack([low, high], axis=1).ravel()


def bins(values: np.ndarray) -> np.ndarray:
    """Return the edges of at most 30 bins; for integers, bins hold equally many values."""
    low = float(values.min())
    high = float(values.max())
    if values.dtype.kind == "f":
        return np.linspace(low, high if high > low else low + 1, BINS + 1)
    step = -(-(high - low + 1) // BINS)
    return np.arange(low - 0.5, high + step, step)


def _labels(axes: "Axes", view: Preview) -> None:
    if not view.names:
        _histogram(axes, view.targets)
        axes.set_xlabel("target")
        axes.legend()
        return
    names, shares = view.class_shares(CLASSES)
    for place, (split, share) in enumerate(shares.items()):
        axes.bar(np.arange(len(names)) + 0.27 * (place - 1), share, 0.25, color=COLOURS[place], label=split)
    slanted = sum(map(len, names)) > 40
    axes.set_xticks(
        range(len(names)),
        names,
        rotation=60 if slanted else 0,
        fontsize=8,
        ha="right" if slanted else "center",
    )
    axes.set_ylabel("% of a split")
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1.2), ncols=3)


def _histogram(axes: "Axes", values: Mapping[str, np.ndarray]) -> None:
    edges = bins(np.concatenate(list(values.values())))
    for place, (split, of_split) in enumerate(values.items()):
        counts = np.histogram(of_split, edges)[0]
        axes.stairs(
            100 * counts / max(len(of_split), 1), edges, color=COLOURS[place], label=split, linewidth=1.3
        )
    axes.set_ylabel("% of a split")


DRAWN = {"image": _images, "wave": _waves, "map": _maps, "text": _texts}
HEIGHTS = {
    "image": lambda view: 1.1 * _rows(view) * 6 / _columns(view),
    "wave": lambda view: (0.35 + 0.35 * view.shown[0].sequence.shape[1]) * len(view.shown),
    "map": lambda view: 1.4 * len(view.shown),
    "text": lambda view: 0.15 * _lines(view),
}
"""Height of the sequences by kind of drawing, in inches."""


def render_text(view: Preview) -> "RenderableType":
    """Return the preview as a renderable for a rich console."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    drawn = [
        Text("\n".join(["", shown.caption, *TERMINAL_DRAWN[view.kind](view, shown.sequence)]), no_wrap=True)
        for shown in view.shown
    ]
    side_by_side = [Columns(drawn, padding=(0, 3))] if view.kind == "image" else drawn
    below = [Text(line) for line in ["", *_label_lines(view), *_length_lines(view)]]
    return Group(Text(view.title, style="bold"), *side_by_side, *below)


def _image_lines(view: Preview, values: np.ndarray) -> list[str]:
    """Draw an image with two characters per pixel, since characters are twice as high as wide."""
    grey = view.image(values)
    grey = grey.mean(-1) if grey.ndim == 3 else grey
    step = -(-len(grey) // SIDE)
    side = len(grey) // step * step
    small = grey[:side, :side].reshape(side // step, step, side // step, step).mean((1, 3))
    return ["".join(2 * GREYS[k] for k in row) for row in _levels(small, len(GREYS))]


def _wave_lines(view: Preview, values: np.ndarray) -> list[str]:
    return [_sparkline(channel.astype(np.float64)) for channel in values.T[:CHANNELS]]


def _text_lines(view: Preview, tokens: np.ndarray) -> list[str]:
    return wrap(view.text(tokens[: TERMINAL_WIDTH * TERMINAL_LINES]), TERMINAL_WIDTH, TERMINAL_LINES)


def _sparkline(values: np.ndarray) -> str:
    """Return a wave as bars, each the maximum of a segment: the mean of a sound is about zero."""
    edges = np.unique(np.linspace(0, len(values), TERMINAL_WIDTH + 1).astype(int))
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
    names, shares = view.class_shares(LISTED_CLASSES)
    head = "labels in %"
    width = max(map(len, [head, *view.names]))
    lines = [head.ljust(width) + "".join(f"{split:>8}" for split in shares)]
    for name, row in zip(names, zip(*shares.values(), strict=True), strict=True):
        lines.append(name.ljust(width) + "".join(f"{share:8.1f}" for share in row))
    rest = len(view.names) - len(names)
    return lines + ([f"and {rest} rarer classes"] if rest else [])


def _length_lines(view: Preview) -> list[str]:
    return [] if view.one_length else _histogram_lines("lengths", view.lengths)


def _histogram_lines(what: str, values: Mapping[str, np.ndarray]) -> list[str]:
    pooled = np.concatenate(list(values.values()))
    edges = bins(pooled)
    lines = [f"{what}: {pooled.min():,.6g} to {pooled.max():,.6g}, median {np.median(pooled):,.6g}"]
    for split, of_split in values.items():
        counts = np.histogram(of_split, edges)[0]
        bars = zip(_bars(counts / max(counts.max(), 1)), counts, strict=True)
        lines.append(f"{split:<6}" + "".join(bar if count else " " for bar, count in bars))
    return lines


TERMINAL_DRAWN = {"image": _image_lines, "wave": _wave_lines, "map": _wave_lines, "text": _text_lines}
