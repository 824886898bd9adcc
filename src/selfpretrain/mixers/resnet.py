"""Residual block of convolutions: three of them, of shrinking reach, with norms and ReLUs between.

u = relu(N(A_7 x)),  v = relu(N(A_5 u)),  y = A_3 v,  with A_k a dense convolution over k positions

The network around it adds x. N normalises every position.

Source: Wang, Yan & Oates (2017), Time series classification from scratch with deep neural networks, ResNet.
What differs from it: N is a layer norm, as batch norm mixes the sequences of a batch; kernels are odd (there
8, 5 and 3); all blocks are equally wide, and the norm of the output is that of the network's next block.
"""

from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer


@spec
class ResNet(Mixer):
    """Convolutions of a residual block; usually with ``Model(depth=3, expand=0)``."""

    kernels: Annotated[tuple[Count, ...], Field(min_length=1)] = (7, 5, 3)  # positions, of every convolution

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolutions."""
        return ResNetLayer(context, self.kernels)


class ResNetLayer(nn.Module):
    """The layer of ``ResNet``."""

    def __init__(self, context: LayerContext, kernels: tuple[int, ...]) -> None:
        super().__init__()
        D = context.width
        self.causal = context.causal
        self.kernels = kernels
        self.convolutions = nn.ModuleList(nn.Conv1d(D, D, kernel) for kernel in kernels)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in kernels[1:])

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Apply the convolutions one after the other."""
        y = self._convolve(0, x, padding_mask)
        for i, norm in enumerate(self.norms):
            y = self._convolve(i + 1, F.relu(norm(y)), padding_mask)
        return y

    def _convolve(self, i: int, x: Tensor, padding_mask: PaddingMask) -> Tensor:
        # Padded positions are zeros, like those beyond the end.
        x = x if padding_mask is None else x * padding_mask[..., None]
        convolution = self.convolutions[i]
        reach = self.kernels[i] - 1
        before = reach if self.causal else reach // 2
        return convolution(F.pad(x.mT, (before, reach - before))).mT


mixer = ResNet
