"""Convolutions: the layer around one or two long kernels, moving averages as kernels, and short convolutions.

A convolutional mixer extends ``Convolution``:

y = kernel * u + D u,  out = GLU(W dropout(GELU(y))),  with padded positions of u set to zero.

The kernel reaches into the past; bidirectional layers have a second one, into the future from lag one on.
Source: Gu et al. (2022), S4, and the bidirectional layer of Amos et al. (2024).
"""

import abc
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ...shapes import PaddingMask, Vectors
from ..base import KernelLayer, LayerContext, Layers
from ..ops._exact import full_precision
from ..ops.longconv import causal_conv, two_sided_conv
from ..ops.modes import modal_kernel


class Convolution(KernelLayer):
    """A convolutional layer with one or two long kernels per channel, computed by the subclass."""

    def __init__(self, context: LayerContext, dropout: float = 0.0) -> None:
        super().__init__()
        H = context.width
        self.dropout = nn.Dropout(dropout)
        self.causal = context.causal
        self.directions = 1 if context.causal else 2
        self.D = nn.Parameter(torch.randn(H))
        self.out = nn.Linear(H, 2 * H)

    @staticmethod
    @abc.abstractmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return the kernels of n layers for lags below ``length``; a shorter length gives a prefix."""

    @staticmethod
    def kernels(layers: Layers, length: int) -> Sequence[Float[Tensor, "c H L"]]:
        """Return the kernels of each layer, in fp32 or better."""
        with full_precision(layers[0].D.device):
            return layers[0].make_kernels(layers, length).unbind(0)

    def kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """Return a kernel for the past and, unless causal, one for the future, in fp32 or better."""
        return self.kernels([self], length)[0]

    def forward(
        self, x: Vectors, padding_mask: PaddingMask = None, kernel: Float[Tensor, "c H L"] | None = None
    ) -> Vectors:
        """Convolve the real positions of every sequence, then gate."""
        u = x if padding_mask is None else x * padding_mask[..., None]
        K = self.kernel(x.shape[1]) if kernel is None else kernel
        # Adding D to lag zero of the kernel makes D u free.
        past = torch.cat([K[0, :, :1] + self.D[:, None], K[0, :, 1:]], dim=-1)
        return self.gate(causal_conv(u, past) if self.causal else two_sided_conv(u, past, K[1]))

    def gate(self, y: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Return GLU(W dropout(GELU(y))) at every position."""
        return F.glu(self.out(self.dropout(F.gelu(y))), dim=-1)


def joined(layers: Layers, name: str, axis: int = 0) -> Tensor:
    """Return the weights of this name of several layers, one after the other along an axis."""
    weights = [layer.get_parameter(name) for layer in layers]
    return weights[0] if len(weights) == 1 else torch.cat(weights, axis)


def by_layer(kernel: Float[Tensor, "c nH L"], layers: Layers) -> Float[Tensor, "n c H L"]:
    """Return the kernels of each of n layers, given those of the channels of all in turn."""
    return kernel.unflatten(1, (len(layers), -1)).transpose(0, 1)


def log_uniform(count: int, low: float, high: float) -> Float[Tensor, "n"]:
    """Return random numbers, uniform between log(low) and log(high)."""
    return math.log(low) + (math.log(high) - math.log(low)) * torch.rand(count)


class ShortConvolution(nn.Module):
    """y[t] = bias + sum_j taps[j] x[t - size + 1 + j], initialised as ``nn.Conv1d``.

    The last tap belongs to the position itself.
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


class MovingAverages(nn.Module):
    """K[l] = sum_n p b g / sqrt(N) q^l,  p = sigmoid(d),  q = 1 - p sigmoid(a), per direction and channel.

    Source: Ma et al. (2023), Mega: Moving Average Equipped Gated Attention, eqs. 2 to 4.
    """

    def __init__(self, directions: int, width: int, states: int) -> None:
        super().__init__()
        shape = directions, width, states
        signs = 1 - 2 * (torch.arange(states) % 2)
        self.weight = nn.Parameter(0.2 * torch.randn(shape))  # d: weight of the input
        self.damping = nn.Parameter(0.2 * torch.randn(shape))  # a: damping of the past by the input
        self.enter = nn.Parameter(signs + 0.02 * torch.randn(shape))  # b
        self.leave = nn.Parameter(torch.randn(shape))  # g

    def kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """Return K for lags below ``length``."""
        return self.kernels([self], length).squeeze(0)

    @staticmethod
    def kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of n layers for lags below ``length``."""
        weight, damping, enter, leave = (joined(layers, x) for x in ("weight", "damping", "enter", "leave"))
        p = torch.sigmoid(weight.double())
        scale = p * enter * leave / leave.shape[-1] ** 0.5
        rate = torch.log1p(-p * torch.sigmoid(damping.double()))  # log q
        K = modal_kernel(scale.flatten(0, 1)[None].to(leave), rate.flatten(0, 1), length)
        return K.view(len(layers), -1, leave.shape[1], length)
