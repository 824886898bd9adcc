"""Structured state space model (S4): every channel is a linear system, initialised with HiPPO-LegS.

x'(t) = A x(t) + B u(t),  y(t) = 2 Re C x(t) + D u(t),  A = diag(w) - P P*  (initially HiPPO-LegS),
in discrete time by the bilinear rule:  K[l] = 2 Re C Abar^l Bbar

The kernel is exact at any length: powers of Abar itself, no truncation, no eigenvectors. As Q = P, Abar never
increases the norm of a vector, for any parameters.

Source: Gu et al. (2022), Efficiently Modeling Long Sequences with Structured State Spaces, section 3;
Amos et al. (2024), appendix C, whose code trains C (I - Abar^L) in place of C and does not clip B.
"""

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, Even, Positive, Rate, added, spec
from ..errors import SpecError
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, by_layer, joined, log_uniform
from .ops._exact import chain_dtype
from .ops.modes import as_real
from .ops.powers import dplr_kernel
from .ops.state_matrices import bilinear_dplr, legs

Pairs = Float[Tensor, "S N 2"]  # real and imaginary part of one of each conjugate pair, in S copies


@spec
class S4(Mixer):
    """Structured state space model, bidirectional unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("log_dt", "log_decay", "frequency", "P", "B"), 1e-3)

    states: Even = 64  # N real states: N/2 conjugate pairs per channel
    copies: Count | None = None  # number of (A, B, P) shared by the channels; None: one per channel
    init: Literal["legs", "random"] = "legs"  # random: w = -1/2 + i N(0, 1), P and B complex N(0, 1)
    b_clip: Positive | None = 2.0  # largest initial real or imaginary part of B
    shortest: Positive = 1e-3  # smallest initial step dt; 1/dt is a time constant in positions
    longest: Positive = 1e-1  # largest initial step dt
    lr_dt: Positive | None = 1e-3  # maximum learning rate of dt; None: not a slow parameter
    lr_C: Positive | None = None  # the same for C; appendix D.2 has 1e-3, its code None
    lr_A: Positive = added(1e-3)  # the same for A, B and P
    dropout: Rate = added(0.0)  # after the GELU, inside the layer

    def slow(self) -> dict[str, float]:
        """Return the slow parameters, with the maximum learning rates of the settings."""
        own = {"C": self.lr_C} if self.lr_C else {}
        slow = dict.fromkeys(self.slow_parameters, self.lr_A)
        return slow | {"log_dt": self.lr_dt or math.inf} | own

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        if self.copies and context.width % self.copies:
            raise SpecError(f"copies={self.copies} does not divide the width {context.width}")
        return S4Layer(context, self)


class S4Layer(Convolution):
    """The layer of ``S4``."""

    def __init__(self, context: LayerContext, settings: S4) -> None:
        super().__init__(context, settings.dropout)
        H = context.width
        pairs = settings.states // 2
        w, P, B = _initial_values(settings.init, settings.copies or H, pairs)
        B = B if settings.b_clip is None else B.clamp(-settings.b_clip, settings.b_clip)
        self.log_dt = nn.Parameter(log_uniform(H, settings.shortest, settings.longest))
        self.log_decay = nn.Parameter(torch.log(-w[..., 0]))  # -Re w = exp(log_decay)
        self.frequency = nn.Parameter(w[..., 1].clone())
        self.P = nn.Parameter(P)
        self.B = nn.Parameter(B)
        self.C = nn.Parameter(torch.randn(self.directions, H, pairs, 2) * 0.5**0.5)

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of the module docstring."""
        log_decay, frequency, P, B = (joined(layers, x) for x in ("log_decay", "frequency", "P", "B"))
        log_dt = joined(layers, "log_dt")
        w = torch.stack([-log_decay.double().exp(), frequency.double()], dim=-1)
        times = len(log_dt) // len(w)  # channels in turn take the copies of their layer
        w, P, B = (
            x.double().unflatten(0, (len(layers), 1, -1)).expand(-1, times, -1, -1, -1).flatten(0, 2)
            for x in (w, P, B)
        )
        system = bilinear_dplr(w, P, B, log_dt.double().exp())
        C = joined(layers, "C", 1)
        rows = as_real(2 * torch.view_as_complex(C).conj().resolve_conj())
        K = dplr_kernel(system, rows.to(chain_dtype(C)), length)
        return by_layer(K.to(C.dtype), layers)


def _initial_values(init: str, copies: int, pairs: int) -> tuple[Pairs, Pairs, Pairs]:
    """Return the initial w, P and B."""
    if init == "legs":
        w, P, B = (x.float().repeat(copies, 1, 1) for x in legs(2 * pairs))
        return w, P, B
    w, P, B = (torch.randn(copies, pairs, 2) * 0.5**0.5 for _ in range(3))
    return torch.stack([torch.full((copies, pairs), -0.5), 2**0.5 * w[..., 1]], dim=-1), P, B


mixer = S4
