"""Delta rules: linear attention whose state is corrected by what it already returns for a key.

y[t] = S[t]^T q[t], where S[t] depends on S[t-1] by a matrix of rank one, with or without decay

A chunk is computed at once. What its positions write depends on what earlier ones wrote, by a triangular
system (WY form), whose solution is linear in the state before the chunk: only this state is passed on.

Source: Yang et al. (2024), Parallelizing Linear Transformers with the Delta Rule over Sequence Length,
section 3.2.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ._exact import full_precision

CHUNK = 32
"""Chunk size in positions. With decay, exp(32) and its inverse must be far from the limits of fp32."""

Features = Float[Tensor, "B H L M"]
Values = Float[Tensor, "B H L E"]
Sums = Float[Tensor, "B H M E"]


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
        q, k, v, beta = (_chunks(x.to(state.dtype), size) for x in (q, k, v, beta))
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
        q, k, v, a, b, g = (_chunks(x.to(state.dtype), size) for x in (q, k, v, a, b, g))
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


def _chunks(x: Tensor, size: int) -> Tensor:
    """Split positions into chunks along a new axis; zeros at the end write nothing and do not decay."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))
