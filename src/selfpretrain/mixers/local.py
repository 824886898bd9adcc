"""Block-local attention: softmax attention within blocks of positions and to the neighbouring blocks.

y[t] = sum_s softmax_s(q[t].k[s] / sqrt(D/H)) v[s]  over s for which
-before <= floor(s/size) - floor(t/size) <= after

Source: Tay et al. (2021), Long Range Arena, section 3.3 (own block only); Amos et al. (2024), one block to
either side. What differs from them: nothing in the formula; when causal, later positions are left out.
"""

from torch import Tensor, nn

from ..config import Count, Natural, spec
from .base import LayerContext, Mixer
from .common.pairs import Pairs


@spec
class Local(Mixer):
    """Attention within a block of positions and to its neighbours."""

    positions = "rotary"
    rotates = True
    published = (
        "The LRA number came from code that attends with stride instead: to positions L/50 or L/64 apart, "
        "with a padding mask made for neighbours."
    )

    heads: Count = 4
    size: Count = 128  # block size in positions
    before: Natural = 1  # blocks seen before the own block
    after: Natural = 1  # blocks seen after the own block, unless causal

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return Pairs(context, self.heads, self.sees, self.size)

    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether the key is in the block of the query or a neighbouring one."""
        blocks_ahead = key // self.size - query // self.size
        return (blocks_ahead >= -self.before) & (blocks_ahead <= self.after)


mixer = Local
