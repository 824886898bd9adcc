"""Gated recurrent unit (GRU): a recurrence whose gate interpolates between the state and a candidate.

h[t] = (1 - z[t]) n[t] + z[t] h[t-1],  n[t] = tanh(W_n x[t] + b_n + r[t] (U_n h[t-1] + c_n)),  y[t] = W h[t]
r, z = sigmoid(W_* x[t] + U_* h[t-1] + b_*)

Source: Cho et al. (2014), Learning Phrase Representations using RNN Encoder-Decoder. What differs from it:
the reset gate r multiplies after U_n, and z and 1 - z are swapped, as in PyTorch; the linear layer W.
"""

from torch import nn

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell
from .ops._exact import full_precision


@spec
class GRU(Mixer):
    """Gated recurrent unit, one per direction unless causal."""

    states: Count = 128  # size of h

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        return Directions(context, lambda: GRUCell(context.width, self.states))


class GRUCell(RecurrentCell):
    """One direction of ``GRU``."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(width, states, batch_first=True)
        self.out = nn.Linear(states, width)
        self.state_shapes = ((states,),)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence; return the outputs and the last state."""
        with full_precision(x.device):
            y, h = self.rnn(x.to(state[0].dtype), state[0][None])
        return self.out(y), (h[0],)


mixer = GRU
