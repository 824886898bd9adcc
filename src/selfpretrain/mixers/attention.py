"""Multi-head softmax attention.

y = softmax(q k^T / sqrt(D/H)) v per head, over real positions (and not over later ones when causal).

Source: Vaswani et al. (2017), eq. 1; positions by rotation: Su et al. (2021).
"""

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SpecError
from ..ops.rotary import angles, rotate
from ..shapes import Valid, Vectors
from ..shelf import Count, spec
from .base import Mixer, Place


@spec
class Attention(Mixer):
    """Softmax attention with independently initialised query, key, value and output projections."""

    positions = "rotary"
    rotates = True

    heads: Count = 4

    def build(self, place: Place) -> nn.Module:
        """The attention layer."""
        if place.width % self.heads:
            raise SpecError(f"width {place.width} does not split into {self.heads} heads")
        if place.rotary and place.width // self.heads % 2:
            raise SpecError(f"rotary positions need an even head size, not {place.width // self.heads}")
        return AttentionLayer(place, self.heads)


class AttentionLayer(nn.Module):
    """The module of ``Attention``."""

    cos: Tensor
    sin: Tensor

    def __init__(self, place: Place, heads: int) -> None:
        super().__init__()
        D = place.width
        self.heads, self.causal, self.rotary = heads, place.causal, place.rotary
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        self._turn(place.length)

    def forward(self, x: Vectors, valid: Valid = None) -> Vectors:
        """Mix the real positions of every sequence."""
        B, L, D = x.shape
        q, k, v = (p(x).view(B, L, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        if self.rotary:
            if self.cos.shape[0] < L:
                self._turn(L)
            q, k = (rotate(y, self.cos[:L].to(y), self.sin[:L].to(y)) for y in (q, k))
        y = F.scaled_dot_product_attention(
            q, k, v, self._mask(L, valid), is_causal=self.causal and valid is None
        )
        return self.out(y.transpose(1, 2).reshape(B, L, D))

    def _mask(self, L: int, valid: Valid) -> Tensor | None:
        if valid is None:
            return None
        mask = valid[:, None, None, :]
        return mask & mask.new_ones(L, L).tril() if self.causal else mask

    def _turn(self, length: int) -> None:
        theta = angles(length, self.q.out_features // self.heads).to(self.q.weight.device)
        self.register_buffer("cos", theta.cos().float(), persistent=False)
        self.register_buffer("sin", theta.sin().float(), persistent=False)


mixer = Attention
