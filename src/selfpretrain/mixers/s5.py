"""Simplified state space layer (S5): one diagonal system for all channels, initialised with HiPPO-LegS.

x'(t) = A x(t) + B u(t),  y(t) = 2 Re C x(t) + D u(t),  A = diag(-exp(log_decay) + i frequency), held over
a step dt per state:  x[t] = exp(dt A) x[t-1] + (exp(dt A) - 1)/A B u[t],  out = GELU(y) sigmoid(W GELU(y))

Source: Smith et al. (2023), Simplified State Space Layers for Sequence Modeling, section 3 and appendix B,
with C of variance 1/N. What differs from it: the real part of A is negative for any parameters; bidirectional
layers add the outputs of a second, backward recurrence with parameters of its own.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Complex
from torch import Tensor, nn

from ..config import Count, Even, Positive, added, spec
from ..errors import SpecError
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell
from .common.convolution import log_uniform
from .ops.modes import as_modes, as_real, modal_scan
from .ops.state_matrices import legs_modes, zoh_modes


@spec
class S5(Mixer):
    """Simplified state space layer, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.log_dt", "*.log_decay", "*.frequency", "*.B"), 1e-3)

    states: Even = 64  # N: N/2 conjugate pairs per direction
    blocks: Count = 1  # number of HiPPO matrices along the diagonal of the initial A
    shortest: Positive = 1e-3  # smallest initial step dt; 1/dt is a time constant in positions
    longest: Positive = 1e-1  # largest initial step dt
    damping: Positive = added(0.5)  # initial -Re A

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        if self.states % (2 * self.blocks):
            raise SpecError(
                f"s5 halves blocks, so states={self.states} must be divisible by {2 * self.blocks}"
            )
        return Directions(context, lambda: S5Cell(context.width, self))


class S5Cell(RecurrentCell):
    """One direction of ``S5``."""

    def __init__(self, width: int, settings: S5) -> None:
        super().__init__()
        N = settings.states
        blocks = settings.blocks
        frequency, V = legs_modes(N // blocks)
        V = torch.block_diag(*[V] * blocks).to(torch.complex64)  # (N, N/2)
        self.log_decay = nn.Parameter(torch.full((N // 2,), settings.damping).log())
        self.frequency = nn.Parameter(frequency.float().repeat(blocks))
        self.log_dt = nn.Parameter(log_uniform(N // 2, settings.shortest, settings.longest))
        B = torch.randn(N, width).to(V)
        C = torch.view_as_complex(torch.randn(width, N, 2))
        self.B = nn.Parameter(torch.view_as_real(V.mH @ B * N**-0.5))
        self.C = nn.Parameter(torch.view_as_real(C @ V * N**-0.5))
        self.D = nn.Parameter(torch.randn(width))
        self.gate = nn.Linear(width, width)
        self.state_shapes = ((N,),)  # real and imaginary parts next to each other

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Compute all positions at once; return the outputs and the last state."""
        (before,) = state
        rate, held = self._discrete()
        B = torch.view_as_complex(self.B) * held.to(torch.view_as_complex(self.B))[:, None]
        u = F.linear(x, torch.view_as_real(B).mT.flatten(0, 1)).to(before.dtype)
        z, last = modal_scan(as_modes(u, rate), rate, as_modes(before, rate))
        C = torch.stack([self.C[..., 0], -self.C[..., 1]], dim=-1)
        y = F.gelu(2 * F.linear(as_real(z), C.flatten(1)) + self.D * x)
        return y * torch.sigmoid(self.gate(y)), (as_real(last),)

    def _discrete(self) -> tuple[Complex[Tensor, "N"], Complex[Tensor, "N"]]:
        """Return log of exp(dt A), and (exp(dt A) - 1)/A, in double precision."""
        A = torch.stack([-self.log_decay.double().exp(), self.frequency.double()], dim=-1)
        rate, held = zoh_modes(A[:, None], self.log_dt.double().exp())
        return torch.view_as_complex(rate)[:, 0], torch.view_as_complex(held)[:, 0]


mixer = S5
