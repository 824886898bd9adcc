"""Attention with linear biases: the further away a position is, the less it is attended to.

y[t] = sum_s softmax_s(q[t].k[s] / sqrt(D/H) - m |t - s|) v[s]  per head,  m = 2^(-8 h / H) in head h = 1..H

Source: Press et al. (2022), Train short, test long: attention with linear biases, section 3. What differs
from it: unless causal, later positions are biased like earlier ones.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask
from .base import LayerContext, Mixer
from .common.attention_heads import Heads, PerHead, key_mask


@spec
class Alibi(Mixer):
    """Softmax attention with a fixed bias towards near positions, in place of position encodings."""

    heads: Count = 4

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return AlibiLayer(context, self.heads)


class AlibiLayer(Heads):
    """The layer of ``Alibi``."""

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return softmax(q k^T / sqrt(E) - m |t - s|) v."""
        bias = self.bias(q.shape[2], q)
        mask = key_mask(padding_mask)
        if mask is not None:
            bias = bias.masked_fill(~mask, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, bias)

    def bias(self, length: int, like: Tensor) -> Float[Tensor, "1 H L L"]:
        """Return -m |t - s| of every head, minus infinity at later positions if causal."""
        position = torch.arange(length, device=like.device)
        lag = position[:, None] - position
        slopes = 2 ** (-8 * torch.arange(1, self.heads + 1, device=like.device) / self.heads)
        bias = -slopes[:, None, None] * lag.abs()
        if self.causal:
            bias = bias.masked_fill(lag < 0, -torch.inf)
        return bias.to(like.dtype)[None]


mixer = Alibi
