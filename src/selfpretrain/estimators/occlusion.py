"""Importance of positions for a prediction, drawn over an image, a text or a signal."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS, LINES = 72, 24
"""Letters per line of text; most lines drawn."""
HUES = "RdBu"
"""Colour map: blue supports the prediction, red opposes it."""


@dataclass(frozen=True)
class Explanation:
    """Importance of every position of one sequence for its prediction."""

    answer: Any  # the predicted class or number
    sequence: np.ndarray  # (L,) tokens or (L, C) values
    importance: np.ndarray  # (L,) decrease of the probability, or number, when the position is hidden
    text: bool
    shape: tuple[int, int] | None = None  # rows and columns of an image, flattened row by row

    def picture(self) -> str:
        """Return a plot of sequence and importance as SVG; blue supports the prediction, red opposes it."""
        height, draw = self._drawing()
        with style.inked("explanation"):
            figure, axes = style.canvas(height, 7.2)
            draw(axes)
            axes.set_title(f"{self.answer}")
            return style.on_paper(style.drawn(figure))

    def _drawing(self) -> "tuple[float, Callable[[Axes], None]]":
        if self.shape:
            return 3.4, self._image
        if self.text and self.sequence.ndim == 1:
            return 0.7 + 0.19 * min(LINES, math.ceil(len(self.sequence) / LETTERS)), self._letters
        return 2.8, self._signal

    def _shaded(self, axes: "Axes", values: np.ndarray, scale: "Axes | None" = None) -> None:
        """Draw importance as colours, with a colour bar next to the axes or in ``scale``."""
        most = float(np.nanmax(np.abs(values))) or 1.0
        shown = axes.imshow(values, cmap=HUES, vmin=-most, vmax=most, aspect="auto", alpha=0.6)
        if figure := axes.get_figure():
            figure.colorbar(shown, ax=axes, cax=scale, label="importance")

    def _image(self, axes: "Axes") -> None:
        """Draw the image, and the importance of its pixels to the right."""
        assert self.shape is not None
        low, high = float(self.sequence.min()), float(self.sequence.max())
        pixels = ((self.sequence - low) / max(high - low, 1e-12)).reshape(*self.shape, -1)
        left, right = axes.inset_axes((0, 0, 0.42, 1)), axes.inset_axes((0.46, 0, 0.42, 1))
        left.imshow(pixels if pixels.shape[2] == 3 else pixels[:, :, 0], cmap="gray", vmin=0, vmax=1)
        self._shaded(right, self.importance.reshape(self.shape), axes.inset_axes((0.91, 0.05, 0.02, 0.9)))
        for panel in (left, right):
            panel.set_aspect("equal")
            panel.set_axis_off()
        axes.set_axis_off()

    def _letters(self, axes: "Axes") -> None:
        """Draw the text, each letter on the colour of its importance."""
        length = min(len(self.sequence), LETTERS * LINES)
        lines, width = math.ceil(length / LETTERS), min(length, LETTERS)
        grid = np.full(lines * width, np.nan)
        grid[:length] = self.importance[:length]
        self._shaded(axes, grid.reshape(lines, width))
        text = bytes(self.sequence[:length].tolist()).decode("latin-1")
        for place, letter in enumerate(text):
            row, column = divmod(place, width)
            shown = letter if letter.isprintable() and letter.isascii() else "·" if letter != "\n" else " "
            axes.text(column, row, shown, ha="center", va="center", fontsize=7, family="monospace")
        axes.set_axis_off()
        if length < len(self.sequence):
            axes.text(0, lines, f"and {len(self.sequence) - length:,} letters more", fontsize=7, va="top")

    def _signal(self, axes: "Axes") -> None:
        """Draw the channels as lines, and the importance of each position as a bar."""
        places = np.arange(len(self.importance))
        axes.bar(places, self.importance, width=1.0, color=style.COLOURS[0], alpha=0.45)
        axes.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
        axes.set_ylabel("importance")
        axes.set_xlabel("position")
        beside = axes.twinx()
        values = self.sequence if self.sequence.ndim == 2 else self.sequence[:, None]
        for channel, line in enumerate(values.T):
            colour = style.COLOURS[1:][channel % (len(style.COLOURS) - 1)]
            beside.plot(places, line, linewidth=0.9, color=colour, label=f"channel {channel}")
        beside.spines["right"].set_visible(True)
        beside.set_ylabel("value" if self.sequence.ndim == 2 else "symbol")
        if 1 < values.shape[1] < len(style.COLOURS):
            beside.legend(loc="upper right", ncols=values.shape[1])
