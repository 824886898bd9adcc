"""Sparse softmax attention: a pattern of (query, key) pairs, computed per block of queries.

On CUDA devices, long sequences take one compiled kernel (FlexAttention).
"""

import functools
import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...shapes import PaddingMask
from ..base import LayerContext
from .attention_heads import Heads, PerHead

BLOCK = 128  # block size for patterns that are not made of blocks themselves
MIN_FLEX_LENGTH = 2048  # positions from which FlexAttention is faster
MIN_FLEX_WIDTH = 16  # least width of a head that FlexAttention supports
MAX_CACHED = 1 << 24
"""Maximum mask entries to cache: all pairs of 4096 positions. Further masks are computed at each use."""
# FlexAttention is imported where it is used, as it imports sympy from PyTorch 2.14 on.
BlockMask = Any  # ``torch.nn.attention.flex_attention.BlockMask``
PairPattern = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A pattern: maps broadcasting indices (head, query, key) to True where the query attends to the key."""


@dataclass(frozen=True)
class BlockNeighbours:
    """Key blocks and mask of one block of queries."""

    blocks: list[int]  # indices of key blocks, ascending
    numbers: Int[Tensor, "blocks"]  # the same, as a tensor on the device
    whole: bool  # whether the pattern contains all of their pairs
    mask: Bool[Tensor, "1 h W S"] | None  # the pattern; None if ``whole`` or not cached


class Pairs(Heads):
    """Sparse attention: query i attends to the real keys j of its pattern, which includes i.

    The pattern depends on i and j, not on the length of the sequence, so that padding changes nothing.

    Args:
        pattern: the pattern before the causal mask; None: the subclass has a method.
        block: block size of a block-sparse pattern, which contains all pairs of two blocks or none.
    """

    def __init__(
        self, context: LayerContext, heads: int, pattern: PairPattern | None = None, block: int | None = None
    ) -> None:
        super().__init__(context, heads)
        self.pattern = pattern
        self.longest = context.length
        self.block = block or BLOCK
        self.blockwise = block is not None
        self._plan: list[BlockNeighbours] = []
        self._plan_of: tuple[object, ...] = ()
        self._layout: BlockMask | None = None
        self._layout_of: tuple[object, ...] = ()

    def sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return the pattern before the causal mask, for broadcasting head, query and key indices."""
        assert self.pattern is not None, "given, or the subclass has a method"
        return self.pattern(head, query, key)

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return softmax attention over the pairs of the pattern."""
        if supports_flex(q) and q.shape[2] == self.longest:  # a kernel is compiled for one length
            if self._layout is None or self._layout_of != self._cache_key(q):
                self._layout_of = self._cache_key(q)
                self._layout = make_block_mask(self._sees, self.heads, q.shape[2], q.device)
            return attend_pairs(q, k, v, padding_mask, self._layout)
        keys = _BlockedTensor(k, self.block)
        values = _BlockedTensor(v, self.block)
        real = None if padding_mask is None else _BlockedTensor(padding_mask[:, None, :, None], self.block)
        plan = self._get_plan(q)
        mixed = []
        for index, part in enumerate(q.split(self.block, 2)):
            near = plan[index]
            blocks = [b for b in near.blocks if b < len(keys.blocks)]
            k_near = keys.take(blocks)
            v_near = values.take(blocks)
            mask = None
            if not near.whole:
                mask = self._pairs(index, near.numbers, q.device) if near.mask is None else near.mask
                mask = mask[..., : part.shape[2], : k_near.shape[2]]
            if real is not None:
                real_keys = real.take(blocks).transpose(2, 3)
                mask = real_keys if mask is None else mask & real_keys
            mixed.append(F.scaled_dot_product_attention(part, k_near, v_near, mask))
        return torch.cat(mixed, dim=2)

    def _get_plan(self, q: PerHead) -> list[BlockNeighbours]:
        """Return key blocks and masks of all query blocks, computed once for the longest sequence."""
        count = -(-max(q.shape[2], self.longest) // self.block)
        if self._plan_of != self._cache_key(q) or len(self._plan) < count:
            self._plan = []
            self._plan_of = self._cache_key(q)
            n_cached = 0
            for index in range(count):
                near = self._find_neighbours(index, count, q.device)
                n_cached += 0 if near.mask is None else near.mask.numel()
                self._plan.append(near if n_cached <= MAX_CACHED else replace(near, mask=None))
        return self._plan

    def _cache_key(self, q: PerHead) -> tuple[object, ...]:
        """Return a cache key that changes when the pattern's buffers are loaded or moved to a device."""
        return (q.device, *(buffer._version for buffer in self.buffers()))

    def _find_neighbours(self, index: int, count: int, device: torch.device) -> BlockNeighbours:
        step = self.block if self.blockwise else 1  # one position represents its block
        every = self._pairs(index, torch.arange(count, device=device), device, step)
        every = every.unflatten(-1, (count, -1))
        needed = every.any(-1).flatten(0, 2).any(0)
        numbers = needed.nonzero().flatten()
        whole = not self.causal and bool(every[..., needed, :].all())
        mask = None if whole else self._pairs(index, numbers, device)
        return BlockNeighbours(numbers.tolist(), numbers, whole, mask)

    def _pairs(
        self, index: int, blocks: Int[Tensor, "blocks"], device: torch.device, step: int = 1
    ) -> Bool[Tensor, "1 h W S"]:
        """Return the pattern of a query block and some key blocks, at every ``step``-th position of each."""
        inside = torch.arange(0, self.block, step, device=device)
        query = index * self.block + inside[:, None]
        key = (blocks[:, None] * self.block + inside).flatten()
        pattern = self._sees(torch.arange(self.heads, device=device)[:, None, None], query, key)
        return pattern.expand(*(1,) * (4 - pattern.ndim), *pattern.shape)

    def _sees(self, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        pattern = self.sees(head, query, key)
        return pattern & (key <= query) if self.causal else pattern


class _BlockedTensor:
    """A tensor and its blocks of positions."""

    def __init__(self, x: Tensor, size: int) -> None:
        self.x = x
        self.size = size
        self.blocks = x.split(size, 2)

    def take(self, blocks: list[int]) -> Tensor:
        """Return some blocks, concatenated."""
        first = blocks[0]
        last = blocks[-1]
        # A slice costs no memory, but its gradient has full length: used for most of a sequence.
        if last - first < len(blocks) and 2 * len(blocks) > len(self.blocks):
            return self.x[:, :, first * self.size : (last + 1) * self.size]
        return torch.cat([self.blocks[b] for b in blocks], dim=2)


def supports_flex(q: Tensor) -> bool:
    """Return whether FlexAttention supports these queries, and there are enough of them to be faster."""
    suits = q.dtype != torch.float64 and q.shape[-1] >= MIN_FLEX_WIDTH and q.shape[-2] >= MIN_FLEX_LENGTH
    return suits and q.device.type == "cuda" and _triton_compiles()


@functools.cache
def _triton_compiles() -> bool:
    """Return whether Triton is here with the C compiler that it needs; without one, warn once."""
    if importlib.util.find_spec("triton") is None:
        return False
    compiles = bool(os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"))
    if not compiles:
        warnings.warn(
            "no C compiler is here, which FlexAttention needs: attention is computed block by block, which "
            "is slower; install gcc",
            stacklevel=2,
        )
    return compiles


def make_block_mask(sees: PairPattern, heads: int, length: int, device: torch.device) -> BlockMask:
    """Return the block mask of a pattern."""
    from torch.nn.attention.flex_attention import create_block_mask

    make = _compile(create_block_mask, device.type)
    return make(lambda _, head, query, key: sees(head, query, key), None, heads, length, length, str(device))


def attend_pairs(
    q: Float[Tensor, "B H L E"],
    k: Tensor,
    v: Tensor,
    padding_mask: Bool[Tensor, "B L"] | None,
    pairs: BlockMask,
) -> Float[Tensor, "B H L E"]:
    """Return softmax attention over the pairs of the pattern with real keys."""
    from torch.nn.attention.flex_attention import flex_attention

    attend = _compile(flex_attention, q.device.type)
    if padding_mask is None:
        return attend(q, k, v, block_mask=pairs)

    def mask_padding(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return torch.where(padding_mask[row, key], score, -torch.inf)

    return attend(q, k, v, score_mod=mask_padding, block_mask=pairs)


@functools.cache
def _compile(function: Callable[..., Any], device: str) -> Any:
    if device != "cuda":
        return function
    # One kernel per pattern, with and without padding or gradients; beyond the limit, all pairs are computed.
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    return torch.compile(function, dynamic=False)
