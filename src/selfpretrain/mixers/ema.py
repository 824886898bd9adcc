"""Damped exponential moving averages (EMA): every channel is a weighted sum of several, fast and slow.

x[t] = q x[t-1] + p b u[t],  y[t] = sum_n g_n x_n[t] / sqrt(N) + D u[t],
p = sigmoid(d),  q = 1 - p sigmoid(a):  K[l] = sum_n p b g / sqrt(N) q^l

Source: Ma et al. (2023), Mega: Moving Average Equipped Gated Attention, eq. 2 to 4, here without the
attention, and bidirectional layers count lag zero once, not in both directions.
"""

from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, MovingAverages


@spec
class EMA(Mixer):
    """Damped exponential moving averages, bidirectional unless causal."""

    states: Count = 16  # N averages per channel and direction

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        return EMALayer(context, self)


class EMALayer(Convolution):
    """The layer of ``EMA``."""

    def __init__(self, context: LayerContext, settings: EMA) -> None:
        super().__init__(context)
        self.averages = MovingAverages(self.directions, context.width, settings.states)

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of the module docstring."""
        return MovingAverages.kernels([layer.averages for layer in layers], length)


mixer = EMA
