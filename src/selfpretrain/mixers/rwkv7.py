"""RWKV-7: a generalised delta rule, with decays, replaced keys and shares of their own per feature.

S[t] = diag(w) S[t-1] - (a k') (S[t-1]^T k')^T + k v^T per head,  k' = p W_k x / |p W_k x|,
k = (1 + (a - 1) m) W_k x,  w = exp(-e^(-1/2) sigmoid(w_0 + W_2 tanh(W_1 x))),  a = sigmoid(a_0 + A_2 A_1 x),
y[t] = W (g (GroupNorm(S[t]^T r) + (r.(u k)) v)),  g = G_2 sigmoid(G_1 x),
where every map has an x of its own, x[t] + mix (x[t-1] - x[t])

Source: Peng et al. (2025), RWKV-7 Goose, section 4, and its code, with the initialisation of a first layer.
What differs from it: no layer takes the values of the first one, as layers are independent here; W starts as
the linear layers of torch, not at zero; bidirectional layers add the outputs of a second recurrence.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from ..config import Count, spec
from ..errors import SpecError
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.attention_heads import head_size, merge_heads, split_heads
from .common.cells import Directions, RecurrentCell
from .ops.delta_rule import decayed_delta_rule

MAPS = {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}
"""What x is mapped to, with the exponent of its initial mix 1 - (i / D)^exponent at feature i."""


@spec
class RWKV7(Mixer):
    """RWKV-7, one per direction unless causal."""

    heads: Count = 4
    rank: Count | None = None  # of W_2 W_1 and A_2 A_1; None: 2.5 sqrt(D) as a multiple of 32
    gate_rank: Count | None = None  # of G_2 and G_1; None: 5 sqrt(D) as a multiple of 32

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        if head_size(context, self.heads) == 1:
            raise SpecError(
                f"rwkv7 needs heads of 2 features, not width {context.width} in {self.heads} heads"
            )
        return Directions(context, lambda: RWKV7Cell(context.width, self))


class RWKV7Cell(RecurrentCell):
    """One direction of ``RWKV7``."""

    def __init__(self, width: int, settings: RWKV7) -> None:
        super().__init__()
        D = width
        self.heads = settings.heads
        rank = settings.rank or _rank(2.5, D)
        share = torch.arange(D) / D
        self.mix = nn.Parameter(torch.stack([1 - share**exponent for exponent in MAPS.values()]))
        projections = []
        for scale in (0.5, 0.05, 0.5):
            projections.append(nn.Linear(D, D, bias=False))
            nn.init.uniform_(projections[-1].weight, -scale * D**-0.5, scale * D**-0.5)
        self.r, self.k, self.v = projections
        self.decay = LowRank(D, rank, nn.Tanh())
        self.share = LowRank(D, rank, nn.Identity())
        self.gate = LowRank(D, settings.gate_rank or _rank(5.0, D), nn.Sigmoid())
        line = torch.linspace(-0.5, 0.5, D)
        zigzag = torch.linspace(-1, 1, D // self.heads).repeat(self.heads)
        zigzag = zigzag * zigzag.abs()
        self.decay_bias = nn.Parameter(6 * (line - 0.5) + 0.5 + 2.5 * zigzag)  # w_0
        self.share_bias = nn.Parameter(-0.19 + 0.3 * zigzag + 0.4 * line)  # a_0
        self.replaced = nn.Parameter(0.71 - 0.1 * line)  # p
        self.written = nn.Parameter(torch.full((D,), 1.02))  # m
        self.bonus = nn.Parameter(torch.full((D,), -0.04))  # u
        self.norm = nn.GroupNorm(self.heads, D, eps=1e-5 * D / self.heads)
        self.out = nn.Linear(D, D, bias=False)
        self.state_shapes = (1, D), (self.heads, D // self.heads, D // self.heads)  # the last x; S

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence in chunks; return the outputs and the last state."""
        last, S = state
        step = torch.cat([last, x[:, :-1]], dim=1) - x
        of_r, of_w, of_k, of_v, of_a, of_g = (x + step * mix for mix in self.mix)
        share = torch.sigmoid(self.share_bias + self.share(of_a))
        r = self.r(of_r)
        k = self.k(of_k)
        v = self.v(of_v)
        replaced = F.normalize(split_heads((k * self.replaced).to(S.dtype), self.heads), dim=-1)
        k = k * (1 + (share - 1) * self.written)
        g = -math.exp(-0.5) * torch.sigmoid(self.decay_bias + self.decay(of_w))
        r, k, v, share, g = (split_heads(part.to(S.dtype), self.heads) for part in (r, k, v, share, g))
        o, S = decayed_delta_rule(r, k, v, -replaced, replaced * share, g, S)
        o = self.norm(merge_heads(o).flatten(0, 1)).view_as(x)
        bonus = (r * k * split_heads(self.bonus[None, None], self.heads)).sum(-1, keepdim=True)
        return self.out((o + merge_heads(bonus * v)) * self.gate(of_g)), (x[:, -1:], S)


class LowRank(nn.Module):
    """W_2 f(W_1 x): W_1 starts at zero, W_2 orthogonal times 0.1."""

    def __init__(self, width: int, rank: int, f: nn.Module) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.f = f
        self.up = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.down.weight)
        nn.init.orthogonal_(self.up.weight, gain=0.1 * max(1.0, rank / width) ** 0.5)

    def forward(self, x: Vectors) -> Vectors:
        """Map every position."""
        y: Vectors = self.up(self.f(self.down(x)))
        return y


def _rank(factor: float, width: int) -> int:
    return max(32, 32 * round(factor * width**0.5 / 32))


mixer = RWKV7
