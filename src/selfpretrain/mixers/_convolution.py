"""What all convolutional mixers share: the block around a kernel.

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

from ..errors import SpecError
from ..shapes import Valid, Vectors
from ._recurrence import System
from .base import LayerContext, Recurrence, Recurrent, State
from .ops._exact import exact
from .ops.longconv import causal_conv, two_sided_conv


class Convolution(nn.Module, abc.ABC):
    """A layer made of one or two long kernels per channel, which its subclass makes from parameters."""

    def __init__(self, context: LayerContext) -> None:
        super().__init__()
        H = context.width
        self.causal, self.directions = context.causal, 1 if context.causal else 2
        self.D = nn.Parameter(torch.randn(H))
        self.out = nn.Linear(H, 2 * H)

    @abc.abstractmethod
    def make_kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """The kernels for lags below ``length``; those of a shorter length are a prefix."""

    def kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """One kernel into the past and, unless causal, one into the future, in single precision or better."""
        with exact(self.D.device):
            return self.make_kernel(length)

    def forward(self, x: Vectors, valid: Valid = None) -> Vectors:
        """Convolve the real positions of every sequence, then gate."""
        u = x if valid is None else x * valid[..., None]
        K = self.kernel(x.shape[1])
        # D u is a lag of its own, added where it costs nothing.
        past = torch.cat([K[0, :, :1] + self.D[:, None], K[0, :, 1:]], dim=-1)
        return self.gate(causal_conv(u, past) if self.causal else two_sided_conv(u, past, K[1]))

    def gate(self, y: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """GLU(W GELU(y)), position by position."""
        return F.glu(self.out(F.gelu(y)), dim=-1)


class StateSpace(Convolution, Recurrent):
    """A convolutional layer whose kernel is that of a linear recurrence."""

    @abc.abstractmethod
    def system(self) -> System:
        """The recurrence into the past, in double precision and without gradients."""

    def recurrence(self) -> Recurrence:
        """The layer, as its parameters are now.

        Raises:
            SpecError: if it is not causal.
        """
        if not self.causal:
            raise SpecError("a bidirectional layer needs the future; only causal ones are recurrences")
        with torch.no_grad():
            return _Steps(self, self.system())


def log_uniform(count: int, low: float, high: float) -> Float[Tensor, "n"]:
    """Logarithms of random numbers, spread evenly between those of ``low`` and ``high``."""
    return math.log(low) + (math.log(high) - math.log(low)) * torch.rand(count)


class _Steps(Recurrence):
    """z[t] = A z[t-1] + B u[t],  y[t] = C z[t] + D u[t], or single modes, see ``System``; then the gate."""

    def __init__(self, layer: StateSpace, system: System) -> None:
        self.layer, self.system = layer, system

    def state(self, batch: int) -> State:
        """Zeros."""
        return (self.system.start(batch),)

    @torch.no_grad()
    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        """One position further."""
        y, z = self.system.step(x.double(), state[0])
        return self.layer.gate(y.to(x.dtype) + self.layer.D * x), (z,)

    @torch.no_grad()
    def advance(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """A chunk further."""
        y, z = self.system.advance(x.double(), state[0])
        return self.layer.gate(y.to(x.dtype) + self.layer.D * x), (z,)

    def tensors(self) -> dict[str, Tensor]:
        """Those of the system, and D (H)."""
        return {**self.system.tensors(), "D": self.layer.D.detach().double()}
