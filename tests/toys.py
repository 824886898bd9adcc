"""Toys for tests: tasks with unlimited small data, and mixers that break the laws."""

from typing import Literal

import numpy as np
import torch
from torch import nn

from selfpretrain.data.examples import Examples
from selfpretrain.data.schema import (
    SPLITS,
    Classes,
    ClassSets,
    Form,
    PositionClasses,
    Reals,
    Split,
    Tokens,
    Values,
)
from selfpretrain.mixers.base import LayerContext, Mixer
from selfpretrain.shapes import Valid, Vectors
from selfpretrain.spec import Count, spec
from selfpretrain.tasks.base import Card, Task


@spec
class Majority(Task):
    """Which of two symbols is more frequent? Sequences of unequal length."""

    card = Card(source="made here", licence="none needed")

    length: Count = 24
    examples: Count = 96
    shortest: Count = 9
    signal: Literal["tokens", "values"] = "tokens"
    target: Literal["classes", "reals", "sets", "positions"] = "classes"

    @property
    def form(self) -> Form:
        """Two symbols, or one channel with two levels."""
        signal = (
            Tokens(vocab=2) if self.signal == "tokens" else Values(levels=2, centre=(0.5,), spread=(0.5,))
        )
        target = {
            "classes": Classes(("zeros", "ones")),
            "reals": Reals("share", 0.5, 0.2),
            "sets": ClassSets(("ones", "long")),
            "positions": PositionClasses(("same", "changed")),
        }[self.target]
        return Form(signal, self.length, target)

    def load(self, split: Split) -> Examples:
        """Fresh sequences for every split."""
        random = np.random.default_rng(SPLITS.index(split))
        lengths = random.integers(self.shortest, self.length + 1, self.examples)
        rows = [(random.random(n) < random.random()).astype(np.uint8) for n in lengths]
        share = np.array([row.mean() for row in rows], dtype=np.float32)
        y = {
            "classes": (share > 0.5).astype(np.int64),
            "reals": share,
            "sets": np.stack([share > 0.5, lengths > self.length * 2 / 3], axis=1).astype(np.int16),
            "positions": np.stack([changes(row, self.length) for row in rows]),
        }[self.target]
        sequences = rows if self.signal == "tokens" else [row[:, None].astype(np.float32) for row in rows]
        return Examples.ragged(sequences, y)


def changes(row: np.ndarray, length: int) -> np.ndarray:
    """(length,) whether a symbol is another than the one before; -1 beyond the end."""
    found = np.full(length, -1, dtype=np.int16)
    found[: len(row)] = np.diff(row.astype(np.int16), prepend=row[:1]) != 0
    return found


@spec
class Careless(Mixer):
    """Mean over everything: sees the future and mixes padding in."""

    def build(self, context: LayerContext) -> nn.Module:
        """The leaking layer."""
        return Leak(context.width)


class Leak(nn.Module):
    """The module of ``Careless``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x: Vectors, valid: Valid = None) -> Vectors:
        """The mean of all positions, padded ones included, at every position."""
        return self.out(x.mean(1, keepdim=True).expand_as(x))


@spec
class Broken(Mixer):
    """A mixer whose forward pass raises."""

    def build(self, context: LayerContext) -> nn.Module:
        """The failing layer."""
        return Raises()


class Raises(nn.Module):
    """The module of ``Broken``."""

    def forward(self, x: Vectors, valid: Valid = None) -> Vectors:
        """Nothing but an error."""
        raise RuntimeError("this mixer is broken")


def settle(seed: int = 0) -> None:
    """One thread and a known random state."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
