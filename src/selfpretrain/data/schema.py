"""What sequences and targets look like: symbols or values, classes or real numbers."""

import itertools
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..spec import Count, Positive, spec

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")


@spec
class Tokens:
    """Sequences of symbols 0..vocab-1."""

    vocab: Count


@spec
class Values:
    """Sequences of real numbers, one or more channels per position.

    The network sees ``(value - centre) / spread``; both are measured on the training split.
    """

    channels: Count = 1
    levels: Count | None = None  # how many distinct values there are, evenly spaced, when they are quantised
    low: float = 0.0  # smallest value; with ``high``, the range that levels divide
    high: float = 1.0
    centre: tuple[float, ...] = (0.0,)  # one per channel
    spread: tuple[float, ...] = (1.0,)

    def standardised(self, values: Float[Tensor, "B L C"]) -> Float[Tensor, "B L C"]:
        """(value - centre) / spread, per channel; with plain numbers, which no device waits for."""
        if len(self.centre) == len(self.spread) == 1:
            return (values - self.centre[0]) / self.spread[0]
        each = zip(
            values.unbind(-1), itertools.cycle(self.centre), itertools.cycle(self.spread), strict=False
        )
        return torch.stack([(x - centre) / spread for x, centre, spread in each], dim=-1)

    def level_of(self, values: Float[Tensor, "*shape"], levels: int) -> Int[Tensor, "*shape"]:
        """The nearest of so many evenly spaced levels from ``low`` to ``high``, as a number from 0."""
        level = (values - self.low) / (self.high - self.low) * (levels - 1)
        return level.round().long().clamp(0, levels - 1)


@spec
class Classes:
    """One of K classes per example; an unlabelled example has target -1."""

    names: tuple[str, ...]


@spec
class Reals:
    """One real number per example; an unlabelled example has target NaN."""

    name: str = "value"
    centre: float = 0.0  # mean of the training targets
    spread: Positive = 1.0  # their standard deviation


Signal = Tokens | Values
Target = Classes | Reals


@spec
class Form:
    """What every example of a task looks like."""

    signal: Signal
    length: Count  # of the longest sequence
    target: Target
    views: Count = 1  # sequences per example, e.g. 2 when two documents are compared
