"""Longformer attention: a sliding window, and global attention of the first positions.

y[t] = sum_s softmax_s(q[t].k[s] / sqrt(D/H)) v[s]  over s with |s - t| <= reach or s < first or t < first

Source: Beltagy et al. (2020), Longformer, section 3.1. What differs from it: global positions share the
projections of the others, and no dilation. When causal, later positions see them, but they look back only.
"""

from torch import Tensor, nn

from ..config import Count, spec
from .base import LayerContext, Mixer
from .common.pairs import Pairs


@spec
class Longformer(Mixer):
    """Attention in a sliding window and to global positions."""

    positions = "rotary"
    rotates = True
    published = "The LRA number came from a window of 512 without any global position."

    heads: Count = 4
    reach: Count = 256  # positions seen to either side: a window of 512
    first: Count = 1  # positions at the start that are global

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return Pairs(context, self.heads, self.sees)

    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether two positions are near, or one of them is global."""
        return ((query - key).abs() <= self.reach) | (key < self.first) | (query < self.first)


mixer = Longformer
