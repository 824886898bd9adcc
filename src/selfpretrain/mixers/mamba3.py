"""Mamba-3: a selective state space model per head, with the trapezoidal rule and states that rotate.

S[t] = a[t] (S[t-1] + (1 - s[t]) dt[t] b[t-1] u[t-1]^T) + s[t] dt[t] b[t] u[t]^T,
o[t] = S[t]^T c[t] + D u[t],  a = exp(dt A),  A = -softplus(W_A x),  dt = softplus(W_dt x + step),
s = sigmoid(W_s x),  b, c = RMSNorm(W_* x) + bias, some of whose features rotate in pairs, by the sum of
dt pi tanh(W_turn x) so far,  u = W_u x,  y[t] = W (o[t] SiLU(W_z x[t]))

b and c before their bias, and W_turn, belong to all heads; everything else belongs to one.

Source: Lahoti et al. (2026), Mamba-3: Improved Sequence Modeling using State Space Principles,
arXiv:2603.15569, propositions 1 and 4, section 3.4 and appendix F, with one input and one output per state.
Where the paper is silent, as its code (github.com/state-spaces/mamba, ``modules/mamba3.py``): the bounds of A
and of the angles, and that half of the features rotate. What differs: no form with several inputs and outputs
(MIMO); the number of heads is given and not their size; bidirectional layers add the outputs of a second,
backward recurrence.
"""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..config import Count, Even, Positive, Share, spec
from ..errors import SpecError
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.attention_heads import merge_heads, rotate, split_heads
from .common.cells import Directions, RecurrentCell
from .common.convolution import log_uniform
from .ops.linear_attention import decayed_attention

SLOWEST = 1e-4  # lower bound of -A


@spec
class Mamba3(Mixer):
    """Mamba-3, one per direction unless causal."""

    slow_parameters: ClassVar = {"*.step": 1e-3}

    heads: Count = 4
    states: Even = 64  # rows of S, the size of b and c
    rotating: Share = 0.5  # part of the features of b and c, of at least one pair
    expand: Count = 2  # size of u as a multiple of the width
    shortest: Positive = 1e-3  # smallest initial step dt
    longest: Positive = 1e-1  # largest initial step dt

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        channels = self.expand * context.width
        if channels % self.heads:
            raise SpecError(f"{channels} channels of mamba3 do not split into {self.heads} heads")
        return Directions(context, lambda: Mamba3Cell(context.width, self))


class Mamba3Cell(RecurrentCell):
    """One direction of ``Mamba3``."""

    def __init__(self, width: int, settings: Mamba3) -> None:
        super().__init__()
        E = settings.expand * width
        N = settings.states
        H = settings.heads
        self.heads = H
        angles = max(1, round(settings.rotating * N / 2))
        self.sizes = [E, E, N, N, H, H, H, angles]
        self.enter = nn.Linear(width, sum(self.sizes), bias=False)
        dt = log_uniform(H, settings.shortest, settings.longest).exp()
        self.step = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))  # softplus(step) = dt
        self.norm_b, self.norm_c = (nn.RMSNorm(N, eps=1e-5) for _ in range(2))
        self.bias_b, self.bias_c = (nn.Parameter(torch.ones(H, 1, N)) for _ in range(2))
        self.D = nn.Parameter(torch.ones(H))
        self.out = nn.Linear(E, width, bias=False)
        # S without its last term; that term as b, u and its weight; and the angles.
        self.state_shapes = (H, N, E // H), (H, 1, N + E // H + 1), (H, 1, N // 2)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence in chunks; return the outputs and the last state.

        The term of a position and its second half, which the next position adds, meet at the next position:
        a[t] (s[t-1] dt[t-1] + (1 - s[t]) dt[t]) b[t-1] u[t-1]^T. So sums over the past are computed once.
        """
        S, last, angle = state
        z, *parts = self.enter(x).split(self.sizes, dim=-1)
        u, b, c, dt, decay, share, turn = (part.to(S.dtype) for part in parts)
        u, dt, decay, share = (split_heads(part, self.heads) for part in (u, dt, decay, share))
        dt = F.softplus(dt + self.step[:, None, None])  # (B, H, L, 1)
        g = -dt * F.softplus(decay).clamp(min=SLOWEST)
        share = torch.sigmoid(share)
        turn = F.pad(math.pi * torch.tanh(turn), (0, angle.shape[-1] - turn.shape[-1]))
        # In double precision, for sums of many turns.
        angle = angle + (dt * turn[:, None]).cumsum(2, dtype=torch.float64)
        angle = angle.remainder(2 * math.pi).to(S.dtype)
        cos = angle.cos()
        sin = angle.sin()
        b = rotate(self.norm_b(b)[:, None] + self.bias_b, cos, sin)
        c = rotate(self.norm_c(c)[:, None] + self.bias_c, cos, sin)
        terms = torch.cat([last, torch.cat([b, u, share * dt], dim=-1)], dim=2)
        b_before, u_before, weight = terms[:, :, :-1].split([b.shape[-1], u.shape[-1], 1], dim=-1)
        o, S = decayed_attention(c, g.exp() * (weight + (1 - share) * dt) * b_before, u_before, g, S)
        o = o + (share * dt * (c * b).sum(-1, keepdim=True) + self.D[:, None, None]) * u
        return self.out(merge_heads(o) * F.silu(z)), (S, terms[:, :, -1:], angle[:, :, -1:])


mixer = Mamba3
