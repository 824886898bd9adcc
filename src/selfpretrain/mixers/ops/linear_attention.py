"""Linear attention: weights are products of features, so that sums over keys are computed once, in O(L).

y[t] = q[t]^T S[t],  S[t] = diag(exp g[t]) S[t-1] + k[t] v[t]^T

Without decay, y is divided by the sum of the weights. Features and sums stay in fp32 under autocast, as this
denominator is a sum over all positions.

With decay, sums over keys are multiplied by a factor at every position; retention has one fixed factor per
head. A chunk is computed at once; only its sums are passed on to the next. Exponents are sums of logarithms
between two positions, never above zero, so nothing overflows and nothing is divided, whatever the factors.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision

CHUNK = 128  # chunk size of the causal form; pairs within a chunk are computed explicitly
SMALLEST = 1e-30  # lower bound of the denominator, for queries without any key of positive weight
CHUNK_WITH_DECAY = 64  # chunk size when all features of a head share a decay factor
CHUNK_PER_FEATURE = 16  # chunk size when each feature has its own decay factor

Features = Float[Tensor, "B H L M"]
KeyFeatures = Float[Tensor, "B _ L M"]
Values = Float[Tensor, "B H L E"]
Sums = Float[Tensor, "B H M E"]


def linear_attention(q: Features, k: Features, v: Values) -> Values:
    """Return y[t] = sum_s (q[t].k[s]) v[s] / sum_s q[t].k[s], for non-negative features.

    Source: Katharopoulos et al. (2020), Transformers are RNNs, eq. 6.
    """
    with full_precision(q.device):
        return _DivideByLast.apply(q @ (k.transpose(-1, -2) @ _append_ones(v)))


def causal_linear_attention(q: Features, k: Features, v: Values, chunk: int = CHUNK) -> Values:
    """Return the same with s <= t: sums over earlier chunks, and explicit pairs within a chunk.

    Source: Katharopoulos et al. (2020), eq. 9; in chunks: Hua et al. (2022), FLASH, section 3.2.
    """
    with full_precision(q.device):
        return _DivideByLast.apply(causal_sums(q, k, _append_ones(v), chunk))


def rescaled_linear_attention(q: Features, k: Features, v: Values, rise: Float[Tensor, "B H L 1"]) -> Values:
    """Return the same for key features exp(rise[s]) k[s] with non-decreasing ``rise``.

    The factors may overflow: past sums are scaled down instead when ``rise`` increases.
    """
    fall = F.pad(rise[:, :, :-1] - rise[:, :, 1:], (0, 0, 1, 0))
    v = _append_ones(v)
    y, _ = decayed_attention(q, k, v, fall, v.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]))
    return _DivideByLast.apply(y)


def causal_sums(q: Features, k: Features, v: Values, chunk: int = CHUNK) -> Values:
    """Return y[t] = sum_s (q[t].k[s]) v[s] over s <= t."""
    L = q.shape[2]
    with full_precision(q.device):
        q, k, v = (in_chunks(x, min(chunk, L)) for x in (q, k, v))
        # Sums over past chunks, not the total minus later ones: rounding errors would leak the future.
        before = F.pad((k.mT @ v)[:, :, :-1].cumsum(2), (0, 0, 0, 0, 1, 0))
        y = q @ before + (q @ k.mT).tril() @ v
        return y.flatten(2, 3)[:, :, :L]


def _append_ones(v: Values) -> Float[Tensor, "B H L E1"]:
    """Return values with a one appended, whose weighted sum is the sum of the weights."""
    return F.pad(v, (0, 1), value=1.0)


class _DivideByLast(torch.autograd.Function):
    """All entries but the last, divided by the last; the gradient is written into one tensor."""

    @staticmethod
    def forward(ctx: Any, y: Float[Tensor, "B H L E1"]) -> Values:
        reciprocal = y[..., -1:].clamp(min=SMALLEST).reciprocal_()
        y_divided = y[..., :-1] * reciprocal
        ctx.save_for_backward(y_divided, reciprocal)
        return y_divided

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Values) -> Float[Tensor, "B H L E1"]:
        y_divided, reciprocal = ctx.saved_tensors
        of_y = grad.new_empty(*grad.shape[:-1], grad.shape[-1] + 1)
        torch.mul(grad, reciprocal, out=of_y[..., :-1])
        of_sum = -(of_y[..., :-1] * y_divided).sum(-1, keepdim=True)
        of_y[..., -1:] = of_sum.masked_fill_(reciprocal >= 1 / SMALLEST, 0)
        return of_y


def decayed_attention(
    q: KeyFeatures, k: KeyFeatures, v: Float[Tensor, "B H L E"], g: Float[Tensor, "B H L _"], state: Sums
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
    size = min(L, CHUNK_WITH_DECAY if g.shape[-1] == 1 else CHUNK_PER_FEATURE)
    with full_precision(v.device):
        q, k, v, g = (in_chunks(x.to(state.dtype), size) for x in (q, k, v, g))
        decay = decay_between(g)
        from_start = g.cumsum(3).exp()
        added = (k * decay[:, :, :, -1]).mT @ v
        before = []
        for kept_share, more in zip(from_start[:, :, :, -1:].mT.unbind(2), added.unbind(2), strict=True):
            before.append(state)
            state = kept_share * state + more
        y = decayed_weights(q, k, decay) @ v + (q * from_start) @ torch.stack(before, dim=2)
    return y.flatten(2, 3)[:, :, :L], state


def decay_between(g: Float[Tensor, "B H n T _"]) -> Float[Tensor, "B H n T T _"]:
    """Return exp(g[s+1] + ... + g[t]) in row t and column s, zero for s > t; sums are not differences."""
    past = torch.ones(g.shape[3], g.shape[3], dtype=torch.bool, device=g.device).tril(-1)
    sums = torch.where(past[..., None], g[:, :, :, :, None], 0).cumsum(3)
    return sums.masked_fill(past.mT[..., None], -torch.inf).exp()


def decayed_weights(q: Tensor, k: Tensor, decay: Tensor) -> Float[Tensor, "B H n T T"]:
    """Return sum_m q[t, m] k[s, m] decay[t, s, m]."""
    if decay.shape[-1] == 1:
        return q @ k.mT * decay[..., 0]
    return (decay * k[:, :, :, None] @ q[..., None])[..., 0]


def in_chunks(x: Tensor, size: int) -> Tensor:
    """Split positions into chunks along a new axis; the zero padding adds no weight and no decay."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))


def retention(
    q: Features, k: Features, v: Values, log_decay: Float[Tensor, "H"], state: Sums
) -> tuple[Values, Sums]:
    """Return y for S[t] = decay S[t-1] + k[t] v[t]^T, and the last S, one chunk after the other.

    Source: Sun et al. (2023), Retentive Network, eq. 7.
    """
    size = min(v.shape[2], CHUNK_WITH_DECAY)
    at = torch.arange(size, dtype=log_decay.dtype, device=log_decay.device)
    lags = (at[:, None] - at).clamp(min=0)
    pairs = (log_decay[:, None, None] * lags).exp().tril().to(state.dtype)
    since = (log_decay[:, None] * (at + 1)).exp()[..., None].to(state.dtype)
    y = []
    with full_precision(v.device):
        for part in zip(*(x.to(state.dtype).split(size, dim=2) for x in (q, k, v)), strict=True):
            q_part, k_part, v_part = part
            T = v_part.shape[2]
            weights = q_part @ k_part.mT * pairs[:, :T, :T]
            y.append(weights @ v_part + (q_part * since[:, :T]) @ state)
            remaining = k_part * pairs[:, T - 1, :T, None]
            state = since[:, T - 1 : T] * state + remaining.mT @ v_part
    return torch.cat(y, dim=2), state
