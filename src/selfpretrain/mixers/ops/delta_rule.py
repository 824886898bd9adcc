"""Delta rules: linear attention whose state is corrected by what it already returns for a key.

y[t] = S[t]^T q[t], where S[t] depends on S[t-1] by a matrix of rank one, with or without decay

A chunk is computed at once. What its positions write depends on what earlier ones wrote, by a triangular
system (WY form), whose solution is linear in the state before the chunk: only this state is passed on. In the
gated rule, exponents are sums between two positions, never above zero.

Source: Yang et al. (2024), Parallelizing Linear Transformers with the Delta Rule over Sequence Length,
section 3.2.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ._exact import full_precision
from .linear_attention import (
    CHUNK_PER_FEATURE,
    CHUNK_WITH_DECAY,
    KeyFeatures,
    Sums,
    decay_between,
    decayed_weights,
    in_chunks,
)

CHUNK = 32
"""Chunk size in positions. With decay, exp(32) and its inverse must be far from the limits of fp32."""

Features = Float[Tensor, "B H L M"]
Values = Float[Tensor, "B H L E"]


def unit(x: Tensor) -> Tensor:
    """Return vectors of norm one, or less for those near zero."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def delta_rule(
    q: Features, k: Features, v: Values, beta: Float[Tensor, "B H L 1"], state: Sums
) -> tuple[Values, Sums]:
    """Return y for S[t] = S[t-1] + beta[t] k[t] (v[t] - S[t-1]^T k[t])^T, and the last S.

    Args:
        k: keys, of norm one at most.
        beta: share by which the value of a key is replaced, from 0 to 1.
        state: S before the first position.
    """
    L = v.shape[2]
    size = min(L, CHUNK)
    with full_precision(v.device):
        q, k, v, beta = (in_chunks(x.to(state.dtype), size) for x in (q, k, v, beta))
        writes = beta * k
        values, reads = _solve((k @ writes.mT).tril(-1), v, -k)
        before, state = _carry(writes.mT @ reads, writes.mT @ values, state)
        weights = (q @ writes.mT).tril()
        y = weights @ values + (q + weights @ reads) @ before
    return y.flatten(2, 3)[:, :, :L], state


def decayed_delta_rule(
    q: Features, k: Features, v: Values, a: Features, b: Features, g: Features, state: Sums
) -> tuple[Values, Sums]:
    """Return y for S[t] = diag(exp g[t]) S[t-1] + b[t] (S[t-1]^T a[t])^T + k[t] v[t]^T, and the last S.

    Within a chunk, exp(-g[1] - ... - g[t]) S[t] follows the same recurrence without decay.

    Source: Peng et al. (2025), RWKV-7 Goose, section 4; in chunks as the rule above.

    Args:
        g: logarithms of the factors, from -1 to 0.
        state: S before the first position.
    """
    L = v.shape[2]
    size = min(L, CHUNK)
    with full_precision(v.device):
        q, k, v, a, b, g = (in_chunks(x.to(state.dtype), size) for x in (q, k, v, a, b, g))
        total = g.cumsum(3)
        q = q * total.exp()
        a = a * (total - g).exp()
        k = k * (-total).exp()
        b = b * (-total).exp()
        values, reads = _solve(-(a @ b.mT).tril(-1), (a @ k.mT).tril(-1) @ v, a)
        kept = total[:, :, :, -1:].exp().mT
        before, state = _carry(b.mT @ reads, b.mT @ values + k.mT @ v, state, kept)
        weights = (q @ b.mT).tril()
        y = weights @ values + (q @ k.mT).tril() @ v + (q + weights @ reads) @ before
    return y.flatten(2, 3)[:, :, :L], state


def _solve(
    lower: Float[Tensor, "B H n T T"], v: Float[Tensor, "B H n T E"], k: Float[Tensor, "B H n T M"]
) -> tuple[Float[Tensor, "B H n T E"], Float[Tensor, "B H n T M"]]:
    """Return (I + lower)^-1 v and (I + lower)^-1 k."""
    both = torch.linalg.solve_triangular(lower, torch.cat([v, k], dim=-1), upper=False, unitriangular=True)
    values, reads = both.split([v.shape[-1], k.shape[-1]], dim=-1)
    return values, reads


def _carry(
    change: Float[Tensor, "B H n M M"],
    added: Float[Tensor, "B H n M E"],
    state: Sums,
    kept: Float[Tensor, "B H n M 1"] | None = None,
) -> tuple[Float[Tensor, "B H n M E"], Sums]:
    """Return the states before every chunk and after the last: S <- kept (S + change S + added)."""
    change = change + torch.eye(change.shape[-1], dtype=change.dtype, device=change.device)
    if kept is not None:
        change = kept * change
        added = kept * added
    before = []
    for matrix, more in zip(change.unbind(2), added.unbind(2), strict=True):
        before.append(state)
        state = matrix @ state + more
    return torch.stack(before, dim=2), state


def gated_delta_rule(
    q: KeyFeatures,
    k: KeyFeatures,
    v: Float[Tensor, "B H L E"],
    g: Float[Tensor, "B H L _"],
    beta: Float[Tensor, "B H L 1"],
    state: Sums,
) -> tuple[Float[Tensor, "B H L E"], Sums]:
    """Return y for S[t] = R[t] + beta[t] k[t] (v[t] - R[t]^T k[t])^T, and the last S.

    R[t] = diag(exp g[t]) S[t-1] is the state after decay.

    Source: Yang et al. (2025), Gated Delta Networks, arXiv:2412.06464, section 3.3; with a factor per
    feature, Kimi Team (2025), Kimi Linear, arXiv:2510.26692, section 3.

    Args:
        k: keys of length one.
        g: logarithms of the decay, at most zero: M per head, or one.
        beta: share of the old value that is overwritten; above one, it is turned around.
        state: S before the first position.
    """
    L = v.shape[2]
    size = min(L, CHUNK_WITH_DECAY if g.shape[-1] == 1 else CHUNK_PER_FEATURE)
    with full_precision(v.device):
        q, k, v, g, beta = (in_chunks(x.to(state.dtype), size) for x in (q, k, v, g, beta))
        decay = decay_between(g)
        start = g.cumsum(3).exp()
        system = decayed_weights(beta * k, k, decay)
        new, read = _solve(system, beta * v, beta * k * start)
        ends = (k * decay[:, :, :, -1]).mT
        changes = []
        before = []
        for i in range(v.shape[2]):
            change = new[:, :, i] - read[:, :, i] @ state
            before.append(state)
            changes.append(change)
            state = start[:, :, i, -1:].mT * state + ends[:, :, i] @ change
        added = torch.stack(changes, dim=2)
        states = torch.stack(before, dim=2)
        y = decayed_weights(q, k, decay) @ added + (q * start) @ states
    return y.flatten(2, 3)[:, :, :L], state
