"""MS4: a linear map of the input, the diagonal state space model S4D, and a gate that mixes the channels.

u = W x + b,  v = GELU(K * u + D u),  y = (V v + c) sigmoid(G v + g)
K[l] = 2 Re sum_n C_n (exp(dt B_n A_n) - 1)/A_n exp(dt B_n A_n l)

Beside our S4D, whose gate is the same, it has the map W, and B: a factor of the step per state, 1 at first.

Training may make B negative, as in the authors' code. Its mode then grows with the length, and the rounding
errors of the FFT, relative to the largest value, reach all positions: earlier outputs then depend on later
inputs, also in a causal layer, or nothing is finite.

Source: Saadatmand et al. (2026), A Simple State Space Model Excels at Multivariate Time Series
Classification, arXiv:2605.27406, by the authors' code (github.com/h-saadatmand/MS4N, commit a3e4d1f). Their
MS4N also normalises after every block, as ``model.placement=post`` does. What differs: a second kernel for
the future unless causal.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Even, Positive, added, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, by_layer, joined, log_uniform
from .ops.modes import modal_kernel
from .ops.state_matrices import zoh_modes


@spec
class MS4(Mixer):
    """S4D behind a linear map, bidirectional unless causal."""

    # As published: these have the learning rate of all others, but no weight decay.
    slow_parameters: ClassVar = {
        f"convolution.{name}": math.inf for name in ("log_dt", "log_decay", "frequency")
    }

    states: Even = 64  # N real states: N/2 conjugate pairs per channel
    shortest: Positive = 1e-3  # smallest initial step dt; 1/dt is a time constant in positions
    longest: Positive = 1e-1  # largest initial step dt
    damping: Positive = added(0.5)  # initial -Re A

    def build(self, context: LayerContext) -> nn.Module:
        """Return the layer."""
        return MS4Layer(context, self)


class MS4Layer(nn.Module):
    """The layer of ``MS4``."""

    def __init__(self, context: LayerContext, settings: MS4) -> None:
        super().__init__()
        self.project = nn.Linear(context.width, context.width)
        self.convolution = MS4Convolution(context, settings)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Map every position, then convolve and gate."""
        return self.convolution(self.project(x), padding_mask)


class MS4Convolution(Convolution):
    """The state space model of ``MS4``: its kernel, and the gate."""

    def __init__(self, context: LayerContext, settings: MS4) -> None:
        super().__init__(context)
        H = context.width
        pairs = settings.states // 2
        self.log_dt = nn.Parameter(log_uniform(H, settings.shortest, settings.longest))
        self.B = nn.Parameter(torch.ones(H, pairs))
        log_decay = torch.full((H, pairs), math.log(settings.damping))
        self.log_decay = nn.Parameter(log_decay)  # -Re A = exp(log_decay)
        self.frequency = nn.Parameter(math.pi * torch.arange(pairs).float().repeat(H, 1))  # Im A
        self.C = nn.Parameter(torch.randn(self.directions, H, pairs, 2) * 0.5**0.5)

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of the module docstring."""
        log_decay, frequency, log_dt, scale = (
            joined(layers, name).double() for name in ("log_decay", "frequency", "log_dt", "B")
        )
        A = torch.stack([-log_decay.exp(), frequency], dim=-1)
        dt = log_dt.exp()[:, None] * scale  # every state has a step of its own
        modes = zoh_modes(A.flatten(0, 1)[:, None], dt.flatten())
        rate, B = (torch.view_as_complex(each.view_as(A)) for each in modes)
        C = torch.view_as_complex(joined(layers, "C", 1))
        return by_layer(modal_kernel(2 * C * B.to(C), rate, length), layers)


mixer = MS4
