"""Kimi delta attention (KDA): the gated delta rule with a decay rate of its own for every feature of a key.

R[t] = diag(exp g[t]) S[t-1],  S[t] = R[t] + beta[t] k[t] (v[t] - R[t]^T k[t])^T,
o[t] = S[t]^T q[t] / sqrt(E),  q, k, v = SiLU(conv(W_* x)), q and k of length one,  beta = sigmoid(W_b x),
g = -exp(A_log) softplus(W_2 W_1 x + dt_bias),  y[t] = W (RMSNorm(o[t]) sigmoid(W_4 W_3 x[t])) per head

Source: Kimi Team (2025), Kimi Linear, arXiv:2510.26692; the layer KimiLinearDeltaAttention of transformers.
What differs from it: the recurrence solves a system of equations per chunk where no kernel is installed;
gradients of the softplus are finite for inputs of any size; bidirectional layers add the outputs of a second,
backward recurrence.
"""

from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext
from .common.attention_heads import head_size
from .common.transformers_layer import TransformersMixer, delta_rule

LINEAR = 20.0  # above this number, softplus(x) is x in single precision


@spec
class KimiDelta(TransformersMixer):
    """Kimi delta attention, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.A_log", "*.dt_bias"), 1e-3)
    layer = "kimi_linear.KimiLinearDeltaAttention"
    model = "KimiLinear"
    operations: ClassVar = {"chunk_kimi_delta_attention": delta_rule}
    single = True

    heads: Count = 4
    taps: Count = 4  # kernel size of the convolution

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer, and of a model without experts."""
        return {
            "linear_num_heads": self.heads,
            "linear_head_dim": head_size(context, self.heads),
            "linear_conv_kernel_dim": self.taps,
            "layer_types": ["linear_attention"] * 2,
            "mlp_layer_types": ["dense"] * 2,
            "intermediate_size": context.width,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
        }

    def prepare(self, layer: Any) -> None:
        """Replace the gate of the layer, whose gradients are NaN for large inputs."""
        super().prepare(layer)
        layer.forget_gate.forward = partial(forget_gate, layer.forget_gate)


def forget_gate(gate: Any, x: Vectors) -> Float[Tensor, "B L H M"]:
    """Return g, the logarithms of the decay, to the bit as the library's gate does.

    In ``where(g > 20, g, log(1 + exp(g)))`` the unused exp(g) overflows above 88, and has gradient 0 * inf.
    """
    g = gate.f_b_proj(gate.f_a_proj(x)).float() + gate.dt_bias.float()
    g = g.unflatten(-1, (gate.num_heads, gate.head_dim))
    softplus = torch.where(g > LINEAR, g, torch.log(1.0 + torch.exp(g.clamp(max=LINEAR))))
    return -torch.exp(gate.A_log.float()) * softplus


mixer = KimiDelta
