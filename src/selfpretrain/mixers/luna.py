"""Luna: a memory of few slots attends to the sequence, then the sequence to the memory, in O(L).

M = softmax(P K^T / sqrt(D/H)) V,  Y = softmax(Q K_m^T / sqrt(D/H)) V_m  per head,
P, Q, K, V, K_m, V_m = W_p p, W_q X, W_k X, W_v X, W_l M, W_w M,  p learned

Causal, with sums over s <= t in place of M, and A[s] = log2(1 + 2^(P k[s] / sqrt(D/H))):
y[t] = 1/t sum_s (w[t].A[s]) v[s],  w[t] = softmax(1/t sum_s (q[t].k[s] / sqrt(D/H)) A[s])

Source: Ma et al. (2021), Luna: Linear Unified Nested Attention, section 3; the base of the logarithm and the
scale of q are those of its code (XuezheMax/fairseq-apollo). What differs from it: p is learned by every
layer; in the paper it is the normalised output of the previous layer, with positions in the first. When
causal, memory and queries share k; in the code each has its own projection.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer
from .common.attention_heads import PerHead, head_size, key_mask, merge_heads, split_heads
from .ops.linear_attention import causal_sums


@spec
class Luna(Mixer):
    """Attention through a memory."""

    positions = "sinusoidal"
    published = "The LRA number came from a memory that goes from layer to layer."

    heads: Count = 4
    slots: Count = 256  # slots of the memory

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        head_size(context, self.heads)
        return LunaLayer(context, self)


class LunaLayer(nn.Module):
    """The layer of ``Luna``."""

    def __init__(self, context: LayerContext, settings: Luna) -> None:
        super().__init__()
        D = context.width
        self.heads = settings.heads
        self.causal = context.causal
        self.memory = nn.Parameter(torch.randn(1, settings.slots, D))
        self.p, self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(5))
        self.k_memory, self.v_memory = (None if context.causal else nn.Linear(D, D) for _ in range(2))

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Attend from the memory to the real positions, then from every position to the memory."""
        p = split_heads(self.p(self.memory), self.heads)
        q, k, v = (split_heads(f(x), self.heads) for f in (self.q, self.k, self.v))
        if self.k_memory is None or self.v_memory is None:
            return self.out(merge_heads(_causal(p, q, k, v, padding_mask)))
        p = p.expand(len(x), -1, -1, -1)
        M = merge_heads(F.scaled_dot_product_attention(p, k, v, key_mask(padding_mask)))
        k, v = (split_heads(f(M), self.heads) for f in (self.k_memory, self.v_memory))
        return self.out(merge_heads(F.scaled_dot_product_attention(q, k, v)))


def _causal(
    p: Float[Tensor, "1 H slots E"], q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask
) -> PerHead:
    """Return the causal formula of the module docstring."""
    wide = torch.promote_types(k.dtype, torch.float32)
    scale = k.shape[-1] ** -0.5
    A = F.softplus((k @ p.mT).to(wide) * scale, beta=math.log(2))
    real = A.new_ones(A.shape[0], A.shape[2]) if padding_mask is None else padding_mask.to(wide)
    A = A * real[:, None, :, None]
    t = real.cumsum(1).clamp(min=1)[:, None, :, None]
    w = (causal_sums(q.to(wide) * scale, k.to(wide), A) / t).softmax(-1)
    return causal_sums(w, A, v.to(wide)) / t


mixer = Luna
