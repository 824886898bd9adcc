"""Block-local attention: softmax attention within blocks of positions and to the neighbouring blocks.

y[t] = sum_s softmax_s(q[t].k[s] / sqrt(D/H)) v[s]  over s for which
-before <= floor(s/size) - floor(t/size) <= after

Source: Tay et al. (2021), Long Range Arena, section 3.3 (own block only); Amos et al. (2024), one block to
either side. What differs from them: nothing in the formula; when causal, later positions are left out.
"""

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from ..config import Count, spec
from .base import LayerContext, Mixer
from .common.pairs import Pairs

Blocks = Annotated[int, Field(ge=0)]


@spec
class Local(Mixer):
    """Attention within a block of positions and to its neighbours."""

    positions = "rotary"
    rotates = True
    published: ClassVar[str] = (
        "The LRA number came from code that attends with stride instead: to positions L/50 or L/64 apart, "
        "with a padding mask made for neighbours."
    )

    heads: Count = 4
    size: Count = 128  # block size in positions
    before: Blocks = 1  # blocks seen before the own block
    after: Blocks = 1  # blocks seen after the own block, unless causal

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return LocalLayer(context, self)


class LocalLayer(Pairs):
    """The layer of ``Local``."""

    def __init__(self, context: LayerContext, settings: Local) -> None:
        super().__init__(context, settings.heads, block=settings.size)
        self.before = settings.before
        self.after = settings.after

    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether the key is in the block of the query or a neighbouring one."""
        blocks_ahead = key // self.block - query // self.block
        return (blocks_ahead >= -self.before) & (blocks_ahead <= self.after)


mixer = Local
