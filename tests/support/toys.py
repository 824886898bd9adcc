"""Toys for tests: tasks with unlimited small data, and mixers that break the laws."""

import os
import sys
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import nn

from selfpretrain.config import Count, spec
from selfpretrain.data.dataset import Augmentation, Batch, SequenceDataset
from selfpretrain.data.spec import SPLITS, Classes, Reals, SequenceSpec, Split, Tokens, Values
from selfpretrain.mixers.base import LayerContext, Mixer
from selfpretrain.shapes import PaddingMask, Vectors
from selfpretrain.tasks.base import Card, Task


def has_cells(kind: type[Mixer]) -> bool:
    """Whether a mixer is made of recurrent cells of its own module."""
    return hasattr(sys.modules[kind.__module__], "Directions")


@spec
class Reversal(Augmentation):
    """Every sequence backwards, with probability 1/2."""

    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """The batch with some of its sequences turned around."""
        sequences = batch.inputs.clone()
        for row, length in enumerate(batch.real().sum(1).tolist()):
            if torch.rand((), generator=random) < 0.5:
                sequences[row, :length] = sequences[row, :length].flip(0)
        return replace(batch, inputs=sequences)


@spec
class Majority(Task):
    """Which of two symbols is more frequent? Sequences of unequal length."""

    card = Card(source="made here", licence="none needed")
    augmentation = Reversal()

    length: Count = 24
    examples: Count = 96
    shortest: Count = 9
    signal: Literal["tokens", "values"] = "tokens"
    target: Literal["classes", "reals"] = "classes"

    @property
    def form(self) -> SequenceSpec:
        """Two symbols, or one channel with two levels."""
        signal = (
            Tokens(vocab=2) if self.signal == "tokens" else Values(levels=2, centre=(0.5,), spread=(0.5,))
        )
        target = Classes(("zeros", "ones")) if self.target == "classes" else Reals("share", 0.5, 0.2)
        return SequenceSpec(signal, self.length, target)

    def load(self, split: Split) -> SequenceDataset:
        """Fresh sequences for every split."""
        random = np.random.default_rng(SPLITS.index(split))
        lengths = random.integers(self.shortest, self.length + 1, self.examples)
        rows = [(random.random(n) < random.random()).astype(np.uint8) for n in lengths]
        share = np.array([row.mean() for row in rows], dtype=np.float32)
        y = (share > 0.5).astype(np.int64) if self.target == "classes" else share
        sequences = rows if self.signal == "tokens" else [row[:, None].astype(np.float32) for row in rows]
        return SequenceDataset.from_sequences(sequences, y)


@spec
class Words(Majority):
    """The same with a large vocabulary and few labels: is a word of the first or of the second half?"""

    vocab: Count = 1000
    labelled: Count = 10**6

    @property
    def form(self) -> SequenceSpec:
        """Tokens of a large vocabulary."""
        return replace(super().form, signal=Tokens(vocab=self.vocab))

    def load(self, split: Split) -> SequenceDataset:
        """Random words, of which the first sequences are labelled."""
        random = np.random.default_rng(SPLITS.index(split))
        lengths = random.integers(self.shortest, self.length + 1, self.examples)
        rows = [random.integers(self.vocab, size=n) for n in lengths]
        halves = np.array([row[0] >= self.vocab // 2 for row in rows]).astype(np.int64)
        y = np.where(np.arange(self.examples) < self.labelled, halves, -1)
        return SequenceDataset.from_sequences(rows, y)


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

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """The mean of all positions, padded ones included, at every position."""
        return self.out(x.mean(1, keepdim=True).expand_as(x))


@spec
class Normed(Mixer):
    """A mixer with PyTorch's own batch normalisation, whose running means are plain averages."""

    def build(self, context: LayerContext) -> nn.Module:
        """The layer with running statistics."""
        return NormedLayer(context.width)


class NormedLayer(nn.Module):
    """The module of ``Normed``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, momentum=None)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Every channel normalised over batch and positions."""
        return self.norm(x.mT).mT


@spec
class Broken(Mixer):
    """A mixer whose forward pass raises."""

    def build(self, context: LayerContext) -> nn.Module:
        """The failing layer."""
        return Raises()


class Raises(nn.Module):
    """The module of ``Broken``."""

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Nothing but an error."""
        raise RuntimeError("this mixer is broken")


def settle(seed: int = 0) -> None:
    """As many threads as the environment says, usually one, and a known random state."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(seed)
