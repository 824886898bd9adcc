"""Mixers whose cost or failure is known; the bench imports them in other processes."""

import os
import signal
import time

import torch
from torch import nn

from selfpretrain.config import Count, spec
from selfpretrain.errors import SpecError
from selfpretrain.mixers.base import LayerContext, Mixer
from selfpretrain.shapes import PaddingMask, Vectors


@spec
class TaskConstants(Mixer):
    """Takes so many megabytes and milliseconds of processor time per position, beyond the 100th of them."""

    megabytes: Count = 1
    milliseconds: Count = 1

    def build(self, context: LayerContext) -> nn.Module:
        """The layer."""
        return KnownLayer(context.width, self.megabytes, self.milliseconds)


class KnownLayer(nn.Module):
    """The module of ``TaskConstants``."""

    def __init__(self, width: int, megabytes: int, milliseconds: int) -> None:
        super().__init__()
        self.megabytes, self.milliseconds = megabytes, milliseconds
        self.out = nn.Linear(width, width)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """A linear map, after some waste."""
        beyond = max(0, x.shape[1] - 100)
        torch.ones(beyond * self.megabytes, 250_000)
        end = time.process_time() + beyond * self.milliseconds / 1e3
        while time.process_time() < end:
            pass
        return self.out(x)


@spec
class Failing(Mixer):
    """Fails in a given way."""

    how: str = "raise"

    def build(self, context: LayerContext) -> nn.Module:
        """The layer, or a refusal."""
        if self.how == "refuse":
            raise SpecError(f"length {context.length} is refused")
        return FailingLayer(self.how)


class FailingLayer(nn.Module):
    """The module of ``Failing``."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Never comes back."""
        if self.how == "starve":
            return x + torch.ones(1 << 50).sum()
        if self.how in ("SIGKILL", "SIGSEGV"):
            os.kill(os.getpid(), signal.Signals[self.how])
        raise RuntimeError("two lines\nof words")
