"""Orthogonal recurrent network (ExpRNN): a recurrence whose matrix preserves the norm of its state.

h[t] = modrelu(R h[t-1] + W_x x[t]),  R = exp(A - A^T),  modrelu(z) = sign(z) max(|z| + b, 0),  y[t] = W h[t]

Source: Lezcano-Casado & Martinez-Rubio (2019), Cheap Orthogonal Constraints in Neural Networks; A is
initialised as by Henaff et al. (2016). What differs from it: only the upper triangle of A is used; the linear
layer W.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell, scan
from .ops._exact import full_precision


@spec
class ExpRNN(Mixer):
    """Orthogonal recurrent network, one per direction unless causal; slow, as it is sequential in time."""

    slow_parameters: ClassVar = {"*.A": 1e-4}
    published = (
        "The speech commands number came from code that moves the point around which R is parametrised "
        "every 100 steps."
    )

    states: Count = 128  # size of h

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        return Directions(context, lambda: ExpCell(context.width, self.states))


class ExpCell(RecurrentCell):
    """One direction of ``ExpRNN``."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, states, bias=False)
        A = torch.zeros(states, states)
        turns = A.diagonal(1)[::2]  # one initial rotation angle per pair of states 2i, 2i + 1
        turns.uniform_(-math.pi, math.pi)
        self.A = nn.Parameter(A)
        self.bias = nn.Parameter(torch.empty(states).uniform_(-0.01, 0.01))  # b
        self.out = nn.Linear(states, width)
        self.state_shapes = ((states,),)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence; return the outputs and the last state."""
        u = self.enter(x)
        (h,) = state
        with full_precision(x.device):
            upper = self.A.triu(1)
            turn = torch.matrix_exp(upper.T - upper)  # R transposed, as states are rows

            def step(u_t: Tensor, h: Tensor) -> Tensor:
                z = torch.addmm(u_t, h, turn)
                return z.sign() * torch.relu(z.abs() + self.bias)

            states, h = scan(step, u.to(h.dtype), h)
        return self.out(states), (h,)


mixer = ExpRNN
