"""Multi-head softmax attention.

y = softmax(q k^T / sqrt(D/H)) v per head, over real positions (and not over later ones when causal).

Source: Vaswani et al. (2017), eq. 1; positions by rotation: Su et al. (2021).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer
from .common.attention_heads import Heads, PerHead, key_mask

MIMETIC_QK = 0.7  # size of the identity and of the noise in W_q^T W_k of a mimetic start
MIMETIC_VO = 0.4  # size of the identity and of the noise in W_o W_v of a mimetic start


@spec
class Attention(Mixer):
    """Softmax attention with independently initialised query, key, value and output projections."""

    positions = "rotary"
    rotates = True

    heads: Count = 4
    # identical: all four projections start as the same matrix; mimetic: see ``build``
    start: Literal["independent", "identical", "mimetic"] = "independent"

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer.

        ``start="identical"`` is the initialisation of the code published with Amos et al. (2024), where the
        projections are copies: attention then starts by matching equal content.

        ``start="mimetic"`` is the closed form of Trockman & Kolter (2023), section 4. In every head,
        W_q^T W_k is the best approximation of rank D/H of 0.7 Z / sqrt(D) + 0.7 I; in the whole layer,
        W_o W_v is 0.4 Z / sqrt(D) - 0.4 I, with Z a matrix of independent N(0, 1). Biases start at zero.
        """
        layer = AttentionLayer(context, self.heads)
        if self.start == "identical":
            for projection in (layer.k, layer.v, layer.out):
                projection.load_state_dict(layer.q.state_dict())
        if self.start == "mimetic":
            start_mimetically(layer)
        return layer


class AttentionLayer(Heads):
    """The layer of ``Attention``."""

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return softmax(q k^T / sqrt(E)) v."""
        # Padding comes last: a causal layer looks at none from a real position, and needs no (B, L, L) mask.
        mask = None if self.causal else key_mask(padding_mask)
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)

    def weights(self, x: Vectors, padding_mask: PaddingMask = None) -> Float[Tensor, "B H L L"]:
        """Return the attention weights softmax(q k^T / sqrt(E)), for inspection, not training."""
        q, k, _ = self.project(x)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if padding_mask is not None:
            scores = scores.masked_fill(~padding_mask[:, None, None], -math.inf)
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        return scores.softmax(-1)


@torch.no_grad()
def start_mimetically(layer: Heads) -> None:
    """Set the projections so that positions attend to similar ones, and values are subtracted."""
    D = layer.q.in_features
    size = D // layer.heads
    for head in range(layer.heads):
        rows = slice(head * size, (head + 1) * size)
        left, right = _factors(MIMETIC_QK * (_noise(D) + torch.eye(D)), size)
        layer.q.weight[rows] = left.T
        layer.k.weight[rows] = right
    left, right = _factors(MIMETIC_VO * (_noise(D) - torch.eye(D)), D)
    layer.out.weight.copy_(left)
    layer.v.weight.copy_(right)
    for projection in (layer.q, layer.k, layer.v, layer.out):
        projection.bias.zero_()


def _noise(width: int) -> Float[Tensor, "D D"]:
    return torch.randn(width, width) / math.sqrt(width)


def _factors(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return matrices (D, rank) and (rank, D) whose product is the best approximation of a matrix."""
    left, values, right = torch.linalg.svd(matrix)
    roots = values[:rank].sqrt()
    return left[:, :rank] * roots, roots[:, None] * right[:rank]


mixer = Attention
