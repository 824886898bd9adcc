"""Sparse Transformer attention: near positions, and a regular subset of the far ones.

y[t] = sum_s softmax_s(q[t].k[s] / sqrt(D/H)) v[s]  over s with:
strided:  |t - s| < size  or  (t - s) mod size = 0
fixed:    floor(t/size) = floor(s/size)  or  s mod size >= size - summary

Source: Child et al. (2019), Generating Long Sequences with Sparse Transformers, section 4.3.
What differs from it: both parts in every head (their "merged" heads, section 5.2), and both directions unless
causal. Far positions are spread over all blocks of keys, so that this costs as much as full attention here.
"""

from typing import Literal

from torch import Tensor, nn

from ..config import Count, spec
from ..errors import SpecError
from .base import LayerContext, Mixer
from .common.pairs import Pairs


@spec
class Sparse(Mixer):
    """Attention to near positions and to a strided or fixed subset of far ones."""

    positions = "rotary"
    rotates = True
    published = (
        "The LRA number came from a fixed pattern with blocks of 50 that looks back only, in encoders too."
    )

    heads: Count = 4
    pattern: Literal["strided", "fixed"] = "strided"
    size: Count = 64  # stride, or block size in positions
    summary: Count = 8  # positions at the end of a block that all others see, for the fixed pattern

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        if self.pattern == "fixed" and self.summary > self.size:
            raise SpecError(f"a block of {self.size} positions has no {self.summary} summary positions")
        return Pairs(context, self.heads, self.sees)

    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether a pair is in the chosen pattern."""
        if self.pattern == "fixed":
            return (query // self.size == key // self.size) | (key % self.size >= self.size - self.summary)
        apart = (query - key).abs()
        return (apart < self.size) | (apart % self.size == 0)


mixer = Sparse
