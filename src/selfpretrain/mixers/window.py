"""Sliding-window attention: softmax attention to the nearest positions.

y[t] = sum_s softmax_s(q[t].k[s] / sqrt(D/H)) v[s]  over s with |s - t| <= reach

Source: Beltagy et al. (2020), Longformer, section 3.1. What differs from it: no dilation.
"""

from torch import Tensor, nn

from ..config import Count, spec
from .base import LayerContext, Mixer
from .common.pairs import Pairs


@spec
class Window(Mixer):
    """Attention to the nearest positions only."""

    positions = "rotary"
    rotates = True

    heads: Count = 4
    reach: Count = 128  # positions seen to either side, or before only when causal

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return Pairs(context, self.heads, self.sees)

    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether two positions are at most ``reach`` apart."""
        return (query - key).abs() <= self.reach


mixer = Window
