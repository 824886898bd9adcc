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
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, by_layer, joined, log_uniform
from .ops._exact import chain_dtype
from .ops.powers import powers_kernel
from .ops.state_matrices import bilinear_dense, legs_matrix


@spec
class LSSL(Mixer):
    """Linear state space layer, bidirectional unless causal."""

    slow_parameters: ClassVar = {"log_dt": 1e-3, "A": 1e-4, "B": 1e-4}

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

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of the module docstring."""
        A, B, log_dt = (
            joined(layers, x).double().unflatten(0, (len(layers), -1)) for x in ("A", "B", "log_dt")
        )
        C = joined(layers, "C", 1)
        change, B, rows = (x.to(chain_dtype(C)) for x in (*bilinear_dense(A, B, log_dt.exp()), C))
        return by_layer(powers_kernel(change, B[:, None], rows, length).to(C.dtype), layers)


mixer = LSSL
