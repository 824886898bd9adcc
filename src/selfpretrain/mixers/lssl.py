"""Linear state space layer (LSSL): one dense matrix for all channels, each with its own step; a baseline.

x'(t) = A x(t) + B u(t),  y(t) = C x(t) + D u(t),  A dense (initially HiPPO-LegS), bilinear rule:
K[l] = C Abar^l Bbar

Every channel needs an inverse and powers of a full matrix, which the structure of A in S4 avoids. Training
may make A unstable. With an unstable A (an eigenvalue with a positive real part) the kernel grows with its
length, and the rounding errors of the FFT, relative to its largest value, reach all positions: earlier
outputs then depend on later inputs, also in a causal layer. ``selfpretrain check lssl`` warns about it.

Source: Gu et al. (2021), Combining Recurrent, Convolutional, and Continuous-time Models with Linear State
Space Layers, section 3.
"""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, Positive, spec
from .base import LayerContext, Mixer
from .common.convolution import Convolution, log_uniform
from .ops._exact import chain_dtype
from .ops.powers import powers_kernel
from .ops.state_matrices import bilinear_dense, legs_matrix


@spec
class LSSL(Mixer):
    """Linear state space layer, bidirectional unless causal."""

    slow_parameters: ClassVar[dict[str, float]] = {"log_dt": 1e-3, "A": 1e-4, "B": 1e-4}

    states: Count = 64  # N
    init: Literal["legs", "random"] = "legs"  # random: A = -I + N(0, 1/(4 N)) in every entry, B = N(0, 1)
    shortest: Positive = 1e-3  # smallest initial step dt; 1/dt is a time constant in positions
    longest: Positive = 1e-1  # largest initial step dt

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        return LSSLLayer(context, self)


class LSSLLayer(Convolution):
    """The layer of ``LSSL``."""

    def __init__(self, context: LayerContext, settings: LSSL) -> None:
        super().__init__(context)
        H = context.width
        N = settings.states
        self.log_dt = nn.Parameter(log_uniform(H, settings.shortest, settings.longest))
        if settings.init == "legs":
            A, B = legs_matrix(N)
        else:
            A = torch.randn(N, N) / (2 * N**0.5) - torch.eye(N)
            B = torch.randn(N)
        self.A = nn.Parameter(A.float())
        self.B = nn.Parameter(B.float())
        self.C = nn.Parameter(torch.randn(self.directions, H, N))

    def make_kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """Return K of the module docstring."""
        change, B, C = (x.to(chain_dtype(self.C)) for x in (*self._discretize(), self.C))
        return powers_kernel(change, B[:, None], C, length).to(self.C.dtype)

    def _discretize(self) -> tuple[Float[Tensor, "H N N"], Float[Tensor, "H N"]]:
        return bilinear_dense(self.A.double(), self.B.double(), self.log_dt.double().exp())


mixer = LSSL
