"""Softmax attention over some pairs of positions: block by block of queries, with the keys it needs."""

import abc
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from ...shapes import PaddingMask
from ..base import LayerContext
from ..ops.flex import flex, flexible, lay_out
from .attention_heads import Headed, Heads

BLOCK = 128
"""Positions of a block, where the pattern is not made of blocks itself."""
KEEP = 1 << 24
"""Pairs up to which masks are kept: all those of 4096 positions. Beyond, a mask is made at each use."""


@dataclass(frozen=True)
class Near:
    """What one block of queries needs."""

    blocks: list[int]  # of keys, in order
    numbers: Int[Tensor, "blocks"]  # the same, where the pattern is made
    whole: bool  # whether all pairs of them talk
    mask: Bool[Tensor, "1 h W S"] | None  # which pairs do, if it is kept


class Pairs(Heads):
    """Query i attends to those real keys j that it sees, itself always among them.

    What it sees depends on i and j, not on the length of the sequence: so padding changes nothing.

    Args:
        block: positions of the blocks that the pattern is made of: of two blocks, all pairs talk or none.
    """

    def __init__(self, context: LayerContext, heads: int, block: int | None = None) -> None:
        super().__init__(context, heads)
        self.longest, self.block, self.even = context.length, block or BLOCK, block is not None
        self._plan: list[Near] = []
        self._plan_of: tuple[object, ...] = ()
        self._layout: BlockMask | None = None
        self._layout_of: tuple[object, ...] = ()

    @abc.abstractmethod
    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Which pairs talk if later keys may be seen: for numbers of heads and positions, which broadcast."""

    def mix(self, q: Headed, k: Headed, v: Headed, padding_mask: PaddingMask) -> Headed:
        """Softmax attention over the pairs that talk."""
        if flexible(q) and q.shape[2] == self.longest:  # a kernel is compiled for one length
            return flex(q, k, v, padding_mask, self._laid_out(q))
        keys, values = _Cut(k, self.block), _Cut(v, self.block)
        real = None if padding_mask is None else _Cut(padding_mask[:, None, :, None], self.block)
        plan, mixed = self._planned(q), []
        for at, part in enumerate(q.split(self.block, 2)):
            near = plan[at]
            blocks = [b for b in near.blocks if b < len(keys.pieces)]
            k_near, v_near, mask = keys.take(blocks), values.take(blocks), None
            if not near.whole:
                mask = self._mask(at, near, q.device)[..., : part.shape[2], : k_near.shape[2]]
            if real is not None:
                there = real.take(blocks).transpose(2, 3)
                mask = there if mask is None else mask & there
            mixed.append(F.scaled_dot_product_attention(part, k_near, v_near, mask))
        return torch.cat(mixed, dim=2)

    def _planned(self, q: Headed) -> list[Near]:
        """What every block of queries needs, worked out once, for the longest sequence."""
        count = -(-max(q.shape[2], self.longest) // self.block)
        if self._plan_of != self._state(q) or len(self._plan) < count:
            self._plan, self._plan_of, kept = [], self._state(q), 0
            for at in range(count):
                near = self._near(at, count, q.device)
                kept += 0 if near.mask is None else near.mask.numel()
                self._plan.append(near if kept <= KEEP else replace(near, mask=None))
        return self._plan

    def _state(self, q: Headed) -> tuple[object, ...]:
        """Changes when a pattern that is kept in a buffer is loaded again, or moved to another device."""
        return (q.device, *(buffer._version for buffer in self.buffers()))

    def _near(self, at: int, count: int, device: torch.device) -> Near:
        step = self.block if self.even else 1  # one position speaks for its block
        every = self._pairs(at, torch.arange(count, device=device), device, step).unflatten(-1, (count, -1))
        needed = every.any(-1).flatten(0, 2).any(0)
        numbers = needed.nonzero().flatten()
        whole = not self.causal and bool(every[..., needed, :].all())
        mask = None if whole else self._pairs(at, numbers, device)
        return Near(numbers.tolist(), numbers, whole, mask)

    def _mask(self, at: int, near: Near, device: torch.device) -> Bool[Tensor, "1 h W S"]:
        return self._pairs(at, near.numbers, device) if near.mask is None else near.mask

    def _pairs(
        self, at: int, blocks: Int[Tensor, "blocks"], device: torch.device, step: int = 1
    ) -> Bool[Tensor, "1 h W S"]:
        """Which queries of a block see which keys of some blocks; every ``step``-th of each."""
        inside = torch.arange(0, self.block, step, device=device)
        query = at * self.block + inside[:, None]
        key = (blocks[:, None] * self.block + inside).flatten()
        seen = self._sees(torch.arange(self.heads, device=device)[:, None, None], query, key)
        return seen.expand(*(1,) * (4 - seen.ndim), *seen.shape)

    def _sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = self.sees(head, query, key)
        return seen & (key <= query) if self.causal else seen

    def _laid_out(self, q: Headed) -> BlockMask:
        if self._layout is None or self._layout_of != (q.shape[2], *self._state(q)):
            self._layout_of = (q.shape[2], *self._state(q))
            self._layout = lay_out(self._sees, self.heads, q.shape[2], q.device)
        return self._layout


class _Cut:
    """A tensor, whole and in blocks of positions."""

    def __init__(self, x: Tensor, size: int) -> None:
        self.x, self.size, self.pieces = x, size, x.split(size, 2)

    def take(self, blocks: list[int]) -> Tensor:
        """These blocks, one after the other."""
        first, last = blocks[0], blocks[-1]
        # A slice costs no memory, but its gradient is as long as the sequence: it is for most of a sequence.
        if last - first < len(blocks) and 2 * len(blocks) > len(self.pieces):
            return self.x[:, :, first * self.size : (last + 1) * self.size]
        return torch.cat([self.pieces[b] for b in blocks], dim=2)
