"""Mamba-2: a selective state space model per head, whose input, output and step depend on the sequence.

S[t] = exp(dt[t] A) S[t-1] + dt[t] b[t] u[t]^T,  o[t] = S[t]^T c[t] + D u[t],  A = -exp(log_decay),
u, b, c = SiLU(conv(W_* x)),  dt = softplus(W_dt x + step),  y[t] = W (RMSNorm(o[t] SiLU(W_z x[t])))

Source: Dao & Gu (2024), Transformers are SSMs, sections 5 to 7. What differs from it: the number of heads is
given and not their size; bidirectional layers add the outputs of a second, backward recurrence.
"""

import math
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import nn

from ..config import Count, Positive, added, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.attention_heads import head_size, merge_heads, split_heads
from .common.cells import Directions, RecurrentCell
from .common.convolution import log_uniform
from .ops.linear_attention import decayed_attention

MIMETIC_LOG_DECAY = -8.0
"""Initial log(-A) of a mimetic start: 70 % of a state are kept over 1,000 steps of dt = 1."""


@spec
class Mamba2(Mixer):
    """Mamba-2, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.log_decay", "*.step"), 1e-3)

    heads: Count = 4
    states: Count = 64  # rows of S, the size of b and c
    expand: Count = 2  # size of u as a multiple of the width
    taps: Count = 4  # kernel size of the convolution
    shortest: Positive = 1e-3  # smallest initial step dt
    longest: Positive = 1e-1  # largest initial step dt
    start: Literal["independent", "mimetic"] = added("independent")  # see ``build``

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer.

        ``start="mimetic"`` is linear attention that looks for similar content, as in ``Mamba``: exp(dt A)
        near 1, dt = 1 for any input, and c = b, whose projections and convolutions start alike.
        """
        head_size(context, self.heads)
        return Directions(context, lambda: Mamba2Cell(context.width, self))


class Mamba2Cell(RecurrentCell):
    """One direction of ``Mamba2``."""

    def __init__(self, width: int, settings: Mamba2) -> None:
        super().__init__()
        E = settings.expand * width
        N = settings.states
        H = settings.heads
        self.sizes = [E, N, N]
        self.heads = H
        self.enter = nn.Linear(width, E + E + 2 * N + H, bias=False)
        self.taps = nn.Parameter((2 * torch.rand(settings.taps, E + 2 * N) - 1) * settings.taps**-0.5)
        self.bias = nn.Parameter(torch.zeros(E + 2 * N))
        self.log_decay = nn.Parameter(torch.empty(H).uniform_(1, 16).log())
        dt = log_uniform(H, settings.shortest, settings.longest).exp()
        self.step = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))  # softplus(step) = dt
        self.D = nn.Parameter(torch.ones(H))
        self.norm = nn.RMSNorm(E, eps=1e-5)
        self.out = nn.Linear(E, width, bias=False)
        # The last inputs of the convolution, and S.
        self.state_shapes = (settings.taps - 1, E + 2 * N), (H, N, E // H)
        if settings.start == "mimetic":
            self.start_mimetically()

    @torch.no_grad()
    def start_mimetically(self) -> None:
        """Set decay, step and projections so that the layer starts as linear attention."""
        E, N, _ = self.sizes
        _, b, c, dt = self.enter.weight.split([2 * E, N, N, self.heads])  # rows of z and u, b, c and dt
        c.copy_(b)
        dt.zero_()
        self.taps[:, -N:] = self.taps[:, E : E + N]
        self.log_decay.fill_(MIMETIC_LOG_DECAY)
        self.step.fill_(math.log(math.expm1(1)))  # softplus of it is 1

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence in chunks; return the outputs and the last state."""
        before, S = state
        z, recent, dt = self.enter(x).split([self.sizes[0], sum(self.sizes), self.heads], dim=-1)
        recent = torch.cat([before, recent], dim=1)
        conv = self.bias + sum(recent[:, j : j + x.shape[1]] * tap for j, tap in enumerate(self.taps))
        u, b, c = F.silu(conv).split(self.sizes, dim=-1)
        dt = F.softplus(dt.to(self.step.dtype) + self.step).mT[..., None]  # (B, H, L, 1)
        u = split_heads(u, self.heads)
        g = -dt * self.log_decay.exp()[:, None, None]
        o, S = decayed_attention(c[:, None], b[:, None], dt * u, g, S)
        o = merge_heads(o + self.D[:, None, None] * u)
        return self.out(self.norm(o * F.silu(z))), (recent[:, x.shape[1] :], S)


mixer = Mamba2
