"""Linformer: softmax attention over ``rank`` learned weighted sums of the positions.

Y = softmax(Q (E K)^T / sqrt(D/H)) F V,  E and F learned, rank x L, the same for all heads

Source: Wang et al. (2020), Linformer, eq. 7, shared by heads as in section 4. What differs from it: padded
keys and values are zeroed first, and shorter sequences use the first columns of E and F.
"""

import torch
import torch.nn.functional as F
from torch import nn

from ..config import Count, spec
from ..shapes import PaddingMask
from .base import LayerContext, Mixer, check_length, refuse_causal
from .common.attention_heads import Heads, PerHead


@spec
class Linformer(Mixer):
    """Attention to learned summaries of the sequence; built for one length, and never causal."""

    positions = "learned"
    causal = False
    published = (
        "The LRA number came from rank 16, one matrix shared by keys, values and heads, and unmasked padding."
    )

    heads: Count = 4
    rank: Count = 256  # rows of E and F

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        refuse_causal(self, context)
        return LinformerLayer(context, self)


class LinformerLayer(Heads):
    """The layer of ``Linformer``."""

    def __init__(self, context: LayerContext, settings: Linformer) -> None:
        super().__init__(context, settings.heads)
        size = settings.rank, context.length
        self.sum_k, self.sum_v = (nn.Parameter(torch.randn(size) * context.length**-0.5) for _ in range(2))

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Project keys and values along the sequence, then attend to the projections."""
        L = q.shape[2]
        check_length(L, self.sum_k.shape[1])
        if padding_mask is not None:
            k, v = (x * padding_mask[:, None, :, None] for x in (k, v))
        return F.scaled_dot_product_attention(q, self.sum_k[:, :L] @ k, self.sum_v[:, :L] @ v)


mixer = Linformer
