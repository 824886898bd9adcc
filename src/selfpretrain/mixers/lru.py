"""Linear recurrent unit (LRU): damped oscillations that all channels drive and read.

z[t] = exp(rate) z[t-1] + exp(log_gain) B x[t],  y[t] = GLU(W GELU(Re C z[t] + D x[t])),
rate = -exp(log_decay) + i exp(log_frequency)

Source: Orvieto et al. (2023), Resurrecting Recurrent Neural Networks for Long Sequences, section 3. What
differs from it: nothing in the recurrence; bidirectional layers add the outputs of a second, backward one.
"""

import math
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from ..config import Count, Positive, Rate, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell
from .ops.modes import as_modes, as_real, modal_scan


@spec
class LRU(Mixer):
    """Linear recurrent unit, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.log_decay", "*.log_frequency", "*.log_gain"), 1e-3)

    states: Count = 64  # N complex states per direction
    smallest: Rate = 0.9  # inner radius of the ring where exp(rate) is initialised, uniformly by area
    largest: Annotated[Rate, Field(gt=0)] = 0.999
    turn: Positive = 2 * math.pi  # largest initial angle of exp(rate)

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        return Directions(context, lambda: LRUCell(context.width, self))


class LRUCell(RecurrentCell):
    """One direction of ``LRU``."""

    def __init__(self, width: int, settings: LRU) -> None:
        super().__init__()
        N = settings.states
        low = settings.smallest**2
        high = settings.largest**2
        decay = -0.5 * torch.log(low + (high - low) * (1 - torch.rand(N)))
        self.log_decay = nn.Parameter(decay.log())
        self.log_frequency = nn.Parameter(torch.log(settings.turn * (1 - torch.rand(N))))
        self.log_gain = nn.Parameter(0.5 * torch.log(-torch.expm1(-2 * decay)))
        self.B = nn.Parameter(torch.randn(N, 2, width) * (0.5 / width) ** 0.5)
        self.C = nn.Parameter(torch.randn(width, N, 2) * (1 / N) ** 0.5)
        self.D = nn.Parameter(torch.randn(width))
        self.out = nn.Linear(width, 2 * width)
        self.state_shapes = ((2 * N,),)  # real and imaginary parts next to each other

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Compute all positions at once; return the outputs and the last state."""
        rate = torch.complex(-self.log_decay.double().exp(), self.log_frequency.double().exp())
        u = F.linear(x, (self.log_gain.exp()[:, None, None] * self.B).flatten(0, 1)).to(self.B.dtype)
        z, last = modal_scan(as_modes(u, rate), rate, as_modes(state[0], rate))
        C = torch.stack([self.C[..., 0], -self.C[..., 1]], dim=-1)
        y = F.linear(as_real(z), C.flatten(1)) + self.D * x
        return F.glu(self.out(F.gelu(y)), dim=-1), (as_real(last),)


mixer = LRU
