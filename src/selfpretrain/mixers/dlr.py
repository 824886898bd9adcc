"""Diagonal linear recurrence (DLR): every channel weights the same thousand damped oscillations.

x[t] = exp(rate) x[t-1] + u[t],  y[t] = Re W x[t] + D u[t],  Re rate = -p^2:
K[l] = Re sum_n W_n exp(rate_n l)

Source: Gupta et al. (2022), Simplifying and Understanding State Space Models with Diagonal Linear RNNs.
"""

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, Positive, spec
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, joined, log_uniform
from .ops.modes import shared_kernel


@spec
class DLR(Mixer):
    """Diagonal linear recurrence, bidirectional unless causal."""

    slow_parameters: ClassVar = {"root_decay": 1e-4, "frequency": 1e-4, "W": 1e-4}

    states: Count = 1024  # N complex modes
    init: Literal["structured", "random"] = "structured"  # initial imaginary parts: 2 pi n/N; N(0, 1)
    shortest: Positive = 1e-4  # initially Re rate = -dt/2, with dt between these two
    longest: Positive = 1e-1

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        return DLRLayer(context, self)


class DLRLayer(Convolution):
    """The layer of ``DLR``."""

    def __init__(self, context: LayerContext, settings: DLR) -> None:
        super().__init__(context)
        N = settings.states
        dt = log_uniform(N, settings.shortest, settings.longest).exp()
        self.root_decay = nn.Parameter(torch.sqrt(dt / 2))  # -Re rate = root_decay^2
        even = 2 * math.pi * torch.arange(N) / N
        self.frequency = nn.Parameter(even if settings.init == "structured" else torch.randn(N))  # Im rate
        self.W = nn.Parameter(torch.randn(self.directions, context.width, N, 2) / N)

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of the module docstring."""
        root_decay, frequency = (joined(layers, x) for x in ("root_decay", "frequency"))
        rate = torch.complex(-root_decay.double().square(), frequency.double())
        W = torch.view_as_complex(joined(layers, "W").unflatten(0, (len(layers), -1)))  # (n, c, H, N)
        K = shared_kernel(W.flatten(1, 2), rate.unflatten(0, (len(layers), -1)), length)
        return K.unflatten(1, W.shape[1:3])


mixer = DLR
