"""FNet: a Fourier transform over positions and features in place of attention, without parameters.

Y = Re FFT_L(FFT_D(X)) / sqrt(L D)

Source: Lee-Thorp et al. (2022), FNet, eq. 3. What differs from it: the division, for residual paths without
a norm after them. Padded positions are zeroed, but the transform is that of the padded length.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from ..config import spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer, refuse_causal


@spec
class FNet(Mixer):
    """Fourier transform of the whole sequence; never causal, and all batches must have one length."""

    positions = "learned"
    causal = False
    fixed_length = True
    published = "Those who measured it on LRA say that the settings of the benchmark were incomplete."

    def build(self, context: LayerContext) -> nn.Module:
        """Return the layer, which has no parameters."""
        refuse_causal(self, context)
        return FNetLayer()


class FNetLayer(nn.Module):
    """The layer of ``FNet``."""

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Return the real part of the transform."""
        u = x if padding_mask is None else x * padding_mask[..., None]
        # FFTs support fp32 and fp64 only.
        return _Transform.apply(u.to(torch.promote_types(u.dtype, torch.float32)))


class _Transform(torch.autograd.Function):
    """Re FFT_L(FFT_D(x)) / sqrt(L D), which is its own gradient, from half of the frequencies of D.

    The other half follows from the symmetry Y[l, d] = Y[-l, -d].
    """

    @staticmethod
    def forward(ctx: Any, x: Vectors) -> Vectors:
        D = x.shape[2]
        half = torch.fft.rfft2(x, norm="ortho").real
        y = torch.empty_like(x)
        y[..., : D // 2 + 1] = half
        if D > 2:
            rest = half[..., 1 : (D + 1) // 2].flip(-1)
            y[:, :1, D // 2 + 1 :] = rest[:, :1]
            y[:, 1:, D // 2 + 1 :] = rest[:, 1:].flip(1)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Vectors) -> Vectors:
        return _Transform.apply(grad)


mixer = FNet
