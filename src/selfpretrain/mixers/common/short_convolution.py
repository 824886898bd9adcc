"""Short causal convolution of every channel with a kernel of its own, in front of recurrences and gates."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...shapes import Vectors


class ShortConvolution(nn.Module):
    """y[t] = bias + sum_j taps[j] x[t - size + 1 + j], initialised as ``nn.Conv1d``.

    Args:
        channels: number of channels.
        size: number of taps; the last one belongs to the position itself.
        bias: whether to add a bias.
    """

    def __init__(self, channels: int, size: int, bias: bool = False) -> None:
        super().__init__()
        self.taps = nn.Parameter(_uniform(size, channels) * size**-0.5)
        self.bias = nn.Parameter(_uniform(channels) * size**-0.5) if bias else None

    def initial_state(self, batch_size: int) -> Float[Tensor, "B _ D"]:
        """Return the inputs before the first position: zeros."""
        size, channels = self.taps.shape
        return self.taps.new_zeros(batch_size, size - 1, channels)

    def forward(self, x: Vectors, before: Float[Tensor, "B _ D"]) -> tuple[Vectors, Float[Tensor, "B _ D"]]:
        """Return the convolution, and the last inputs for the next call."""
        L = x.shape[1]
        inputs = torch.cat([before, x], dim=1)
        y = sum(inputs[:, j : j + L] * tap for j, tap in enumerate(self.taps))
        return y if self.bias is None else y + self.bias, inputs[:, L:]


def _uniform(*shape: int) -> Tensor:
    return 2 * torch.rand(*shape) - 1
