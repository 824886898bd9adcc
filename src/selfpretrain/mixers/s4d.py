"""Diagonal state space model (S4D): every channel a sum of damped oscillations, convolved with the sequence.

x'(t) = A x(t) + u(t),  y(t) = Re C x(t) + D u(t),  A diagonal;  held constant over a step of ``dt``:
K[l] = 2 Re sum_n C_n (exp(dt A_n) - 1)/A_n exp(dt A_n l)

Source: Gu et al. (2022), On the Parameterization and Initialization of Diagonal State Space Models, eq. 4.
"""

import math
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from ..ops.longconv import causal_conv, two_sided_conv
from ..ops.vandermonde import modal_kernel
from ..shapes import Valid, Vectors
from ..shelf import Positive, spec
from .base import Mixer, Place


@spec
class S4D(Mixer):
    """Diagonal state space model, bidirectional unless causal."""

    slow_parameters: ClassVar[dict[str, float]] = {"log_dt": 1e-3, "log_decay": 1e-3, "frequency": 1e-3}

    states: Annotated[int, Field(ge=2, multiple_of=2)] = 64  # N real states: N/2 conjugate pairs per channel
    init: Literal["lin", "inv", "random"] = "lin"  # imaginary parts: pi n; (N/pi)(N/(2n+1) - 1); N(0, 1)
    shortest: Positive = 1e-3  # smallest step dt at the start; 1/dt is a time constant in positions
    longest: Positive = 1e-1  # largest step dt at the start

    def build(self, place: Place) -> nn.Module:
        """The convolution layer."""
        return S4DLayer(place, self)


class S4DLayer(nn.Module):
    """The module of ``S4D``."""

    def __init__(self, place: Place, settings: S4D) -> None:
        super().__init__()
        H, pairs = place.width, settings.states // 2
        self.causal = place.causal
        low, high = math.log(settings.shortest), math.log(settings.longest)
        self.log_dt = nn.Parameter(low + (high - low) * torch.rand(H))
        self.log_decay = nn.Parameter(torch.full((H, pairs), math.log(0.5)))  # -Re A = exp(log_decay)
        self.frequency = nn.Parameter(_frequencies(settings.init, H, pairs))  # Im A
        self.C = nn.Parameter(torch.randn(1 if self.causal else 2, H, pairs, 2) * 0.5**0.5)
        self.D = nn.Parameter(torch.randn(H))
        self.out = nn.Linear(H, 2 * H)

    def kernel(self, length: int) -> Float[Tensor, "c H L"]:
        """K of the module's docstring: one kernel, or one into the past and one into the future."""
        # Under autocast the products would run in bfloat16: 2 % wrong without a word.
        with torch.autocast(self.C.device.type, enabled=False):
            A = torch.complex(-self.log_decay.exp(), self.frequency)  # (H, N)
            rate = A * self.log_dt.exp()[:, None]
            weight = torch.view_as_complex(self.C) * torch.expm1(rate) / A
            return modal_kernel(weight, rate, length)

    def forward(self, x: Vectors, valid: Valid = None) -> Vectors:
        """Convolve the real positions of every sequence, then gate."""
        u = x if valid is None else x * valid[..., None]
        K = self.kernel(x.shape[1])
        y = causal_conv(u, K[0]) if self.causal else two_sided_conv(u, K[0], K[1])
        return F.glu(self.out(F.gelu(y + self.D * u)), dim=-1)


def _frequencies(init: str, H: int, pairs: int) -> Float[Tensor, "H N"]:
    n, N = torch.arange(pairs, dtype=torch.float32), 2 * pairs
    match init:
        case "lin":
            return (math.pi * n).repeat(H, 1)
        case "inv":
            return (N / math.pi * (N / (2 * n + 1) - 1)).repeat(H, 1)
        case _:
            return torch.randn(H, pairs)


mixer = S4D
