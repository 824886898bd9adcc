"""DeltaNet: linear attention that replaces the value of a key in its state instead of adding to it.

S[t] = S[t-1] + beta[t] k[t] (v[t] - S[t-1]^T k[t])^T,  o[t] = S[t]^T q[t] / sqrt(M) per head,
q, k, v = SiLU(conv(W_* x)), q and k of norm one,  beta = sigmoid(W_b x),  y[t] = W RMSNorm(o[t])

Source: Yang et al. (2024), Parallelizing Linear Transformers with the Delta Rule over Sequence Length,
section 3 and appendix, after Schlag et al. (2021); linear maps start as those of torch, as in its code.
What differs from it: bidirectional layers add the outputs of a second, backward recurrence.
"""

import torch
import torch.nn.functional as F
from torch import nn

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.attention_heads import head_size, merge_heads, split_heads
from .common.cells import Directions, RecurrentCell
from .common.convolution import ShortConvolution
from .ops.delta_rule import delta_rule, unit


@spec
class DeltaNet(Mixer):
    """DeltaNet, one per direction unless causal."""

    heads: Count = 4
    taps: Count = 4  # kernel size of the convolution

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        head_size(context, self.heads)
        return Directions(context, lambda: DeltaNetCell(context.width, self))


class DeltaNetCell(RecurrentCell):
    """One direction of ``DeltaNet``."""

    def __init__(self, width: int, settings: DeltaNet) -> None:
        super().__init__()
        self.heads = settings.heads
        size = width // self.heads
        self.enter = nn.Linear(width, 3 * width, bias=False)
        self.near = ShortConvolution(3 * width, settings.taps)
        self.beta = nn.Linear(width, self.heads, bias=False)
        self.norm = nn.RMSNorm(size, eps=1e-5)
        self.out = nn.Linear(width, width, bias=False)
        # The last inputs of the convolution, and S.
        self.state_shapes = (settings.taps - 1, 3 * width), (self.heads, size, size)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence in chunks; return the outputs and the last state."""
        before, S = state
        mixed, recent = self.near(self.enter(x), before)
        q, k, v = (split_heads(part, self.heads) for part in F.silu(mixed).chunk(3, dim=-1))
        beta = torch.sigmoid(self.beta(x).to(S.dtype)).mT[..., None]
        o, S = delta_rule(unit(q) * q.shape[-1] ** -0.5, unit(k), v, beta, S)
        return self.out(merge_heads(self.norm(o))), (recent, S)


mixer = DeltaNet
