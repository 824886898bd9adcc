"""What a model's answer rested on, and a picture of it: of an image, of text, or of a signal."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS, LINES = 72, 24
"""Letters in a line of text, and lines that are drawn at most."""
HUES = "RdBu"
"""Blue is for the answer, red against it."""


@dataclass(frozen=True)
class Explanation:
    """What every position contributed to an answer."""

    answer: Any  # the class, or the number
    sequence: np.ndarray  # (L,) symbols or (L, C) values
    importance: np.ndarray  # (L,) fall of the probability, or the number, without the position
    text: bool
    shape: tuple[int, int] | None = None  # rows and columns of the image that the positions are, row by row

    def picture(self) -> str:
        """The sequence and the importance of its positions as SVG; blue is for the answer, red against."""
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
        """Colours of importance, and what they mean beside the axes, or in other ones."""
        most = float(np.nanmax(np.abs(values))) or 1.0
        shown = axes.imshow(values, cmap=HUES, vmin=-most, vmax=most, aspect="auto", alpha=0.6)
        if figure := axes.get_figure():
            figure.colorbar(shown, ax=axes, cax=scale, label="importance")

    def _image(self, axes: "Axes") -> None:
        """The image beside the importance of its pixels."""
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
        """The text, every letter on the colour of its importance."""
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
        """The channels above each other's importance, which is drawn as bars."""
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
