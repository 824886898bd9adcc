"""Base class of convolutional mixers: the layer around one or two long kernels.

y = kernel * u + D u,  out = GLU(W GELU(y)),  with padded positions of u set to zero.

The kernel reaches into the past; bidirectional layers have a second one, into the future from lag one on.
Source: Gu et al. (2022), S4, and the bidirectional layer of Amos et al. (2024).
"""

import abc
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ...shapes import PaddingMask, Vectors
from ..base import LayerContext
from ..ops._exact import full_precision
from ..ops.longconv import causal_conv, two_sided_conv


class Convolution(nn.Module, abc.ABC):
    """A convolutional layer with one or two long kernels per channel, computed by the subclass."""

    def __init__(self, context: LayerContext) -> None:
        super().__init__()
        H = context.width
        self.causal = context.causal
        self.directions = 1 if context.causal else 2
        self.D = nn.Parameter(torch.randn(H))
        self.out = nn.Linear(H, 2 * H)

    @abc.abstractmethod
    def make_kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """Return the kernels for lags below ``length``; those of a shorter length are a prefix."""

    def kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """Return a kernel for the past and, unless causal, one for the future, in fp32 or better."""
        with full_precision(self.D.device):
            return self.make_kernel(length)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Convolve the real positions of every sequence, then gate."""
        u = x if padding_mask is None else x * padding_mask[..., None]
        K = self.kernel(x.shape[1])
        # Adding D to lag zero of the kernel makes D u free.
        past = torch.cat([K[0, :, :1] + self.D[:, None], K[0, :, 1:]], dim=-1)
        return self.gate(causal_conv(u, past) if self.causal else two_sided_conv(u, past, K[1]))

    def gate(self, y: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Return GLU(W GELU(y)) at every position."""
        return F.glu(self.out(F.gelu(y)), dim=-1)


def log_uniform(count: int, low: float, high: float) -> Float[Tensor, "n"]:
    """Return random numbers, uniform between log(low) and log(high)."""
    return math.log(low) + (math.log(high) - math.log(low)) * torch.rand(count)
