"""Gated linear attention (GLA): linear attention whose state decays at a learned rate per key feature.

S[t] = diag(a[t]) S[t-1] + k[t] v[t]^T,  o[t] = S[t]^T q[t] / sqrt(M) per head,
a = sigmoid(W_2 W_1 x)^(1/tau),  y[t] = W (SiLU(W_r x[t]) RMSNorm(o[t]))

Source: Yang et al. (2024), Gated Linear Attention Transformers with Hardware-Efficient Training, section 4.
What differs from it: bidirectional layers add the outputs of a second, backward recurrence.
"""

import torch.nn.functional as F
from torch import nn

from ..config import Count, Positive, spec
from ..errors import SpecError
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.attention_heads import head_size, merge_heads, split_heads
from .common.cells import Directions, RecurrentCell
from .ops.linear_attention import decayed_attention


@spec
class GLA(Mixer):
    """Gated linear attention, one per direction unless causal."""

    heads: Count = 4
    rank: Count = 16  # of W_2 W_1
    tau: Positive = 16.0  # the larger, the slower the state decays

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        if head_size(context, self.heads) % 2:
            raise SpecError(f"gla halves its heads of {context.width // self.heads}, which must be even")
        return Directions(context, lambda: GLACell(context.width, self))


class GLACell(RecurrentCell):
    """One direction of ``GLA``; queries and keys have half the size of values."""

    def __init__(self, width: int, settings: GLA) -> None:
        super().__init__()
        D = width
        self.heads = settings.heads
        size = D // self.heads
        self.tau = settings.tau
        self.q, self.k = (nn.Linear(D, D // 2, bias=False) for _ in range(2))
        self.v = nn.Linear(D, D, bias=False)
        self.fade = nn.Sequential(nn.Linear(D, settings.rank, bias=False), nn.Linear(settings.rank, D // 2))
        self.gate = nn.Linear(D, D)
        self.norm = nn.RMSNorm(size, eps=1e-5)
        self.out = nn.Linear(D, D, bias=False)
        self.state_shapes = ((self.heads, size // 2, size),)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence in chunks; return the outputs and the last state."""
        q, k, v, fade = (split_heads(p(x), self.heads) for p in (self.q, self.k, self.v, self.fade))
        g = F.logsigmoid(fade.to(state[0].dtype)) / self.tau
        o, S = decayed_attention(q * q.shape[-1] ** -0.5, k, v, g, state[0])
        return self.out(F.silu(self.gate(x)) * merge_heads(self.norm(o))), (S,)


mixer = GLA
