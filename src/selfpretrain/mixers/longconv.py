"""Long convolution: a kernel of free numbers, one for every lag that a training sequence has.

y = K * u + D u;  at the start K[h, l] = N(0, 1) exp(-l/m_h) with unit energy, memories m_h from 1 to T

There is no recurrence behind it: no state of constant size, and no lag beyond the length it is built for.

Source: Fu et al. (2023), Simple Hardware-Efficient Long Convolutions for Sequence Modeling, section 3.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import spec
from .base import LayerContext, Mixer
from .common.convolution import Convolution


@spec
class LongConv(Mixer):
    """Long convolution, bidirectional unless causal."""

    slow_parameters: ClassVar[dict[str, float]] = {"taps": 1e-3}

    def build(self, context: LayerContext) -> nn.Module:
        """The convolution layer."""
        return LongConvLayer(context)


class LongConvLayer(Convolution):
    """The module of ``LongConv``."""

    def __init__(self, context: LayerContext) -> None:
        super().__init__(context)
        H, T = context.width, context.length
        memory = T ** torch.linspace(0, 1, H)[:, None]
        taps = torch.randn(self.directions, H, T) * torch.exp(-torch.arange(T) / memory)
        self.taps = nn.Parameter(F.normalize(taps, dim=-1))

    def make_kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """The taps; lags that were never trained count zero."""
        return F.pad(self.taps, (0, length - self.taps.shape[-1]))  # a negative number cuts


mixer = LongConv
