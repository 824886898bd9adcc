"""Long convolution: a kernel with one free parameter per channel and lag, up to the training length.

y = K * u + D u;  initially K[h, l] = N(0, 1) exp(-l/m_h) with unit energy, memories m_h from 1 to T

It is not a recurrence: it has no state of constant size, and no lag beyond the length it is built for.

Source: Fu et al. (2023), Simple Hardware-Efficient Long Convolutions for Sequence Modeling, section 3.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import spec
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, joined


@spec
class LongConv(Mixer):
    """Long convolution, bidirectional unless causal."""

    slow_parameters: ClassVar = {"taps": 1e-3}

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        return LongConvLayer(context)


class LongConvLayer(Convolution):
    """The layer of ``LongConv``."""

    def __init__(self, context: LayerContext) -> None:
        super().__init__(context)
        H = context.width
        T = context.length
        memory = T ** torch.linspace(0, 1, H)[:, None]
        taps = torch.randn(self.directions, H, T) * torch.exp(-torch.arange(T) / memory)
        self.taps = nn.Parameter(F.normalize(taps, dim=-1))

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return the taps; lags beyond the training length are zero."""
        taps = joined(layers, "taps").unflatten(0, (len(layers), -1))
        return F.pad(taps, (0, length - taps.shape[-1]))  # a negative number truncates


mixer = LongConv
