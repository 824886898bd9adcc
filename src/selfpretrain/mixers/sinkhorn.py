"""Sparse Sinkhorn attention: every block attends to itself and to a soft permutation of all blocks.

y_n = softmax(q_n [k_n ; R_n k]^T / sqrt(D/H)) [v_n ; R_n v],  R_n k = sum_m R[n, m] k_m  for blocks n, m
R = Sinkhorn(exp(S / temperature)),  S[., m] = W sum of the keys of block m

Source: Tay et al. (2020), Sparse Sinkhorn Attention, sections 3.1-3.3; S is that of the authors' code in Long
Range Arena: one linear layer on the keys of each head. What differs from the paper: there S is a two-layer
network on the layer's inputs, summed per block, and has Gumbel noise. Here blocks without real positions are
excluded from R, and padding inside a block is zeroed.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..config import Count, Positive, spec
from ..shapes import PaddingMask
from .base import LayerContext, Mixer, check_length, refuse_causal
from .common.attention_heads import Heads, PerHead
from .ops._exact import full_precision

Blocks = Float[Tensor, "B H n T E"]


@spec
class Sinkhorn(Mixer):
    """Attention within blocks and to blocks sorted by a learned soft permutation; never causal here."""

    positions = "sinusoidal"
    causal = False
    published = (
        "The LRA number came from plain softmax weights instead of balanced ones, and from blocks of "
        "positions that lie far apart."
    )

    heads: Count = 4
    size: Count = 64  # block size in positions
    iterations: Count = 8  # normalisations of rows and columns
    temperature: Positive = 0.75

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        refuse_causal(self, context)
        return SinkhornLayer(context, self)


class SinkhornLayer(Heads):
    """The layer of ``Sinkhorn``."""

    def __init__(self, context: LayerContext, settings: Sinkhorn) -> None:
        super().__init__(context, settings.heads)
        self.size = settings.size
        self.iterations = settings.iterations
        self.temperature = settings.temperature
        self.longest = -(-context.length // settings.size) * settings.size
        self.sort = nn.Linear(context.width // settings.heads, self.longest // settings.size)

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Sort the blocks, then attend inside each pair of blocks."""
        L = q.shape[2]
        check_length(L, self.longest)
        real = padding_mask if padding_mask is not None else q.new_ones(len(q), L, dtype=torch.bool)
        real = F.pad(real, (0, -L % self.size)).unflatten(1, (-1, self.size))
        q, k, v = (self._blocks(x) for x in (q, k, v))
        padded = padding_mask is not None or L % self.size > 0
        if padded:
            k, v = (x * real[:, None, ..., None] for x in (k, v))
        order = self._sort_matrix(k, real.any(-1)).to(k.dtype)
        k, v = (torch.cat([x, torch.einsum("bhnm,bhmte->bhnte", order, x)], dim=3) for x in (k, v))
        mask = None
        if padded:
            mask = torch.cat([real, real.any(1, keepdim=True).expand_as(real)], dim=-1)
            mask = mask[:, None, :, None].expand(-1, self.heads, -1, -1, -1).flatten(1, 2)
        q, k, v = (x.flatten(1, 2) for x in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, mask)
        return y.unflatten(1, (self.heads, -1)).flatten(2, 3)[:, :, :L]

    def _blocks(self, x: PerHead) -> Blocks:
        return F.pad(x, (0, 0, 0, -x.shape[2] % self.size)).unflatten(2, (-1, self.size))

    def _sort_matrix(self, k: Blocks, real: Bool[Tensor, "B n"]) -> Float[Tensor, "B H n n"]:
        """Return R of the module docstring: rows and columns of real blocks sum to one."""
        with full_precision(k.device):
            wide = torch.promote_types(k.dtype, torch.float32)
            scores = F.linear(k.sum(3).to(wide), self.sort.weight, self.sort.bias)[..., : k.shape[2]]
        pairs = (real[:, :, None] & real[:, None, :])[:, None]
        log = scores.transpose(-1, -2) / self.temperature
        least = torch.finfo(log.dtype).min / 2
        log = log.masked_fill(~pairs, least)
        for _ in range(self.iterations):
            for axis in (-2, -1):
                log = (log - log.logsumexp(axis, keepdim=True)).masked_fill(~pairs, least)
        return log.exp()


mixer = Sinkhorn
