"""Mamba: a selective state space model per channel, whose input, output and step depend on the sequence.

h[t] = exp(dt[t] A) h[t-1] + dt[t] b[t] u[t],  o[t] = c[t]^T h[t] + D u[t],  A = -exp(A_log),
u = SiLU(conv(W_u x)),  b, c = W_* u,  dt = softplus(W_2 W_1 u + step),  y[t] = W (o[t] SiLU(W_z x[t]))

Source: Gu & Dao (2023), Mamba, arXiv:2312.00752; the layer MambaMixer of transformers. What differs from it:
the recurrence runs in chunks where no kernel is installed; bidirectional layers add the outputs of a second,
backward recurrence.
"""

import math
from typing import Any, ClassVar, Literal

import torch

from ..config import Count, added, spec
from .base import LayerContext
from .common.transformers_layer import TransformersMixer, selective_scan

MIMETIC_A_LOG = -8.0
"""Initial A_log of a mimetic start: A = -3.4e-4 keeps 70 % of a state over 1,000 steps of dt = 1."""


@spec
class Mamba(TransformersMixer):
    """Mamba, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.A_log", "*.dt_proj.bias"), 1e-3)
    layer = "mamba.MambaMixer"
    model = "Mamba"
    operations: ClassVar = {"mamba_selective_scan": selective_scan}

    states: Count = 16  # size of h per channel
    expand: Count = 2  # channels of u as a multiple of the width
    taps: Count = 4  # kernel size of the convolution
    start: Literal["independent", "mimetic"] = added("independent")  # see ``prepare``

    @torch.no_grad()
    def prepare(self, layer: Any) -> None:
        """Adjust a layer that the library has just initialised.

        ``start="mimetic"`` is linear attention that looks for similar content: A near 0 and dt = 1 for any
        input, so that exp(dt A) is near 1 and all the past is kept; W_c = W_b, so that W_c^T W_b is in
        expectation a multiple of the identity.

        Source: Trockman et al. (2024), Mimetic Initialization Helps State Space Models Learn to Recall,
        arXiv:2410.11135, of which the abstract could be read, and that exp(dt A) and dt go to 1; -8 is from a
        port to gated linear attention. Convolution and gate start as usual.
        """
        super().prepare(layer)
        if self.start == "mimetic":
            layer.A_log.fill_(MIMETIC_A_LOG)
            layer.dt_proj.weight.zero_()
            layer.dt_proj.bias.fill_(math.log(math.expm1(1)))  # softplus of it is 1
            N = self.states
            layer.x_proj.weight[-N:] = layer.x_proj.weight[-2 * N : -N]  # rows of dt, b and c

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer; dt has rank width / 16."""
        return {"state_size": self.states, "expand": self.expand, "conv_kernel": self.taps}


mixer = Mamba
