"""Formats of sequences and targets: tokens or values; classes, sets of classes, positions or real numbers.

Each kind of target is a spec of its own, for which an objective exists (``target_type``). It defines how the
targets of n examples are stored (``dtype``, ``shape``), how many outputs a head has (``outputs``), and how
the target is described in text (``description``).
"""

from itertools import cycle
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..config import Count, Positive, spec

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")


@spec
class Tokens:
    """Sequences of tokens 0..vocab-1."""

    vocab: Count


@spec
class Values:
    """Sequences of real numbers, one or more channels per position.

    The network sees ``(value - centre) / spread``; both are measured on the training split.
    """

    channels: Count = 1
    levels: Count | None = None  # number of evenly spaced quantisation levels; None: not quantised
    low: float = 0.0  # smallest value; levels divide the range from ``low`` to ``high``
    high: float = 1.0
    centre: tuple[float, ...] = (0.0,)  # one per channel
    spread: tuple[float, ...] = (1.0,)

    def standardise(self, values: Float[Tensor, "B L C"]) -> Float[Tensor, "B L C"]:
        """Return (value - centre) / spread, per channel."""
        # Python numbers, not tensors: copying a tensor of constants to a GPU would synchronise.
        if len(self.centre) == len(self.spread) == 1:
            return (values - self.centre[0]) / self.spread[0]
        each = zip(values.unbind(-1), cycle(self.centre), cycle(self.spread), strict=False)
        return torch.stack([(x - centre) / spread for x, centre, spread in each], dim=-1)

    def level_of(self, values: Float[Tensor, "*shape"], levels: int) -> Int[Tensor, "*shape"]:
        """Return the index of the nearest of ``levels`` evenly spaced levels from ``low`` to ``high``."""
        level = (values - self.low) / (self.high - self.low) * (levels - 1)
        return level.round().long().clamp(0, levels - 1)


TargetName = Literal["classes", "reals", "sets", "positions"]


class _Target:
    """Defaults shared by all kinds of targets: one number per example, and no chance level."""

    single: ClassVar[bool] = True  # whether an example has exactly one class or number

    @property
    def chance(self) -> float | None:
        """Return the score of guessing, or None if unknown."""
        return None

    def shape(self, rows: int, length: int) -> tuple[int, ...]:
        """Return the shape of the targets of ``rows`` examples."""
        return (rows,)


@spec
class Reals(_Target):
    """One real number per example; an unlabelled example has target NaN."""

    kind: ClassVar[TargetName] = "reals"
    dtype: ClassVar[str] = "f4"
    metric: ClassVar[str] = "r2"
    outputs: ClassVar[int] = 1

    name: str = "value"
    centre: float = 0.0  # mean of the training targets
    spread: Positive = 1.0  # standard deviation of the training targets

    @property
    def description(self) -> str:
        """Return a short description, e.g. "real (value)"."""
        return f"real ({self.name})"


@spec
class _Named(_Target):
    """A target over K named classes."""

    names: tuple[str, ...]

    @property
    def outputs(self) -> int:
        """Return the number of outputs of the head per answer."""
        return len(self.names)

    @property
    def chance(self) -> float | None:
        """Return the score of guessing: 1 / K."""
        return 1 / len(self.names)


@spec
class Classes(_Named):
    """One of K classes per example; an unlabelled example has target -1."""

    kind: ClassVar[TargetName] = "classes"
    dtype: ClassVar[str] = "i8"
    metric: ClassVar[str] = "accuracy"

    @property
    def description(self) -> str:
        """Return a short description, e.g. "10 classes"."""
        return f"{len(self.names)} classes"


@spec
class _SeveralClasses(_Named):
    """Several of K classes per example, or none; saved specs distinguish its kinds by ``of``."""

    dtype: ClassVar[str] = "i2"
    single: ClassVar[bool] = False


@spec
class ClassSets(_SeveralClasses):
    """Any of K classes per example, each 0 or 1; an unlabelled example has -1 throughout."""

    kind: ClassVar[TargetName] = "sets"
    metric: ClassVar[str] = "micro F1"

    of: Literal["sets"] = "sets"

    @property
    def description(self) -> str:
        """Return a short description, e.g. "any of 10 classes"."""
        return f"any of {len(self.names)} classes"

    @property
    def chance(self) -> None:
        """Return None: it depends on how frequent each class is."""
        return None

    def shape(self, rows: int, length: int) -> tuple[int, ...]:
        """Return the shape (rows, K) of the targets of ``rows`` examples."""
        return rows, len(self.names)


@spec
class PositionClasses(_SeveralClasses):
    """One of K classes at every position; -1 where unknown and beyond the end of a sequence."""

    kind: ClassVar[TargetName] = "positions"
    metric: ClassVar[str] = "accuracy"

    of: Literal["positions"] = "positions"

    @property
    def description(self) -> str:
        """Return a short description, e.g. "one of 10 classes at every position"."""
        return f"one of {len(self.names)} classes at every position"

    def shape(self, rows: int, length: int) -> tuple[int, ...]:
        """Return the shape (rows, length) of the targets of ``rows`` examples."""
        return rows, length


Signal = Tokens | Values
Target = Classes | Reals | ClassSets | PositionClasses


@spec
class SequenceSpec:
    """The format of a task's examples: signal, greatest length, target and views."""

    signal: Signal
    length: Count  # of the longest sequence
    target: Target
    views: Count = 1  # sequences per example, e.g. 2 for pairs of documents
