"""Retention: linear attention whose state decays by one fixed factor per head.

y[t] = q[t]^T S[t],  S[t] = decay S[t-1] + k[t] v[t]^T
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ._exact import full_precision

CHUNK = 64

Features = Float[Tensor, "B H L M"]
Values = Float[Tensor, "B H L E"]
Sums = Float[Tensor, "B H M E"]


def retention(
    q: Features, k: Features, v: Values, log_decay: Float[Tensor, "H"], state: Sums
) -> tuple[Values, Sums]:
    """Return y of the formula above, and the sums S after the last position, one chunk after the other.

    Source: Sun et al. (2023), Retentive Network, eq. 7.

    Args:
        log_decay: logarithms of the factors, in double precision.
        state: sums before the first position.
    """
    size = min(v.shape[2], CHUNK)
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
