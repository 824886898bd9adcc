"""Mega: gated single-head attention whose queries and keys come from moving averages of the sequence.

M = SiLU(EMA(X) + w X),  Z = SiLU(W_z M),  Q, K = kq Z + mq, kk Z + mk,  V = SiLU(W_v X),
H = SiLU(W_h M + U (SiLU(W_r M) f(Q K^T) V)),  Y = R + sigmoid(W_u M) (H - R),  R the residual path
f = softmax(Q K^T / sqrt(z) + b[t - s]), or laplace or relu2 of Q K^T / n + b[t - s] where n keys are seen,
laplace(a) = (1 + erf((a - sqrt(1/2)) / (sigma sqrt(2)))) / 2,  sigma = 1 / sqrt(4 pi); relu2(a) = max(a, 0)^2

Source: Ma et al. (2023), Mega: Moving Average Equipped Gated Attention, sections 3.2 to 3.4. What differs
from it: bidirectional averages count lag zero once, not in both directions; with rotary positions, queries
and keys are rotated and there is no b, which in the paper is then a product of two rotated learned vectors.
"""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..config import Count, Rate, spec
from ..errors import SpecError
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer, check_length
from .common.attention_heads import angles, rotate
from .common.convolution import MovingAverages
from .ops._exact import full_precision
from .ops.longconv import causal_conv, two_sided_conv

WEIGHTS = 1 << 26
"""Most weights of attention at a time on GPUs; of more, the backward pass works them out again."""

Chunks = Float[Tensor, "B n T z"]
Values = Float[Tensor, "B n T E"]


@spec
class Mega(Mixer):
    """Moving averages, then gated attention over the whole sequence or within chunks."""

    rotates = True
    owns_residual = True
    published = "The LRA number came from averages cut off after 1024 positions (4096 on Path-X)."

    states: Count = 16  # averages per channel and direction
    keys: Count = 64  # z, size of queries and keys
    expand: Count = 2  # size of values as a multiple of the width
    chunk: Count | None = None  # chunk size in positions; None: attention over the whole sequence
    weigh: Literal["softmax", "laplace", "relu2"] = "softmax"  # f
    dropout: Rate = 0.0  # on H; ``Model.dropout`` does not apply inside the layer

    def build(self, context: LayerContext) -> nn.Module:
        """Return the layer, which includes the residual path."""
        if context.rotary and self.keys % 2:
            raise SpecError(f"rotary positions need an even number of keys, not {self.keys}")
        return MegaLayer(context, self)


class MegaLayer(nn.Module):
    """The layer of ``Mega``."""

    theta: Tensor

    def __init__(self, context: LayerContext, settings: Mega) -> None:
        super().__init__()
        D = context.width
        E = settings.expand * context.width
        z = settings.keys
        self.causal = context.causal
        self.chunk = settings.chunk
        self.weigh = settings.weigh
        self.longest = settings.chunk or context.length
        self.averages = MovingAverages(1 if context.causal else 2, D, settings.states)
        self.skip = nn.Parameter(torch.randn(D))  # w
        self.z = nn.Linear(D, z)
        self.v = nn.Linear(D, E)
        self.reset = nn.Linear(D, E)
        self.update = nn.Linear(D, D)
        self.h = nn.Linear(D, D)
        self.out = nn.Linear(E, D, bias=False)
        self.gain = nn.Parameter(0.02 * torch.randn(2, z))  # of queries and of keys
        self.shift = nn.Parameter(torch.zeros(2, z))
        self.near = None if context.rotary else nn.Parameter(0.02 * torch.randn(2 * self.longest - 1))  # b
        if context.rotary:
            self.register_buffer("theta", angles(self.longest, z), persistent=False)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(
        self, x: Vectors, padding_mask: PaddingMask = None, residual: Vectors | None = None
    ) -> Vectors:
        """Return the residual path after the layer; without a given residual path, it is ``x``."""
        residual = x if residual is None else residual
        u = x if padding_mask is None else x * padding_mask[..., None]
        with full_precision(x.device):
            kernels = self.averages.kernel(x.shape[1])
        averages = causal_conv(u, kernels[0]) if self.causal else two_sided_conv(u, *kernels)
        M = F.silu(averages + self.skip * u)
        Z = F.silu(self.z(M))
        Q, K = (self.gain[i] * Z + self.shift[i] for i in range(2))
        mixed = F.silu(self.reset(M)) * self._attend(Q, K, F.silu(self.v(x)), padding_mask)
        H = self.dropout(F.silu(self.h(M) + self.out(mixed)))
        return residual + torch.sigmoid(self.update(M)) * (H - residual)

    def _attend(self, Q: Tensor, K: Tensor, V: Tensor, padding_mask: PaddingMask) -> Tensor:
        """Return f(Q K^T) V within every chunk; on GPUs, some chunks after the other if there are many."""
        L = Q.shape[1]
        size = min(self.chunk or L, L)
        real = padding_mask
        if real is None:
            real = torch.ones(Q.shape[:2], dtype=torch.bool, device=Q.device)
        Q, K, V, real = (
            F.pad(a, (0, 0, 0, -L % size)).unflatten(1, (-1, size)) for a in (Q, K, V, real[..., None])
        )
        Q, K, bias = self._with_positions(Q, K)
        fit = max(1, WEIGHTS // size**2)  # chunks at a time
        if Q.device.type == "cpu" or Q.shape[0] * Q.shape[1] <= fit:
            return self._mix(Q, K, V, real.mT, bias).flatten(1, 2)[:, :L]
        groups = zip(*(a.flatten(0, 1)[:, None].split(fit) for a in (Q, K, V, real.mT)), strict=True)
        again: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
        mixed = torch.cat([checkpoint(self._mix, *group, bias, **again) for group in groups])
        return mixed.view_as(V).flatten(1, 2)[:, :L]

    def _with_positions(self, Q: Chunks, K: Chunks) -> tuple[Chunks, Chunks, Float[Tensor, "T T"] | float]:
        """Return queries and keys, rotated if positions are, and else the bias b[t - s]."""
        T, z = Q.shape[2:]
        if self.near is None:
            if len(self.theta) < T:
                self.theta = angles(T, z).to(Q.device)
            theta = self.theta[:T]
            Q, K = (rotate(a, theta.cos().to(Q), theta.sin().to(Q)) for a in (Q, K))
            return Q, K, 0.0
        check_length(T, self.longest)
        position = torch.arange(T, device=Q.device)
        return Q, K, self.near[position[:, None] - position + self.longest - 1]

    def _mix(
        self, Q: Chunks, K: Chunks, V: Values, real: Bool[Tensor, "B n 1 T"], bias: Tensor | float
    ) -> Values:
        visible = real & real.new_ones(Q.shape[2], Q.shape[2]).tril() if self.causal else real
        return self._weights(Q, K, visible, bias).to(V.dtype) @ V

    def _weights(
        self, Q: Chunks, K: Chunks, visible: Bool[Tensor, "B n _ T"], bias: Tensor | float
    ) -> Float[Tensor, "B n T T"]:
        if self.weigh == "softmax":
            logits = (Q * Q.shape[-1] ** -0.5) @ K.mT + bias
            return logits.masked_fill(~visible, torch.finfo(logits.dtype).min).softmax(-1)
        logits = Q @ K.mT / visible.sum(-1, keepdim=True).clamp(min=1) + bias
        if self.weigh == "relu2":
            return logits.relu().square() * visible
        return 0.5 * (1 + torch.erf((logits - 0.5**0.5) * (2 * math.pi) ** 0.5)) * visible


mixer = Mega
