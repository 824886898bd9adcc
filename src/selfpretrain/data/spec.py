"""What sequences and targets look like: symbols or values; classes, sets of them, or real numbers.

A kind of target is a spec of its own here, and an objective that ``answers`` it. It says how the targets of n
examples are stored (``stored``, ``shape``), what a head must give (``outputs``), and what people call it.
"""

import itertools
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..config import Count, Positive, spec

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


TargetName = Literal["classes", "reals", "sets", "positions"]


class _Target:
    """What targets share: unless a kind says otherwise, one number per example, and no score of guessing."""

    single: ClassVar[bool] = True  # whether an example's answer is one class or number

    @property
    def chance(self) -> float | None:
        """What guessing scores, where that is known."""
        return None

    def shape(self, rows: int, length: int) -> tuple[int, ...]:
        """Of the targets of so many examples."""
        return (rows,)


@spec
class Reals(_Target):
    """One real number per example; an unlabelled example has target NaN."""

    kind: ClassVar[TargetName] = "reals"
    stored: ClassVar[str] = "f4"
    metric: ClassVar[str] = "r2"
    outputs: ClassVar[int] = 1

    name: str = "value"
    centre: float = 0.0  # mean of the training targets
    spread: Positive = 1.0  # their standard deviation

    @property
    def said(self) -> str:
        """In words."""
        return f"real ({self.name})"


@spec
class _Named(_Target):
    """What has to do with K classes."""

    names: tuple[str, ...]

    @property
    def outputs(self) -> int:
        """How many numbers a head must give per answer."""
        return len(self.names)

    @property
    def chance(self) -> float | None:
        """One in K."""
        return 1 / len(self.names)


@spec
class Classes(_Named):
    """One of K classes per example; an unlabelled example has target -1."""

    kind: ClassVar[TargetName] = "classes"
    stored: ClassVar[str] = "i8"
    metric: ClassVar[str] = "accuracy"

    @property
    def said(self) -> str:
        """In words."""
        return f"{len(self.names)} classes"


@spec
class ClassSets(_Named):
    """Any of K classes per example, each 0 or 1; an unlabelled example has -1 throughout."""

    kind: ClassVar[TargetName] = "sets"
    stored: ClassVar[str] = "i2"
    metric: ClassVar[str] = "micro F1"
    single: ClassVar[bool] = False

    of: Literal["sets"] = "sets"  # tells it from classes where it is written down

    @property
    def said(self) -> str:
        """In words."""
        return f"any of {len(self.names)} classes"

    @property
    def chance(self) -> None:
        """It depends on how often each class is there."""
        return None

    def shape(self, rows: int, length: int) -> tuple[int, ...]:
        """Of the targets of so many examples."""
        return rows, len(self.names)


@spec
class PositionClasses(_Named):
    """One of K classes at every position; -1 beyond the end of a sequence and where it is not known."""

    kind: ClassVar[TargetName] = "positions"
    stored: ClassVar[str] = "i2"
    metric: ClassVar[str] = "accuracy"
    single: ClassVar[bool] = False

    of: Literal["positions"] = "positions"

    @property
    def said(self) -> str:
        """In words."""
        return f"one of {len(self.names)} classes at every position"

    def shape(self, rows: int, length: int) -> tuple[int, ...]:
        """Of the targets of so many examples."""
        return rows, length


Signal = Tokens | Values
Target = Classes | Reals | ClassSets | PositionClasses


@spec
class SequenceSpec:
    """What every example of a task looks like."""

    signal: Signal
    length: Count  # of the longest sequence
    target: Target
    views: Count = 1  # sequences per example, e.g. 2 when two documents are compared
