"""Occlusion: importance of positions, from the change of a prediction when they are hidden, and its picture.

A stretch of a sequence, or a square of an image, is masked if pretraining masked positions. Otherwise it is
overwritten with positions drawn at random from the same sequence, and predictions are averaged over several
draws.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..data.dataset import SequenceDataset, generator
from ..data.offsets import NOTHING, Offsets, restored
from ..data.spec import Signal, Tokens
from ..errors import SpecError
from ..report.figures import style
from .inputs import BYTES
from .predictor import ESTIMATORS, PRETRAINER
from .simple import Answering

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRETCHES = 48
"""Approximate number of stretches per sequence."""
DRAWS = 8
"""Random draws per stretch."""
SQUARES = 8
"""Approximate number of squares along a side of an image."""
LEVELS = 256
"""Most levels of a pixel value."""
LETTERS = 72
"""Letters per line of text."""
LINES = 24
"""Most lines of text that are drawn."""
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
        with style.figure_settings("explanation"):
            figure, axes = style.canvas(height, 7.2)
            draw(axes)
            axes.set_title(f"{self.answer}")
            return style.with_background(style.to_svg(figure))

    def _drawing(self) -> "tuple[float, Callable[[Axes], None]]":
        """Return the height in inches, and the method that draws."""
        if self.shape:
            return 3.4, self._image
        if self.text and self.sequence.ndim == 1:
            return 0.7 + 0.19 * min(LINES, math.ceil(len(self.sequence) / LETTERS)), self._letters
        return 2.8, self._signal

    def _shade(self, axes: "Axes", values: np.ndarray, scale: "Axes | None" = None) -> None:
        """Draw importance as colours, with a colour bar next to the axes or in ``scale``."""
        most = float(np.nanmax(np.abs(values))) or 1.0
        shown = axes.imshow(values, cmap=HUES, vmin=-most, vmax=most, aspect="auto", alpha=0.6)
        if figure := axes.get_figure():
            figure.colorbar(shown, ax=axes, cax=scale, label="importance")

    def _image(self, axes: "Axes") -> None:
        """Draw the image, and the importance of its pixels to the right."""
        assert self.shape is not None
        low = float(self.sequence.min())
        high = float(self.sequence.max())
        pixels = ((self.sequence - low) / max(high - low, 1e-12)).reshape(*self.shape, -1)
        left = axes.inset_axes((0, 0, 0.42, 1))
        right = axes.inset_axes((0.46, 0, 0.42, 1))
        left.imshow(pixels if pixels.shape[2] == 3 else pixels[:, :, 0], cmap="gray", vmin=0, vmax=1)
        self._shade(right, self.importance.reshape(self.shape), axes.inset_axes((0.91, 0.05, 0.02, 0.9)))
        for panel in (left, right):
            panel.set_aspect("equal")
            panel.set_axis_off()
        axes.set_axis_off()

    def _letters(self, axes: "Axes") -> None:
        """Draw the text, each letter on the colour of its importance."""
        length = min(len(self.sequence), LETTERS * LINES)
        lines = math.ceil(length / LETTERS)
        width = min(length, LETTERS)
        grid = np.full(lines * width, np.nan)
        grid[:length] = self.importance[:length]
        self._shade(axes, grid.reshape(lines, width))
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
        right = axes.twinx()
        values = self.sequence if self.sequence.ndim == 2 else self.sequence[:, None]
        for channel, line in enumerate(values.T):
            colour = style.COLOURS[1:][channel % (len(style.COLOURS) - 1)]
            right.plot(places, line, linewidth=0.9, color=colour, label=f"channel {channel}")
        right.spines["right"].set_visible(True)
        right.set_ylabel("value" if self.sequence.ndim == 2 else "symbol")
        if 1 < values.shape[1] < len(style.COLOURS):
            right.legend(loc="upper right", ncols=values.shape[1])


def explain(
    predictor: Answering,
    data: SequenceDataset,
    classes: np.ndarray | None,
    masked: bool,
    shape: tuple[int, int] | None = None,
    offsets: Offsets = NOTHING,
) -> list[Explanation]:
    """Return the importance of every position of some sequences for the predictions of a model.

    Args:
        classes: (K,) labels of the outputs; None: the output is a number.
        masked: whether pretraining masked positions.
        shape: rows and columns, if sequences are images; None: a square, if the model was trained on pixels.
        offsets: what was subtracted from values and targets; it is added to answers and sequences.

    Raises:
        SpecError: if the model does not predict whole sequences, or a sequence does not have that shape.
    """
    if predictor.output in ("embedding", "softmax per position"):
        name = PRETRAINER if predictor.output == "embedding" else ESTIMATORS[predictor.form.target.kind]
        raise SpecError(f"{name} does not answer about whole sequences; ask one that does")
    signal = predictor.form.signal
    text = isinstance(signal, Tokens) and signal.vocab == BYTES
    found = []
    for row in range(len(data)):
        length = int(data.lengths[0, row])
        image = shape or _square(signal, length)
        if image and image[0] * image[1] != length:
            raise SpecError(
                f"sequence {row} has {length} positions, which are not {image[0]} rows of {image[1]}"
            )
        inputs = data.batch(torch.tensor([row])).inputs
        output, importance = _importance(predictor, inputs, list(_stretches(length, image)), masked)
        answer = float(output[0]) + offsets.target if classes is None else classes[int(output.argmax())]
        sequence = restored(data.sequence(row), offsets.values)
        found.append(Explanation(answer, sequence, importance, text, image))
    return found


def _square(signal: Signal, length: int) -> tuple[int, int] | None:
    """Return (side, side) if a sequence is a square image of quantised pixels, gray or RGB; else None."""
    if isinstance(signal, Tokens) or not signal.levels or signal.levels > LEVELS:
        return None
    side = math.isqrt(length)
    return (side, side) if signal.channels in (1, 3) and side * side == length > 1 else None


def _stretches(length: int, image: tuple[int, int] | None) -> Iterator[Tensor]:
    """Yield the positions to hide together: overlapping stretches, or overlapping squares of an image."""
    if image is None:
        size = max(1, round(2 * length / STRETCHES))
        for start in range(0, max(length - size, 0) + 1, max(1, size // 2)):
            yield torch.arange(start, start + size)
        return
    places = torch.arange(length).view(image)
    size = max(1, round(max(image) / SQUARES))
    step = max(1, size // 2)
    for top in range(0, image[0], step):
        for left in range(0, image[1], step):
            yield places[top : top + size, left : left + size].flatten()


def _importance(
    predictor: Answering, inputs: Tensor, stretches: list[Tensor], masked: bool
) -> tuple[Tensor, np.ndarray]:
    """Return the output (K,) for one sequence, and its mean decrease (L,) over the stretches of a position.

    Args:
        inputs: (1, L) or (1, L, C).
    """
    whole = predictor.outputs(inputs)[0]
    best = int(whole.argmax())
    length = inputs.shape[1]
    decrease = torch.zeros(length, dtype=torch.float64)
    times = torch.zeros(length)
    hide = _outputs_with_mask if masked else _outputs_with_noise
    for stretch in stretches:
        hidden = hide(predictor, inputs, stretch)
        decrease[stretch] += whole[best] - hidden[:, best].mean()
        times[stretch] += 1
    return whole, (decrease / times.clamp(min=1)).numpy()


def _outputs_with_mask(predictor: Answering, inputs: Tensor, stretch: Tensor) -> Tensor:
    """Return the output (1, K) with a stretch masked, as in pretraining."""
    mask = torch.zeros(inputs.shape[:2], dtype=torch.bool)
    mask[:, stretch] = True
    return predictor.outputs(inputs, mask)


def _outputs_with_noise(predictor: Answering, inputs: Tensor, stretch: Tensor) -> Tensor:
    """Return the outputs (draws, K) with a stretch overwritten by positions drawn from the sequence."""
    random = generator("explain", int(stretch[0]))
    drawn = torch.randint(inputs.shape[1], (DRAWS, len(stretch)), generator=random)
    overwritten = inputs.repeat(DRAWS, *[1] * (inputs.ndim - 1))
    overwritten[:, stretch] = inputs[0][drawn]
    return predictor.outputs(overwritten)
