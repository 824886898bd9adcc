"""Scalar LSTM (sLSTM): an LSTM with exponential input gates, a normaliser, and heads that mix their features.

c[t] = f c[t-1] + i tanh(z),  n[t] = f n[t-1] + i,  h[t] = sigmoid(o) c[t] / n[t],  y[t] = GroupNorm(h[t]),
i = exp(W_i u + R_i h[t-1] + b_i),  f = sigmoid(W_f u + R_f h[t-1] + b_f),  z, o = W_* x + R_* h[t-1] + b_*,
u = SiLU(conv(x)),  W_* and R_* within a head; c and n are kept divided by a factor, so that none overflows

Source: Beck et al. (2024), xLSTM, section 2.2 and its code, with the initialisation of a first block: R = 0,
b_f falls from 5 to -7 within a head. What differs from it: bidirectional layers add the outputs of a second,
backward recurrence.
"""

import functools

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from ..errors import SpecError
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.attention_heads import head_size
from .common.cells import Directions, RecurrentCell, scan
from .common.convolution import ShortConvolution
from .ops._exact import full_precision


@spec
class SLSTM(Mixer):
    """Scalar LSTM, one per direction unless causal; slow, as it is sequential in time."""

    heads: Count = 4
    taps: Count = 4  # kernel size of the convolution

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        if head_size(context, self.heads) == 1:
            said = f"slstm normalises within heads, so that each of the {self.heads} must have 2 features"
            raise SpecError(f"{said}, not 1; use fewer heads than the width of {context.width}")
        return Directions(context, lambda: SLSTMCell(context.width, self))


class SLSTMCell(RecurrentCell):
    """One direction of ``SLSTM``; gates are in the order i, f, z, o."""

    def __init__(self, width: int, settings: SLSTM) -> None:
        super().__init__()
        H = settings.heads
        size = width // H
        self.near = ShortConvolution(width, settings.taps, bias=True)
        self.W = nn.Parameter(torch.randn(4, H, size, size) * (0.4 / width) ** 0.5)  # from columns to rows
        self.R = nn.Parameter(torch.zeros(4, H, size, size))
        self.bias = nn.Parameter(torch.zeros(4, H, size))
        with torch.no_grad():
            self.bias[1] = 5 - 12 * torch.linspace(0, 1, size) ** 0.3
        self.norm = nn.GroupNorm(H, width, eps=1e-5, affine=False)
        self.gain = nn.Parameter(torch.ones(width))

    def initial_state(self, batch_size: int) -> State:
        """Return the last inputs of the convolution, h, c and n of zero, and their factor's logarithm."""
        zeros = self.gain.new_zeros(batch_size, len(self.gain))
        return self.near.initial_state(batch_size), zeros, zeros, zeros, torch.full_like(zeros, -torch.inf)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence; return the outputs and the last state."""
        before, *carried = state
        near, recent = self.near(x, before)
        H = self.R.shape[1]
        kind = carried[0].dtype
        with full_precision(x.device):
            near, x = (part.to(kind).unflatten(-1, (H, -1)) for part in (F.silu(near), x))
            inputs = torch.stack([near, near, x, x])  # (4, B, L, H, size)
            gates = torch.einsum("gblhe,ghde->hlbgd", inputs, self.W)
            gates = (gates + self.bias.transpose(0, 1)[:, None, None]).flatten(2)
            # Heads come first, so that a step is one product per head without a copy.
            by_head = [part.unflatten(-1, (H, -1)).transpose(0, 1).flatten(1) for part in carried]
            packed = torch.cat(by_head, -1)
            R = self.R.permute(1, 3, 0, 2).flatten(2)
            states, packed = scan(functools.partial(_step, R), gates, packed)
            hidden, _, _, _ = states.unflatten(-1, (4, len(x), -1)).unbind(2)  # (H, L, B, size)
            y = hidden.permute(2, 1, 0, 3).flatten(2)
        last = [part.transpose(0, 1).flatten(1) for part in packed.unflatten(-1, (4, len(x), -1)).unbind(1)]
        return self.norm(y.flatten(0, 1)).view_as(y) * self.gain, (recent, *last)


def _step(
    R: Float[Tensor, "H E M"], now: Float[Tensor, "H D"], packed: Float[Tensor, "H D"]
) -> Float[Tensor, "H D"]:
    """Return h, c, n and the logarithm of the factor of c and n after a position, per head."""
    h, c, n, m = packed.unflatten(-1, (4, -1, R.shape[1])).unbind(1)
    i, f, z, o = torch.baddbmm(now.unflatten(-1, (-1, R.shape[2])), h, R).chunk(4, dim=-1)
    f = F.logsigmoid(f) + m
    # h does not depend on the factor, so no gradient passes through it.
    m = torch.maximum(i, f).detach()
    i = torch.exp(i - m)
    f = torch.exp(f - m)
    c = f * c + i * torch.tanh(z)
    n = f * n + i
    return torch.stack([torch.sigmoid(o) * c / n, c, n, m], dim=1).flatten(1)


mixer = SLSTM
