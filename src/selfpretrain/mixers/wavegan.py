"""WaveGAN's discriminator: strided convolutions that reduce a sequence to a single output.

u <- u + N(f(A u)),  u <- N(f(B u)) at every fourth position, with twice the channels;  five times
y[t] = W u, the same at all positions t;  A and B reach over 25 positions

f is a leaky ReLU, N normalises a sequence over positions and channels. Sequences are padded with zeros to a
multiple of 4^5 positions. There is no self-pretraining, as there is no output per position.

Source: Donahue et al. (2019), Adversarial Audio Synthesis, for B, f and W; A and N are those of the
baseline of Gu et al. (2022), S4, appendix D. What differs from it: there N is a batch norm, which mixes the
sequences of a batch; here the first layer has as many input channels as the model's width, there one.
"""

import itertools

import torch.nn.functional as F
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer, check_length, refuse_causal

KERNEL_SIZE = 25  # positions that a convolution reaches over
STRIDE = 4  # stride of the convolution that ends a stage
SLOPE = 0.2  # negative slope of the leaky ReLU


@spec
class WaveGAN(Mixer):
    """A complete network with one output per sequence; usually with ``Model(depth=1, expand=0)``."""

    whole = True
    denoises = False
    causal = False
    published = (
        "The speech commands number (26.3 M parameters: channels=64) came from batch norm, without which it "
        "is said not to work."
    )

    channels: Count = 16  # after the first stage, doubled by each of the others
    stages: Count = 5  # strided stages

    def build(self, context: LayerContext) -> nn.Module:
        """Return the discriminator, without its final score."""
        refuse_causal(self, context)
        return WaveGANLayer(context, self)


class WaveGANLayer(nn.Module):
    """The layer of ``WaveGAN``."""

    def __init__(self, context: LayerContext, settings: WaveGAN) -> None:
        super().__init__()
        step = STRIDE**settings.stages
        self.longest = -(-context.length // step) * step
        widths = [context.width, *(settings.channels * 2**i for i in range(settings.stages))]
        self.stages = nn.ModuleList(StridedStage(C, E) for C, E in itertools.pairwise(widths))
        self.out = nn.Linear(widths[-1] * (self.longest // step), context.width)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Return the output of every sequence, repeated at all positions."""
        check_length(x.shape[1], self.longest)
        u = x if padding_mask is None else x * padding_mask[..., None]
        u = F.pad(u.mT, (0, self.longest - x.shape[1]))
        for stage in self.stages:
            u = stage(u)
        return self.out(u.flatten(1))[:, None].expand(-1, x.shape[1], -1)


class StridedStage(nn.Module):
    """One stage of ``WaveGAN``, from C channels and L positions to E channels and L / 4 positions."""

    def __init__(self, C: int, E: int) -> None:
        super().__init__()
        self.near = nn.Conv1d(C, C, KERNEL_SIZE, padding=KERNEL_SIZE // 2)  # A
        self.far = nn.Conv1d(C, E, KERNEL_SIZE, STRIDE, padding=KERNEL_SIZE // 2)  # B
        self.near_norm = nn.GroupNorm(1, C)
        self.far_norm = nn.GroupNorm(1, E)

    def forward(self, u: Tensor) -> Tensor:
        """Map (B, C, L) to (B, E, L / 4)."""
        u = u + self.near_norm(F.leaky_relu(self.near(u), SLOPE))
        return self.far_norm(F.leaky_relu(self.far(u), SLOPE))


mixer = WaveGAN
