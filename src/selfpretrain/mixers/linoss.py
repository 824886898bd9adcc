"""Linear oscillators (LinOSS): forced harmonic oscillators that all channels drive and read.

z' = -A x + B u,  x' = z,  y = GLU(W GELU(Re C x + D u)),  A >= 0 per oscillator; in steps of dt < 1,
im:    (1 + dt^2 A) x[t] = 2 x[t-1] - x[t-2] + dt^2 B u[t], which damps
imex:  x[t] = (2 - dt^2 A) x[t-1] - x[t-2] + dt^2 B u[t], which keeps energy

A that training moves to 0 or below stays there, and its oscillator adds up what it sees, twice. Rounding
errors of the FFT, relative to the largest value, then reach all positions: beyond some thousand of these,
earlier outputs depend on later inputs, also in a causal layer.

Source: Rusch & Rus (2025), Oscillatory State-Space Models, section 2, with z[t] = (x[t] - x[t-1]) / dt left
out. What differs from it: dt^2 A is at least 1e-8 and, with imex, at most 3.99, above which x grows;
bidirectional layers add the outputs of a second, backward recurrence.
"""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell
from .ops._exact import full_precision
from .ops.longconv import causal_conv
from .ops.modes import modal_kernel


@spec
class LinOSS(Mixer):
    """Linear oscillators, one set per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.stiffness", "*.step"), 1e-3)

    states: Count = 64  # N oscillators per direction
    rule: Literal["im", "imex"] = "im"

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        return Directions(context, lambda: LinOSSCell(context.width, self))


class LinOSSCell(RecurrentCell):
    """One direction of ``LinOSS``."""

    def __init__(self, width: int, settings: LinOSS) -> None:
        super().__init__()
        N = settings.states
        self.rule = settings.rule
        self.stiffness = nn.Parameter(torch.rand(N))  # A = max(stiffness, 0)
        self.step = nn.Parameter(torch.rand(N))  # dt = sigmoid(step)
        self.B = nn.Parameter((2 * torch.rand(N, 2, width) - 1) * width**-0.5)
        self.C = nn.Parameter((2 * torch.rand(width, N, 2) - 1) * N**-0.5)
        self.D = nn.Parameter(torch.randn(width))
        self.out = nn.Linear(width, 2 * width)
        # x at the last two positions, real and imaginary parts next to each other.
        self.state_shapes = ((2, 2 * N),)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Compute all positions at once; return the outputs and the last state."""
        (before,) = state
        L = x.shape[1]
        kind = before.dtype
        with full_precision(x.device):
            kernel, first, second, scale = (
                part.repeat_interleave(2, 0).to(kind) for part in self._discrete(L)
            )
            u = scale * F.linear(x.to(kind), self.B.flatten(0, 1))
            # The last two positions go on as an input at the next two.
            older, newer = before.unbind(1)
            rest = torch.stack([first * newer + second * older, second * newer], dim=1)[:, :L]
            h = causal_conv(u + F.pad(rest, (0, 0, 0, L - rest.shape[1])), kernel)
        C = torch.stack([self.C[..., 0], -self.C[..., 1]], dim=-1)
        y = F.linear(h, C.flatten(1)) + self.D * x
        return F.glu(self.out(F.gelu(y)), dim=-1), (torch.cat([before, h], dim=1)[:, -2:],)

    def _discrete(self, length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return kernel, first, second and scale of x[t] = first x[t-1] + second x[t-2] + scale B u[t].

        With roots r exp(+-i p) of the recurrence, the kernel is r^l sin((l + 1) p) / sin(p).
        """
        dt2 = torch.sigmoid(self.step.double()).square()
        turn = (dt2 * self.stiffness.double()).clamp(1e-8, None if self.rule == "im" else 3.99)  # dt^2 A
        if self.rule == "im":
            second = -1 / (1 + turn)
            first = -2 * second
            scale = -second * dt2
            angle = torch.atan(turn.sqrt())
        else:
            second = -torch.ones_like(turn)
            first = 2 - turn
            scale = dt2
            angle = 2 * torch.asin(turn.sqrt() / 2)
        rate = torch.complex(0.5 * torch.log(-second), angle)
        weight = torch.complex(torch.ones_like(angle), -1 / torch.tan(angle))
        like = torch.promote_types(self.step.dtype, torch.complex64)
        kernel = modal_kernel(weight.to(like)[None, :, None], rate[:, None], length)[0]
        return kernel, first, second, scale


mixer = LinOSS
