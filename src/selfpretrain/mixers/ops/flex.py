"""Sparse attention as one compiled kernel (FlexAttention), on CUDA devices only."""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

PairPattern = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A pattern: maps broadcasting indices (head, query, key) to True where the query attends to the key."""


def supports_flex(q: Tensor) -> bool:
    """Return whether FlexAttention supports these queries, and there are enough of them to be faster."""
    built = q.device.type == "cuda" and importlib.util.find_spec("triton") is not None
    return built and q.dtype != torch.float64 and q.shape[-1] >= 16 and q.shape[-2] >= 2048


def make_block_mask(sees: PairPattern, heads: int, length: int, device: torch.device) -> BlockMask:
    """Return the block mask of a pattern."""
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
