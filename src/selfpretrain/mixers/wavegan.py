"""WaveGAN's discriminator: convolutions that stride through a sequence, to one answer for all of it.

u <- u + N(f(A u)),  u <- N(f(B u)) at every fourth position, with twice the channels;  five times
y[t] = W u, the same at all positions t;  A and B reach over 25 positions

f is a leaky ReLU, N norms a sequence over positions and channels. Sequences are filled up with zeros to a
multiple of 4^5 positions. There is no self-pretraining: no single position can be asked for.

Source: Donahue et al. (2019), Adversarial Audio Synthesis, for B, f and W; A and N are those of the
baseline of Gu et al. (2022), S4, appendix D. What differs from it: N is a batch norm there, by which the
sequences of a batch meet; the first layer sees as many channels as the model is wide, not one.
"""

import itertools
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer, check_length, refuse_causal

REACH, STRIDE, SLOPE = 25, 4, 0.2
"""Positions under a kernel, positions from one to the next, and slope of the leaky ReLU below zero."""


@spec
class WaveGAN(Mixer):
    """A network of its own that answers once per sequence; usual with ``Model(depth=1, expand=0)``."""

    whole = True
    denoises = False
    causal = False
    published: ClassVar[str] = (
        "The speech commands number (26.3 M parameters: channels=64) came from batch norm, without which it "
        "is said not to work."
    )

    channels: Count = 16  # behind the first of its strides, doubled by each of the others
    stages: Count = 5  # strides

    def build(self, context: LayerContext) -> nn.Module:
        """The discriminator, without its verdict."""
        refuse_causal(self, context)
        return WaveGANLayer(context, self)


class WaveGANLayer(nn.Module):
    """The module of ``WaveGAN``."""

    def __init__(self, context: LayerContext, settings: WaveGAN) -> None:
        super().__init__()
        step = STRIDE**settings.stages
        self.longest = -(-context.length // step) * step
        widths = [context.width, *(settings.channels * 2**i for i in range(settings.stages))]
        self.stages = nn.ModuleList(Stride(C, E) for C, E in itertools.pairwise(widths))
        self.out = nn.Linear(widths[-1] * (self.longest // step), context.width)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """The answer, once per position.

        Raises:
            SpecError: if a sequence is longer than what the last layer was made for.
        """
        check_length(x.shape[1], self.longest)
        u = x if padding_mask is None else x * padding_mask[..., None]
        u = F.pad(u.mT, (0, self.longest - x.shape[1]))
        for stage in self.stages:
            u = stage(u)
        return self.out(u.flatten(1))[:, None].expand(-1, x.shape[1], -1)


class Stride(nn.Module):
    """One step of ``WaveGAN``, from C channels of L positions to E channels of L / 4."""

    def __init__(self, C: int, E: int) -> None:
        super().__init__()
        self.near = nn.Conv1d(C, C, REACH, padding=REACH // 2)  # A
        self.far = nn.Conv1d(C, E, REACH, STRIDE, padding=REACH // 2)  # B
        self.near_norm, self.far_norm = nn.GroupNorm(1, C), nn.GroupNorm(1, E)

    def forward(self, u: Tensor) -> Tensor:
        """(B, C, L) to (B, E, L / 4)."""
        u = u + self.near_norm(F.leaky_relu(self.near(u), SLOPE))
        return self.far_norm(F.leaky_relu(self.far(u), SLOPE))


mixer = WaveGAN
