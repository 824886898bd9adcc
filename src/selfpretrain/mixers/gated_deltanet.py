"""Gated DeltaNet: linear attention whose state decays, and overwrites the value of a key it knows.

R[t] = exp(g[t]) S[t-1],  S[t] = R[t] + beta[t] k[t] (v[t] - R[t]^T k[t])^T,
o[t] = S[t]^T q[t] / sqrt(E) per head,  q, k, v = SiLU(conv(W_* x)), q and k of length one,
beta = sigmoid(W_b x),  g = -exp(A_log) softplus(W_a x + dt_bias),  y[t] = W (RMSNorm(o[t]) SiLU(W_z x[t]))

Source: Yang et al. (2025), Gated Delta Networks, arXiv:2412.06464; the layer Qwen3NextGatedDeltaNet of
transformers. What differs from it: steps softplus(dt_bias) start between 0.001 and 0.1, as in the code of the
paper, and not at 1.3; bidirectional layers add the outputs of a second, backward recurrence.
"""

from typing import Any, ClassVar

import torch

from ..config import Count, spec
from .base import LayerContext
from .common.attention_heads import head_size
from .common.convolution import log_uniform
from .common.transformers_layer import TransformersMixer, delta_rule, delta_rule_sizes


@spec
class GatedDeltaNet(TransformersMixer):
    """Gated DeltaNet, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.A_log", "*.dt_bias"), 1e-3)
    layer = "qwen3_next.Qwen3NextGatedDeltaNet"
    model = "Qwen3Next"
    operations: ClassVar = {"torch_chunk_gated_delta_rule": delta_rule}
    single = True

    heads: Count = 4
    taps: Count = 4  # kernel size of the convolution

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer, and of a model without experts."""
        return delta_rule_sizes(context, self.heads, self.taps) | {
            "layer_types": ["linear_attention"] * 2,
            "mlp_only_layers": [0, 1],
            "head_dim": head_size(context, self.heads),
        }

    @torch.no_grad()
    def prepare(self, layer: Any) -> None:
        """Start with steps softplus(dt_bias) from 0.001 to 0.1: at the library's 1, states would not last."""
        super().prepare(layer)
        dt = log_uniform(self.heads, 1e-3, 1e-1).exp()
        layer.dt_bias.copy_(dt + torch.log(-torch.expm1(-dt)))


mixer = GatedDeltaNet
