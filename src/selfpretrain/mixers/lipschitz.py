"""Lipschitz recurrent network: a stable differential equation, solved by small explicit Euler steps.

h[t] = h[t-1] + step (A h[t-1] + tanh(V h[t-1] + U x[t] + b)),  y[t] = W h[t]
A, V = (1 - skew) (M + M^T) + skew (M - M^T) - damping I, each with its own M

Source: Erichson et al. (2021), Lipschitz Recurrent Neural Networks. What differs from it: A and V share
``skew`` and ``damping``, as in the code behind the number on Speech Commands in Gu et al. (2022), Table 5; a
linear layer W is added.
"""

import torch
from torch import Tensor, nn

from ..config import Count, Positive, Share, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell, scan
from .ops._exact import full_precision


@spec
class Lipschitz(Mixer):
    """Lipschitz recurrent network, one per direction unless causal; slow, as it is sequential in time."""

    states: Count = 128  # size of h
    skew: Share = 0.75
    damping: Positive = 0.001
    step: Positive = 0.03

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        return Directions(context, lambda: LipschitzCell(context.width, self))


class LipschitzCell(RecurrentCell):
    """One direction of ``Lipschitz``."""

    def __init__(self, width: int, settings: Lipschitz) -> None:
        super().__init__()
        N = settings.states
        self.settings = settings
        self.enter = nn.Linear(width, N)
        self.out = nn.Linear(N, width)
        self.A, self.V = (nn.Parameter(torch.randn(N, N) / N) for _ in range(2))  # M of each
        self.state_shapes = ((N,),)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence; return the outputs and the last state."""
        u = self.enter(x)
        (h,) = state
        size = self.settings.step
        with full_precision(x.device):
            eye = torch.eye(len(self.A), dtype=h.dtype, device=x.device)
            keep = eye + size * self._stable_matrix(self.A).T
            feed = self._stable_matrix(self.V).T

            def step(u_t: Tensor, h: Tensor) -> Tensor:
                return torch.addmm(torch.addmm(u_t, h, feed).tanh(), h, keep, beta=size)

            states, h = scan(step, u.to(h.dtype), h)
        return self.out(states), (h,)

    def _stable_matrix(self, M: Tensor) -> Tensor:
        skew = self.settings.skew
        damping = self.settings.damping
        return M + (1 - 2 * skew) * M.T - damping * torch.eye(len(M), dtype=M.dtype, device=M.device)


mixer = Lipschitz
