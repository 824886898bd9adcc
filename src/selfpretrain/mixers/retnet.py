"""Retentive network (RetNet): linear attention with rotary positions and a fixed decay per head.

S[t] = decay_h S[t-1] + k[t] v[t]^T,  o[t] = S[t]^T q[t],  y[t] = W (SiLU(W_g x[t]) RMSNorm(o[t])),
q and k are rotated by an angle proportional to the position,  decay_h = 1 - 2^(-5-h) for head h = 0, 1, ...

Source: Sun et al. (2023), Retentive Network, section 2, with the initialisation of its code: Xavier's with a
gain of 2^-2.5, 2^-1 for W. What differs from it: factors that make numbers small before the norm are left
out, as the norm removes them; bidirectional layers add the outputs of a second, backward recurrence.
"""

import torch
import torch.nn.functional as F
from torch import nn

from ..config import Count, spec
from ..errors import SpecError
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.attention_heads import head_size, merge_heads, rotate, split_heads
from .common.cells import Directions, RecurrentCell
from .ops.linear_attention import retention


@spec
class RetNet(Mixer):
    """Multi-scale retention, one per direction unless causal."""

    heads: Count = 4
    expand: Count = 2  # size of values as a multiple of the width

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        size = head_size(context, self.heads)
        if size % 2:
            raise SpecError(f"retnet rotates pairs of features, so a head size of {size} must be even")
        return Directions(context, lambda: RetNetCell(context.width, self))


class RetNetCell(RecurrentCell):
    """One direction of ``RetNet``."""

    def __init__(self, width: int, settings: RetNet) -> None:
        super().__init__()
        D = width
        E = settings.expand * width
        self.heads = settings.heads
        self.q, self.k = (nn.Linear(D, D, bias=False) for _ in range(2))
        self.v, self.gate = (nn.Linear(D, E, bias=False) for _ in range(2))
        self.norm = nn.RMSNorm(E // self.heads, eps=1e-6, elementwise_affine=False)
        self.out = nn.Linear(E, D, bias=False)
        # Its keys are rotated by their distance to the next position.
        self.state_shapes = ((self.heads, D // self.heads, E // self.heads),)
        for linear in (self.q, self.k, self.v, self.gate):
            nn.init.xavier_uniform_(linear.weight, gain=2**-2.5)
        nn.init.xavier_uniform_(self.out.weight, gain=2**-1)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence in chunks; return the outputs and the last state."""
        (S,) = state
        q, k, v = (split_heads(linear(x).to(S.dtype), self.heads) for linear in (self.q, self.k, self.v))
        # In radians; frequencies per position are from 1 to 1e-4, both included.
        frequency = torch.logspace(0, -4, q.shape[-1] // 2, dtype=torch.float64, device=x.device)
        position = torch.arange(x.shape[1] + 1, dtype=torch.float64, device=x.device)
        angles = torch.outer(position, frequency)
        cos = angles.cos().to(S.dtype)
        sin = angles.sin().to(S.dtype)
        q, k = (rotate(y, cos[:-1], sin[:-1]) for y in (q, k))
        head = torch.arange(self.heads, dtype=torch.float64, device=x.device)
        o, S = retention(q, k * k.shape[-1] ** -0.5, v, torch.log1p(-torch.exp2(-5.0 - head)), S)
        rows = S.shape[-1], -1
        S = rotate(S.mT, cos[-1:].expand(rows), -sin[-1:].expand(rows)).mT
        return self.out(F.silu(self.gate(x)) * merge_heads(self.norm(o))), (S,)


mixer = RetNet
