"""Multi-head attention layers: projections to queries, keys and values, rotary positions, output projection.

Rotary positions rotate pairs of features by an angle proportional to the position.
"""

import abc

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ...errors import SpecError
from ...shapes import PaddingMask, Vectors
from ..base import LayerContext

PerHead = Float[Tensor, "B H L E"]
"""Queries, keys or values: a vector of size E = D/H per head and position."""


class Heads(nn.Module, abc.ABC):
    """Base class of multi-head layers: query, key, value and output projections around ``mix``.

    Raises:
        SpecError: if the width is not divisible by the heads, or the head size is odd with rotary positions.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, context: LayerContext, heads: int) -> None:
        super().__init__()
        D = context.width
        self.heads = heads
        self.causal = context.causal
        self.rotary = context.rotary
        size = head_size(context, heads)
        if self.rotary and size % 2:
            raise SpecError(f"rotary positions need an even head size, not {size}")
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        if self.rotary:
            self._make_rotary_tables(context.length)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Mix the real positions of every sequence."""
        return self.out(merge_heads(self.mix(*self.project(x), padding_mask)))

    def project(self, x: Vectors) -> tuple[PerHead, PerHead, PerHead]:
        """Return queries, keys and values of every head, with rotary position encoding if enabled."""
        q, k, v = (split_heads(p(x), self.heads) for p in (self.q, self.k, self.v))
        if self.rotary:
            L = x.shape[1]
            if self.cos.shape[0] < L:
                self._make_rotary_tables(L)
            q, k = (rotate(y, self.cos[:L].to(y), self.sin[:L].to(y)) for y in (q, k))
        return q, k, v

    @abc.abstractmethod
    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return the outputs of every head, from its queries, keys and values."""

    def _make_rotary_tables(self, length: int) -> None:
        angle = angles(length, self.q.out_features // self.heads).to(self.q.weight.device)
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)


def head_size(context: LayerContext, heads: int) -> int:
    """Return E = D/H.

    Raises:
        SpecError: if the width is not divisible by the number of heads.
    """
    if context.width % heads:
        raise SpecError(f"width {context.width} does not split into {heads} heads")
    return context.width // heads


def split_heads(x: Vectors, heads: int) -> PerHead:
    """Split the vector of every position into heads."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(y: PerHead) -> Vectors:
    """Concatenate the heads of every position."""
    return y.transpose(1, 2).flatten(2)


def key_mask(padding_mask: PaddingMask) -> Bool[Tensor, "B 1 1 L"] | None:
    """Return the padding mask with axes for heads and queries; None: no padding."""
    return None if padding_mask is None else padding_mask[:, None, None, :]


def angles(length: int, size: int) -> Float[Tensor, "L half"]:
    """Return theta[t, m] = t * 10000^(-2m/size) for m < size/2, in radians; computed in float64.

    Source: Su et al. (2021), RoFormer, eq. 15.
    """
    frequency = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    return torch.outer(torch.arange(length, dtype=torch.float64), frequency)


def rotate(
    x: Float[Tensor, "B H L E"], cos: Float[Tensor, "... L half"], sin: Float[Tensor, "... L half"]
) -> Float[Tensor, "B H L E"]:
    """Rotate the pair of features m and m + E/2 by the angle of its position."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
