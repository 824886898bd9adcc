"""Diagonal state spaces (DSS): every channel weights the same damped oscillations, with its own step.

exp:      K[l] = Re sum_n W_n (exp(dt A_n) - 1)/A_n exp(dt A_n l)
softmax:  K[l] = Re sum_n W_n/A_n exp(dt A_n l) / sum_{k < T} exp(dt A_n k)

A is shared by all channels, and every channel has its own dt. T is the length that the layer is built for,
and Re A < 0 in both, whereas the paper's softmax runs over the length of the batch and allows both signs: so
padding does not change a kernel, and both are recurrences.

Source: Gupta et al. (2022), Diagonal State Spaces are as Effective as Structured State Spaces, section 3.
"""

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, Positive, added, spec
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, by_layer, joined, log_uniform
from .ops.modes import modal_kernel
from .ops.state_matrices import zoh_modes


@spec
class DSS(Mixer):
    """Diagonal state spaces, bidirectional unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("log_dt", "log_decay", "frequency", "W"), 1e-3)

    states: Count = 64  # N complex modes
    variant: Literal["exp", "softmax"] = "exp"
    init: Literal["lin", "random"] = "lin"  # initial imaginary parts: pi n; N(0, 1)
    shortest: Positive = 1e-3  # smallest initial step dt; 1/dt is a time constant in positions
    longest: Positive = 1e-1  # largest initial step dt
    damping: Positive = added(0.5)  # initial -Re A

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        return DSSLayer(context, self)


class DSSLayer(Convolution):
    """The layer of ``DSS``."""

    def __init__(self, context: LayerContext, settings: DSS) -> None:
        super().__init__(context)
        H = context.width
        N = settings.states
        self.softmax_over = context.length if settings.variant == "softmax" else None
        self.log_dt = nn.Parameter(log_uniform(H, settings.shortest, settings.longest))
        self.log_decay = nn.Parameter(torch.full((N,), math.log(settings.damping)))  # -Re A = exp(log_decay)
        frequency = math.pi * torch.arange(N) if settings.init == "lin" else torch.randn(N)
        self.frequency = nn.Parameter(frequency)  # Im A
        self.W = nn.Parameter(torch.randn(self.directions, H, N, 2))

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of the module docstring."""
        log_decay, frequency, log_dt = (joined(layers, x) for x in ("log_decay", "frequency", "log_dt"))
        A = torch.stack([-log_decay.double().exp(), frequency.double()], dim=-1)
        A = A.unflatten(0, (len(layers), 1, -1)).expand(-1, len(log_dt) // len(layers), -1, -1).flatten(0, 1)
        rate, scale = map(torch.view_as_complex, zoh_modes(A, log_dt.double().exp()))
        if T := layers[0].softmax_over:
            # A geometric sum: over (1 - exp(T rate)) / (1 - exp(rate)), and scale is (exp(rate) - 1) / A.
            scale = scale / torch.expm1(T * rate)
        W = torch.view_as_complex(joined(layers, "W", 1))
        return by_layer(modal_kernel(W * scale.to(W), rate, length), layers)


mixer = DSS
