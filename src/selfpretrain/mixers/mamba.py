"""Mamba: a selective state space model per channel, whose input, output and step depend on the sequence.

h[t] = exp(dt[t] A) h[t-1] + dt[t] b[t] u[t],  o[t] = c[t]^T h[t] + D u[t],  A = -exp(A_log),
u = SiLU(conv(W_u x)),  b, c = W_* u,  dt = softplus(W_2 W_1 u + step),  y[t] = W (o[t] SiLU(W_z x[t]))

Source: Gu & Dao (2023), Mamba, arXiv:2312.00752; the layer MambaMixer of transformers. What differs from it:
the recurrence runs in chunks where no kernel is installed; bidirectional layers add the outputs of a second,
backward recurrence.
"""

from typing import Any, ClassVar

from ..config import Count, spec
from .base import LayerContext
from .common.transformers_layer import TransformersMixer, selective_scan


@spec
class Mamba(TransformersMixer):
    """Mamba, one per direction unless causal."""

    slow_parameters: ClassVar[dict[str, float]] = dict.fromkeys(("*.A_log", "*.dt_proj.bias"), 1e-3)
    layer = "mamba.MambaMixer"
    model = "Mamba"
    operations: ClassVar = {"mamba_selective_scan": selective_scan}

    states: Count = 16  # size of h per channel
    expand: Count = 2  # channels of u as a multiple of the width
    taps: Count = 4  # kernel size of the convolution

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer; dt has rank width / 16."""
        return {"state_size": self.states, "expand": self.expand, "conv_kernel": self.taps}


mixer = Mamba
