"""Diagonal state space model (S4D): every channel is convolved with a sum of damped oscillations.

x'(t) = A x(t) + u(t),  y(t) = 2 Re C x(t) + D u(t),  A diagonal, in discrete time by one of two rules:
held over a step of ``dt`` (zoh):  K[l] = 2 Re sum_n C_n (exp(dt A_n) - 1)/A_n exp(dt A_n l)
bilinear:                          K[l] = 2 Re sum_n C_n dt/(1 - z_n) ((1 + z_n)/(1 - z_n))^l,  z = dt A/2

Source: Gu et al. (2022), On the Parameterization and Initialization of Diagonal State Space Models, eq. 4.
"""

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Even, Positive, added, spec
from .base import LayerContext, Layers, Mixer
from .common.convolution import Convolution, by_layer, joined, log_uniform
from .ops.modes import modal_kernel
from .ops.state_matrices import bilinear_modes, legs, zoh_modes


@spec
class S4D(Mixer):
    """Diagonal state space model, bidirectional unless causal."""

    slow_parameters: ClassVar = {"log_dt": 1e-3, "log_decay": 1e-3, "frequency": 1e-3}

    states: Even = 64  # N real states: N/2 conjugate pairs per channel
    init: Literal["lin", "inv", "inv2", "quad", "real", "legs", "random"] = "lin"  # see ``_initial_values``
    rule: Literal["zoh", "bilinear"] = "zoh"
    shortest: Positive = 1e-3  # smallest initial step dt; 1/dt is a time constant in positions
    longest: Positive = 1e-1  # largest initial step dt
    lr_dt: Positive | None = 1e-3  # maximum learning rate of dt; None: not a slow parameter
    damping: Positive = added(0.5)  # initial -Re A, unless ``init`` is real

    def slow(self) -> dict[str, float]:
        """Return the slow parameters, with ``lr_dt`` for dt."""
        return self.slow_parameters | {"log_dt": self.lr_dt or math.inf}

    def build(self, context: LayerContext) -> nn.Module:
        """Return the convolution layer."""
        return S4DLayer(context, self)


class S4DLayer(Convolution):
    """The layer of ``S4D``."""

    def __init__(self, context: LayerContext, settings: S4D) -> None:
        super().__init__(context)
        H = context.width
        pairs = settings.states // 2
        self.rule = zoh_modes if settings.rule == "zoh" else bilinear_modes
        self.log_dt = nn.Parameter(log_uniform(H, settings.shortest, settings.longest))
        log_decay, frequency = _initial_values(settings, H, pairs)
        self.log_decay = nn.Parameter(log_decay)  # -Re A = exp(log_decay)
        self.frequency = nn.Parameter(frequency)  # Im A
        C = torch.randn(self.directions, H, pairs, 2) * 0.5**0.5
        if settings.init == "legs":
            C = C * legs(settings.states)[2][:, :1].clamp(max=2).to(C)  # larger ones dominate the rest
        self.C = nn.Parameter(C)

    @staticmethod
    def make_kernels(layers: Layers, length: int) -> Float[Tensor, "n c H L"]:
        """Return K of the module docstring."""
        log_decay, frequency, log_dt = (joined(layers, x) for x in ("log_decay", "frequency", "log_dt"))
        A = torch.stack([-log_decay.double().exp(), frequency.double()], dim=-1)
        rate, B = map(torch.view_as_complex, layers[0].rule(A, log_dt.double().exp()))
        C = torch.view_as_complex(joined(layers, "C", 1))
        return by_layer(modal_kernel(2 * C * B.to(C), rate, length), layers)


def _initial_values(settings: S4D, H: int, pairs: int) -> tuple[Float[Tensor, "H N"], Float[Tensor, "H N"]]:
    """Return the initial log -Re A and Im A.

    Re A = -damping and Im A[n] = pi n (lin), (N/pi)(N/(2n+1) - 1) (inv), (N/pi)(N/(n+1) - 1) (inv2),
    (2n+1)^2/pi (quad), that of HiPPO-LegS, whose B joins C (legs), N(0, 1) (random); or A[n] = -(n+1) (real).
    """
    n = torch.arange(pairs, dtype=torch.float32)
    N = 2 * pairs
    decay = torch.full((pairs,), settings.damping)
    match settings.init:
        case "lin":
            frequency = math.pi * n
        case "inv":
            frequency = N / math.pi * (N / (2 * n + 1) - 1)
        case "inv2":
            frequency = N / math.pi * (N / (n + 1) - 1)
        case "quad":
            frequency = (2 * n + 1).square() / math.pi
        case "real":
            decay = n + 1
            frequency = torch.zeros(pairs)
        case "legs":
            frequency = legs(N)[0][:, 1].float()
        case _:
            frequency = torch.randn(H, pairs)
    return decay.log().repeat(H, 1), frequency.expand(H, -1).clone()


mixer = S4D
