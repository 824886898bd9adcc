"""Multi-head softmax attention.

y = softmax(q k^T / sqrt(D/H)) v per head, over real positions (and not over later ones when causal).

Source: Vaswani et al. (2017), eq. 1; positions by rotation: Su et al. (2021).
"""

import torch.nn.functional as F
from torch import nn

from ..shapes import Valid
from ..shelf import Count, spec
from ._heads import Headed, Heads, key_mask
from .base import Mixer, Place


@spec
class Attention(Mixer):
    """Softmax attention with independently initialised query, key, value and output projections."""

    positions = "rotary"
    rotates = True

    heads: Count = 4

    def build(self, place: Place) -> nn.Module:
        """The attention layer."""
        return AttentionLayer(place, self.heads)


class AttentionLayer(Heads):
    """The module of ``Attention``."""

    def mix(self, q: Headed, k: Headed, v: Headed, valid: Valid) -> Headed:
        """softmax(q k^T / sqrt(E)) v."""
        mask = key_mask(valid)
        if mask is not None and self.causal:
            mask = mask & mask.new_ones(q.shape[2], q.shape[2]).tril()
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal and mask is None)


mixer = Attention
