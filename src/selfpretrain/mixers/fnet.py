"""FNet: a Fourier transform over positions and features in place of attention; nothing is learned.

Y = Re FFT_L(FFT_D(X)) / sqrt(L D)

Source: Lee-Thorp et al. (2022), FNet, eq. 3. What differs from it: the division, for residual paths without
a norm behind them. Padded positions count zero, but the transform is that of the padded length.
"""

from typing import ClassVar

import torch
from torch import nn

from ..shapes import Valid, Vectors
from ..spec import spec
from .base import LayerContext, Mixer, refuse_causal


@spec
class FNet(Mixer):
    """Fourier transform of the whole sequence; never causal, and all batches must have one length."""

    positions = "learned"
    causal = False
    fixed_length = True
    published: ClassVar[str] = (
        "Those who measured it on LRA say that the settings of the benchmark were incomplete."
    )

    def build(self, context: LayerContext) -> nn.Module:
        """The layer."""
        refuse_causal(self, context)
        return FNetLayer()


class FNetLayer(nn.Module):
    """The module of ``FNet``."""

    def forward(self, x: Vectors, valid: Valid = None) -> Vectors:
        """The real part of the transform."""
        u = x if valid is None else x * valid[..., None]
        # FFTs exist in single and double precision only.
        u = u.to(torch.promote_types(u.dtype, torch.float32))
        return torch.fft.fft2(u, norm="ortho").real


mixer = FNet
