"""Operations that layers of transformers call, with the library's arguments, computed by ``mixers.ops``.

They give the numbers of the library's own PyTorch code, without its loops over positions, whose backward pass
takes time quadratic in the length (Mamba, RG-LRU, RWKV-4) or dozens of steps per chunk (Kimi delta
attention). They compute in single precision under autocast and in double precision where the layer does.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from ..ops._exact import full_precision
from ..ops.decayed_attention import decayed_attention
from ..ops.gated_delta_rule import gated_delta_rule
from ..ops.gated_scan import gated_scan

Channels = Float[Tensor, "B D L"]
Heads = Float[Tensor, "B L H E"]
Places = Float[Tensor, "B L D"]
UNIT = 1e-6
"""What is added to the squared length of a query or key before it is divided by its length."""


def selective_scan(
    hidden_states: Channels,
    dt: Channels,
    A: Float[Tensor, "D N"],
    B: Float[Tensor, "B N L"],
    C: Float[Tensor, "B N L"],
    D: Float[Tensor, "D"],
    z: Channels,
    delta_bias: Float[Tensor, "D"],
    delta_softplus: bool,
    return_last_state: bool = False,
    use_mambapy: bool = False,
    use_associative_scan: bool = False,
) -> Channels:
    """Return the state space model of Mamba-1, gated.

    h[t] = exp(dt[t] A) h[t-1] + dt[t] B[t] u[t],  y[t] = (C[t]^T h[t] + D u[t]) SiLU(z[t])
    """
    kind = state_dtype(hidden_states)
    u, dt, B, C, z = (x.mT.to(kind) for x in (hidden_states, dt, B, C, z))
    with full_precision(u.device):
        dt = F.softplus(dt + delta_bias.to(kind))
        h = gated_scan(torch.exp(dt[..., None] * A.to(kind)), (dt * u)[..., None] * B[:, :, None])
        y = (h @ C[..., None])[..., 0] + D.to(kind) * u
    return (y * F.silu(z)).mT


def rnn_scan(
    hidden_states: Places,
    recurrent_gate: Places,
    reset: Bool[Tensor, "B L 1"],
    recurrent_states: None = None,
) -> tuple[Places, None]:
    """Return h[t] = a[t] h[t-1] + u[t] of RG-LRU, with a zero at the start of a sequence; keep no state."""
    kind = state_dtype(hidden_states)
    with full_precision(hidden_states.device):
        h = gated_scan((recurrent_gate * ~reset).to(kind), hidden_states.to(kind))
    return h.to(hidden_states.dtype), None


def rwkv_attention(
    time_decay: Float[Tensor, "D"],
    time_first: Float[Tensor, "D"],
    key: Places,
    value: Places,
    state: None = None,
    return_state: bool = False,
) -> tuple[Places, None]:
    """Return the weighted mean of the values so far, as in RWKV-4.

    At t, s < t has weight exp(k[s] - (t - 1 - s) exp(time_decay)), and t has weight exp(k[t] + time_first).
    Sums are divided by exp(m[t]), where m is the largest exponent so far, so that nothing overflows.
    """
    kind = state_dtype(key)
    k, v = key.to(kind), value.to(kind)
    with full_precision(k.device):
        w = -time_decay.to(kind).exp()
        drift = w * torch.arange(k.shape[1], device=k.device, dtype=kind)[:, None]
        m = ((k - drift).detach().cummax(dim=1).values + drift).detach()
        before = F.pad(m[:, :-1], (0, 0, 1, 0), value=-torch.inf)
        kept, new = torch.exp(before + w - m), torch.exp(k - m)
        over, under = (gated_scan(kept, x) for x in (new * v, new))
        over, under = (F.pad(x[:, :-1], (0, 0, 1, 0)) for x in (over, under))
        now = k + time_first.to(kind)
        highest = torch.maximum(before, now).detach()
        past, here = torch.exp(before - highest), torch.exp(now - highest)
        y = (past * over + here * v) / (past * under + here)
    return y.to(key.dtype), None


def delta_rule(
    query: Heads,
    key: Heads,
    value: Heads,
    g: Tensor,
    beta: Float[Tensor, "B L H"],
    initial_state: None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = True,
    cu_seqlens: None = None,
) -> tuple[Heads, None]:
    """Return the gated delta rule for queries and keys of any length, which become unit vectors.

    Args:
        g: logarithms of the decay, (B, L, H) or (B, L, H, M).
    """
    kind = state_dtype(query)
    q, k = (_unit(x.transpose(1, 2).to(kind)) for x in (query, key))
    v = value.transpose(1, 2).to(kind)
    g = (g if g.ndim == query.ndim else g[..., None]).transpose(1, 2).to(kind)
    beta = beta.transpose(1, 2)[..., None].to(kind)
    state = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1])
    y, _ = gated_delta_rule(q * k.shape[-1] ** -0.5, k, v, g, beta, state)
    return y.transpose(1, 2).to(query.dtype), None


def mlstm(
    query: Float[Tensor, "B H L M"],
    key: Float[Tensor, "B H L M"],
    value: Float[Tensor, "B H L E"],
    igate: Float[Tensor, "B H L"],
    fgate: Float[Tensor, "B H L"],
    c_initial: None = None,
    n_initial: None = None,
    m_initial: None = None,
) -> tuple[Float[Tensor, "B H L E"], None]:
    """Return the recurrence of mLSTM, whose input gate exp(i) the layer keeps below exp(15).

    C[t] = sigmoid(f[t]) C[t-1] + exp(i[t]) k[t] v[t]^T,  n the same with a one for v,
    h[t] = C[t]^T q[t] / max(|n[t]^T q[t]|, 1)
    """
    kind = state_dtype(query)
    q, k, v, i, f = (x.to(kind) for x in (query, key, value, igate, fgate))
    v = F.pad(v, (0, 1), value=1.0)
    state = v.new_zeros(*v.shape[:2], k.shape[-1], v.shape[-1])
    decay = F.logsigmoid(f)[..., None]
    h, _ = decayed_attention(q * k.shape[-1] ** -0.5, k * i.exp()[..., None], v, decay, state)
    return (h[..., :-1] / h[..., -1:].abs().clamp(min=1)).to(query.dtype), None


def state_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of a recurrence over x: at least single precision."""
    return torch.promote_types(x.dtype, torch.float32)


def _unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + UNIT)
