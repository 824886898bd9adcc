"""Linear attention with decay: sums over keys that are multiplied by a factor at every position.

y[t] = q[t]^T S[t],  S[t] = diag(exp g[t]) S[t-1] + k[t] v[t]^T

A chunk is computed at once; only its sums are passed on to the next. Exponents are sums of logarithms between
two positions, never above zero, so nothing overflows and nothing is divided, whatever the factors.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ._exact import full_precision

CHUNK = 64
"""Chunk size when all features of a head share a decay factor."""
CHUNK_PER_FEATURE = 16
"""Chunk size when each feature has its own decay factor."""

Features = Float[Tensor, "B _ L M"]
Sums = Float[Tensor, "B H M E"]


def decayed_attention(
    q: Features, k: Features, v: Float[Tensor, "B H L E"], g: Float[Tensor, "B H L _"], state: Sums
) -> tuple[Float[Tensor, "B H L E"], Sums]:
    """Return y of the formula above, and the sums S after the last position.

    Source: Yang et al. (2024), Gated Linear Attention, section 4; with one factor per head, Dao & Gu (2024),
    Transformers are SSMs, section 6.

    Args:
        q: queries; they and keys may have one head for all.
        g: logarithms of the factors, at most zero: M per head, or one.
        state: sums before the first position.
    """
    L = v.shape[2]
    size = min(L, CHUNK if g.shape[-1] == 1 else CHUNK_PER_FEATURE)
    with full_precision(v.device):
        q, k, v, g = (_chunks(x.to(state.dtype), size) for x in (q, k, v, g))
        decay = _decay(g)
        from_start = g.cumsum(3).exp()
        added = (k * decay[:, :, :, -1]).mT @ v
        before = []
        for kept_share, more in zip(from_start[:, :, :, -1:].mT.unbind(2), added.unbind(2), strict=True):
            before.append(state)
            state = kept_share * state + more
        y = _weights(q, k, decay) @ v + (q * from_start) @ torch.stack(before, dim=2)
    return y.flatten(2, 3)[:, :, :L], state


def _decay(g: Float[Tensor, "B H n T _"]) -> Float[Tensor, "B H n T T _"]:
    """Return exp(g[s+1] + ... + g[t]) in row t and column s, zero for s > t; sums are not differences."""
    past = torch.ones(g.shape[3], g.shape[3], dtype=torch.bool, device=g.device).tril(-1)
    sums = torch.where(past[..., None], g[:, :, :, :, None], 0).cumsum(3)
    return sums.masked_fill(past.mT[..., None], -torch.inf).exp()


def _weights(q: Tensor, k: Tensor, decay: Tensor) -> Float[Tensor, "B H n T T"]:
    """Return sum_m q[t, m] k[s, m] decay[t, s, m]."""
    if decay.shape[-1] == 1:
        return q @ k.mT * decay[..., 0]
    return (decay * k[:, :, :, None] @ q[..., None])[..., 0]


def _chunks(x: Tensor, size: int) -> Tensor:
    """Split positions into chunks along a new axis; the zero padding adds no weight and no decay."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))
