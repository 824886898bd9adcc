"""BigBird attention: block by block to neighbours, to the first and last block, and to a few random blocks.

y[t] = sum_s softmax_s(q[t].k[s] / sqrt(D/H)) v[s]  over s with talks[h, floor(t/size), floor(s/size)]

Source: Zaheer et al. (2020), Big Bird, section 2 and appendix D. What differs from it: random blocks are
drawn once per layer and head and kept with the weights; the last block is that of the longest sequence, so
that padding changes nothing. The causal form leaves later positions out and draws from earlier blocks.
"""

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from ..config import Count, Natural, spec
from ..shapes import PaddingMask
from .base import LayerContext, Mixer, check_length
from .common.attention_heads import PerHead
from .common.pairs import Pairs


@spec
class BigBird(Mixer):
    """Attention to near, global and random blocks of positions."""

    positions = "rotary"
    rotates = True
    published = "The LRA number came from code that draws random blocks from the first 1024 positions only."

    heads: Count = 4
    size: Count = 64  # block size in positions
    random: Natural = 3  # random blocks that each block sees, drawn per head

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return BigBirdLayer(context, self)


class BigBirdLayer(Pairs):
    """The layer of ``BigBird``."""

    talks: Bool[Tensor, "H n n"]

    def __init__(self, context: LayerContext, settings: BigBird) -> None:
        super().__init__(context, settings.heads, block=settings.size)
        count = -(-context.length // settings.size)
        block = torch.arange(count)
        query = block[:, None]
        key = block[None, :]
        is_global = (block == 0) | (block == count - 1)
        always_seen = ((query - key).abs() <= 1) | is_global[:, None] | is_global[None, :]
        chance = torch.rand(settings.heads, count, count)
        chance = chance.masked_fill(always_seen | (key > query) if context.causal else always_seen, -1.0)
        drawn = chance.topk(min(settings.random, count), dim=-1)
        at_random = torch.zeros_like(chance, dtype=torch.bool).scatter(-1, drawn.indices, drawn.values >= 0)
        self.register_buffer("talks", always_seen | at_random)

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return softmax attention over the pairs of the pattern."""
        check_length(q.shape[2], self.longest)
        return super().mix(q, k, v, padding_mask)

    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return whether the block of the query attends to the block of the key."""
        return self.talks[head, query // self.block, key // self.block]


mixer = BigBird
