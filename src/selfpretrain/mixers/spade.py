"""SPADE: a state space model for long range and block-local attention for short range, in parallel.

y = W [LayerNorm(S4(x)); LayerNorm(Local(x))] + b

Source: Zuo et al. (2022), Efficient Long Sequence Modeling via State Space Augmented Transformer, section 3.
What differs from it: every layer has both; in the paper all but the lowest have attention alone.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..config import Count, Even, spec
from ..registry import find
from ..shapes import PaddingMask, Vectors
from .base import KernelLayer, LayerContext, Layers, Mixer


@spec
class Spade(Mixer):
    """The mixers ``s4`` and ``local``, combined by a linear layer."""

    positions = "rotary"
    rotates = True
    slow_parameters: ClassVar = {
        f"far.{pattern}": rate for pattern, rate in find("mixers", "s4").slow_parameters.items()
    }
    published = "The code behind the LRA number was not published."

    states: Even = 64  # of the state space model
    heads: Count = 4  # of attention
    size: Count = 128  # block size in positions; a block sees those next to it

    def build(self, context: LayerContext) -> nn.Module:
        """Return both layers with the norms and the linear layer that combine them."""
        return SpadeLayer(context, self)


class SpadeLayer(KernelLayer):
    """The layer of ``Spade``."""

    def __init__(self, context: LayerContext, settings: Spade) -> None:
        super().__init__()
        self.far = find("mixers", "s4")(states=settings.states).build(context)
        self.near = find("mixers", "local")(heads=settings.heads, size=settings.size).build(context)
        self.norm_far = nn.LayerNorm(context.width)
        self.norm_near = nn.LayerNorm(context.width)
        self.out = nn.Linear(2 * context.width, context.width)

    @staticmethod
    def kernels(layers: Layers, length: int) -> Sequence[Tensor]:
        """Return the kernels of the state space models."""
        return layers[0].far.kernels([layer.far for layer in layers], length)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None, kernel: Tensor | None = None) -> Vectors:
        """Mix the real positions of every sequence with both layers."""
        far = self.norm_far(self.far(x, padding_mask, kernel))
        near = self.norm_near(self.near(x, padding_mask))
        return self.out(torch.cat([far, near], dim=-1))


mixer = Spade
