"""Reformer attention: positions are sorted by a hash, and attend to those next to them in this order.

y[t] = sum_r softmax_r(z_r[t]) sum_s softmax_s(a[t, s]) v[s],  a[t, s] = q[t].q[s]/|q[s]| / sqrt(D/H)
over s in t's chunk or the one before, when positions are ordered by hash_r(q) = argmax [q R_r; -q R_r];
z_r[t] = log sum_s exp a[t, s] over the same

Source: Kitaev et al. (2020), Reformer, section 2, eqs. 2-5. What differs from it: the rotations R are drawn
once and stored with the weights; positions of a chunk see each other whether or not their hashes are equal;
pairs that meet in several rounds count in each; the first chunk has no predecessor; padding is sorted last.
Never causal: later positions would move the borders of chunks.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer, refuse_causal
from .common.attention_heads import PerHead, head_size, merge_heads, split_heads
from .ops._exact import full_precision

Chunks = Float[Tensor, "B H rounds n T E"]

ITSELF = -1e5  # logit of a position's own key, so that it matters only if there is no other key


@spec
class Reformer(Mixer):
    """Attention to positions with a similar hash; queries are keys, and it is never causal."""

    positions = "sinusoidal"
    causal = False
    published = (
        "The LRA number came from logits multiplied by sqrt(D/H) instead of divided, unmasked padding, and "
        "outputs in which heads and positions are mixed up."
    )

    heads: Count = 4
    size: Count = 64  # chunk size and average bucket size, in positions
    rounds: Count = 2  # hashing rounds

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        refuse_causal(self, context)
        return ReformerLayer(context, self)


class ReformerLayer(nn.Module):
    """The layer of ``Reformer``."""

    rotations: Float[Tensor, "H rounds E half"]

    def __init__(self, context: LayerContext, settings: Reformer) -> None:
        super().__init__()
        D = context.width
        H = settings.heads
        self.heads = H
        self.size = settings.size
        self.q, self.v, self.out = (nn.Linear(D, D) for _ in range(3))
        half = -(-context.length // (2 * settings.size))
        self.register_buffer("rotations", torch.randn(H, settings.rounds, head_size(context, H), half))

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Mix the real positions of every sequence."""
        B, L, _ = x.shape
        n_padding = -L % self.size
        real = x.new_ones(B, L, dtype=torch.bool) if padding_mask is None else padding_mask
        real = F.pad(real, (0, n_padding))
        q, v = (F.pad(split_heads(p(x), self.heads), (0, 0, 0, n_padding)) for p in (self.q, self.v))
        wide = torch.promote_types(q.dtype, torch.float32)
        with full_precision(x.device):
            y = self._mix(q.to(wide), v.to(wide), real)
        return self.out(merge_heads(y[:, :, :L]))

    def _mix(self, q: PerHead, v: PerHead, real: Bool[Tensor, "B L"]) -> PerHead:
        order = self._hash(q, real).argsort(dim=-1, stable=True)
        inputs = q[:, :, None], v[:, :, None], real[:, None, None, :, None]
        y, z = self._attend(*(_reorder(x, order).unflatten(3, (-1, self.size)) for x in inputs))
        back = order.argsort(-1)
        y = _reorder(y.flatten(3, 4), back)
        z = _reorder(z.flatten(3, 4), back)
        return (z.softmax(2) * y).sum(2)

    @torch.no_grad()
    def _hash(self, q: PerHead, real: Bool[Tensor, "B L"]) -> Int[Tensor, "B H rounds L"]:
        """Return the bucket of every position in every round; padding is in a separate, last bucket."""
        turned = q[:, :, None] @ self.rotations
        bucket = torch.cat([turned, -turned], dim=-1).argmax(-1)
        return bucket.masked_fill(~real[:, None, None], 2 * turned.shape[-1])

    def _attend(self, q: Chunks, v: Chunks, real: Tensor) -> tuple[Chunks, Tensor]:
        """Return attention within chunks and to the previous ones, and the log-sum-exp of each softmax."""
        k = _append_previous(F.normalize(q, dim=-1))
        v_near = _append_previous(v)
        unreal = (~_append_previous(real)).to(q.dtype).mT * torch.finfo(q.dtype).min
        # The own chunk comes first.
        itself = ITSELF * torch.eye(self.size, 2 * self.size, dtype=q.dtype, device=q.device)
        logits = (q * q.shape[-1] ** -0.5) @ k.mT + itself + unreal
        return logits.softmax(-1) @ v_near, logits.logsumexp(-1, keepdim=True)


def _reorder(x: Tensor, order: Int[Tensor, "B H rounds L"]) -> Tensor:
    """Return the positions reordered for every head and round."""
    x = x.expand(*order.shape, x.shape[-1])
    return x.gather(3, order[..., None].expand_as(x))


def _append_previous(x: Tensor) -> Tensor:
    """Return every chunk followed by the previous one; zeros for the first."""
    before = torch.cat([torch.zeros_like(x[:, :, :, :1]), x[:, :, :, :-1]], dim=3)
    return torch.cat([x, before], dim=4)


mixer = Reformer
