"""Tasks in which the effect was looked for and not found: of docs/log.md, and of nothing else.

``experiments/trials.py`` finds them as ``trial_tasks:Frames`` and ``trial_tasks:Slow``.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from selfpretrain.config import spec
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import SequenceSpec, Split, Values
from selfpretrain.tasks.bidmc import Bidmc
from selfpretrain.tasks.spoken_digits import SpokenDigits

FRAME, SLOWER = 100, 16


@spec
class Frames(SpokenDigits):
    """Spoken digits as raw samples, a hundred to a position: 80 positions."""

    @property
    def form(self) -> SequenceSpec:
        """Channels are the samples of a frame."""
        form = super().form
        signal = Values(FRAME, centre=form.signal.centre * FRAME, spread=form.signal.spread * FRAME)
        return replace(form, signal=signal, length=form.length // FRAME)

    def load(self, split: Split) -> SequenceDataset:
        """The recordings in frames; what is left at their ends is cut off."""
        return framed(super().load(split), FRAME, lambda frames: frames.reshape(len(frames), -1))


@spec
class Slow(Bidmc):
    """The heart rate from signals of 7.8 Hz, means of sixteen samples: 250 positions of two channels."""

    @property
    def form(self) -> SequenceSpec:
        """As it was, but shorter."""
        form = super().form
        return replace(form, length=form.length // SLOWER)

    def load(self, split: Split) -> SequenceDataset:
        """The windows, slower; centre and spread are those of single samples."""
        return framed(super().load(split), SLOWER, lambda frames: frames.mean(1))


def framed(
    examples: SequenceDataset, size: int, become: Callable[[np.ndarray], np.ndarray]
) -> SequenceDataset:
    """Every sequence cut into (frames, size, channels), and what becomes of them."""
    sequences = []
    for row in range(len(examples)):
        values = np.asarray(examples.sequence(row), dtype=np.float32)
        whole = values[: len(values) // size * size]
        sequences.append(become(whole.reshape(-1, size, values.shape[1])))
    return SequenceDataset.from_sequences(sequences, examples.targets.numpy())
