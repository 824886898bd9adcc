"""Long short-term memory (LSTM): a recurrence with input, forget and output gates around a memory cell.

c[t] = f[t] c[t-1] + i[t] tanh(W_c x[t] + U_c h[t-1] + b_c),  h[t] = o[t] tanh(c[t]),  y[t] = W h[t]
i, f, o = sigmoid(W_* x[t] + U_* h[t-1] + b_*)

Source: Hochreiter & Schmidhuber (1997), Long Short-Term Memory, with the forget gate of Gers et al. (2000).
What differs from it: two bias vectors per gate and no peepholes, as in PyTorch; the linear layer W.
"""

from torch import nn

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext, Mixer, State
from .common.cells import Directions, RecurrentCell
from .ops._exact import full_precision


@spec
class LSTM(Mixer):
    """Long short-term memory, one per direction unless causal."""

    states: Count = 128  # size of c and h

    def build(self, context: LayerContext) -> nn.Module:
        """Return the recurrent layer."""
        return Directions(context, lambda: LSTMCell(context.width, self.states))


class LSTMCell(RecurrentCell):
    """One direction of ``LSTM``."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.rnn = nn.LSTM(width, states, batch_first=True)
        self.out = nn.Linear(states, width)
        self.state_shapes = (states,), (states,)

    def forward(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Run the recurrence; return the outputs and the last state."""
        with full_precision(x.device):
            y, (h, c) = self.rnn(x.to(state[0].dtype), (state[0][None], state[1][None]))
        return self.out(y), (h[0], c[0])


mixer = LSTM
