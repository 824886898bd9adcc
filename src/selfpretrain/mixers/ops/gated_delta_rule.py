"""Gated delta rule: linear attention with decay that overwrites the value of a key instead of adding to it.

y[t] = S[t]^T q[t],  S[t] = R[t] + beta[t] k[t] (v[t] - R[t]^T k[t])^T,  R[t] = diag(exp g[t]) S[t-1]

The changes of a chunk depend on each other by a triangular system of equations, which is solved at once; only
S is passed on to the next chunk. Exponents are sums between two positions, never above zero.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ._exact import full_precision
from .decayed_attention import CHUNK, CHUNK_PER_FEATURE, Features, Sums, _chunks, _decay, _weights


def gated_delta_rule(
    q: Features,
    k: Features,
    v: Float[Tensor, "B H L E"],
    g: Float[Tensor, "B H L _"],
    beta: Float[Tensor, "B H L 1"],
    state: Sums,
) -> tuple[Float[Tensor, "B H L E"], Sums]:
    """Return y of the formula above, and S after the last position.

    Source: Yang et al. (2025), Gated Delta Networks, arXiv:2412.06464, section 3.3; with a factor per
    feature, Kimi Team (2025), Kimi Linear, arXiv:2510.26692, section 3.

    Args:
        k: keys of length one.
        g: logarithms of the decay, at most zero: M per head, or one.
        beta: share of the old value that is overwritten; above one, it is turned around.
        state: S before the first position.
    """
    L = v.shape[2]
    size = min(L, CHUNK if g.shape[-1] == 1 else CHUNK_PER_FEATURE)
    with full_precision(v.device):
        q, k, v, g, beta = (_chunks(x.to(state.dtype), size) for x in (q, k, v, g, beta))
        decay = _decay(g)
        start = g.cumsum(3).exp()
        system = _weights(beta * k, k, decay)
        right = torch.cat([beta * v, beta * k * start], dim=-1)
        solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
        new, read = solved.split([v.shape[-1], k.shape[-1]], dim=-1)
        ends = (k * decay[:, :, :, -1]).mT
        changes = []
        before = []
        for i in range(v.shape[2]):
            change = new[:, :, i] - read[:, :, i] @ state
            before.append(state)
            changes.append(change)
            state = start[:, :, i, -1:].mT * state + ends[:, :, i] @ change
        y = _weights(q, k, decay) @ torch.stack(changes, dim=2) + (q * start) @ torch.stack(before, dim=2)
    return y.flatten(2, 3)[:, :, :L], state
