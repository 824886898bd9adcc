"""Hyena: long convolutions between gates, with kernels that a small network computes from the lag.

v, x_1, ..., x_n = conv(W_in x),  v <- K_i * (x_i v) + D_i x_i v for i = n - 1, ..., 1,  y = W (x_n v),
K[l] = W_out sin(f W_2 sin(f W_1 sin(f W_0 z(l)))) exp(-decay l/(T-1)),  T the length it is built
for, z(l) = l/(T-1) and cosines and sines of l at several frequencies;  decays from log(100)/1.5 to
log(100)/0.3

Source: Poli et al. (2023), Hyena Hierarchy, section 3, with the settings of its code. What differs from it: z
is not trained; bidirectional layers have a second kernel for the future, from lag one on.
"""

import math
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from ..config import Count, Positive, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer
from .common.convolution import ShortConvolution
from .ops._exact import full_precision
from .ops.longconv import causal_conv, two_sided_conv


@spec
class Hyena(Mixer):
    """Gated long convolutions, bidirectional unless causal."""

    slow_parameters: ClassVar = {"kernels.*": 1e-3}

    order: Annotated[int, Field(ge=2)] = 2  # n, one more than there are long convolutions
    taps: Count = 3  # kernel size of the short convolution
    hidden: Count = 64  # width of the network behind the kernels
    waves: Annotated[int, Field(ge=2)] = 16  # frequencies in z
    frequency: Positive = 14.0  # initial f

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        return HyenaLayer(context, self)


class HyenaLayer(nn.Module):
    """The layer of ``Hyena``."""

    def __init__(self, context: LayerContext, settings: Hyena) -> None:
        super().__init__()
        D = context.width
        long = settings.order - 1
        self.shape = (1 if context.causal else 2), long, D
        self.enter = nn.Linear(D, (long + 2) * D)
        self.out = nn.Linear(D, D)
        self.near = ShortConvolution((long + 2) * D, settings.taps, bias=True)
        self.kernels = KernelNetwork(self.shape, context.length, settings)
        self.D = nn.Parameter(torch.randn(long, D))

    def kernel(self, length: int) -> Float[Tensor, "c n H L"]:
        """Return kernels for the past and, unless causal, for the future, in fp32 or better."""
        with full_precision(self.D.device):
            K: Float[Tensor, "c n H L"] = self.kernels(length)
            return K

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Mix the real positions of every sequence."""
        real = 1 if padding_mask is None else padding_mask[..., None]
        mixed, _ = self.near(self.enter(x) * real, self.near.initial_state(len(x)))
        last, *gates, v = (mixed * real).chunk(self.shape[1] + 2, dim=-1)
        for gate, skip, kernels in zip(
            reversed(gates), self.D, self.kernel(x.shape[1]).unbind(1), strict=True
        ):
            v = self._convolve(v * gate, kernels, skip) * real
        return self.out(last * v)

    def _convolve(self, u: Vectors, kernels: Float[Tensor, "c H L"], skip: Float[Tensor, "H"]) -> Vectors:
        # Adding D to lag zero of the kernel makes D u free.
        past = torch.cat([kernels[0, :, :1] + skip[:, None], kernels[0, :, 1:]], dim=-1)
        return causal_conv(u, past) if len(kernels) == 1 else two_sided_conv(u, past, kernels[1])


class KernelNetwork(nn.Module):
    """The network that computes K from the lag."""

    def __init__(self, shape: tuple[int, int, int], longest: int, settings: Hyena) -> None:
        super().__init__()
        self.shape = shape
        self.longest = longest
        self.waves = settings.waves
        hidden = settings.hidden
        inputs = 1 + 2 * settings.waves
        self.layers = nn.ModuleList(nn.Linear(n, hidden) for n in (inputs, hidden, hidden))
        self.frequency = nn.Parameter(torch.full((hidden,), settings.frequency))
        self.out = nn.Linear(hidden, math.prod(shape), bias=False)

    def forward(self, length: int) -> Float[Tensor, "c n H L"]:
        """Return K of every direction, convolution and channel at lags below ``length``."""
        like = self.frequency
        t = torch.arange(length, dtype=torch.float64, device=like.device)[:, None]
        share = t / max(self.longest - 1, 1)
        waves = torch.linspace(1e-4, self.waves - 1, self.waves, dtype=torch.float64, device=like.device)
        angles = 2 * math.pi / self.longest * t * waves
        h = torch.cat([share, angles.cos(), -angles.sin()], dim=-1).to(like.dtype)
        for layer in self.layers:
            h = torch.sin(self.frequency * layer(h))
        slowest = math.log(100) / 1.5
        fastest = math.log(100) / 0.3
        channels = self.shape[1] * self.shape[2]
        decay = torch.linspace(slowest, fastest, channels, dtype=torch.float64, device=like.device)
        fading = torch.exp(-share * decay.repeat(self.shape[0])).to(like.dtype)
        return (self.out(h) * fading).T.unflatten(0, self.shape)


mixer = Hyena
