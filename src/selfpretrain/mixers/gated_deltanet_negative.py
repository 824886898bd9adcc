"""Gated DeltaNet with negative eigenvalues: a state that can turn stored values around.

R[t] = exp(g[t]) S[t-1],  S[t] = R[t] + 2 beta[t] k[t] (v[t] - R[t]^T k[t])^T,
o[t] = S[t]^T q[t] / sqrt(E) per head,  q, k, v = SiLU(conv(W_* x)), q and k of length one,
beta = sigmoid(W_b x),  g = -exp(A_log) softplus(W_a x + dt_bias),  y[t] = W (RMSNorm(o[t]) SiLU(W_z x[t]))

Source: Grazzi et al. (2025), Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues,
arXiv:2411.12537; the layer OlmoHybridGatedDeltaNet of transformers. What differs from it: bidirectional
layers add the outputs of a second, backward recurrence.
"""

from typing import Any, ClassVar

from ..config import Count, spec
from .base import LayerContext
from .common.transformers_layer import TransformersMixer, delta_rule, delta_rule_sizes


@spec
class NegativeDeltaNet(TransformersMixer):
    """Gated DeltaNet with negative eigenvalues, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.A_log", "*.dt_bias"), 1e-3)
    layer = "olmo_hybrid.OlmoHybridGatedDeltaNet"
    model = "OlmoHybrid"
    operations: ClassVar = {"torch_chunk_gated_delta_rule": delta_rule}
    single = True

    heads: Count = 4
    taps: Count = 4  # kernel size of the convolution

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer; the model must have full attention somewhere."""
        return delta_rule_sizes(context, self.heads, self.taps) | {
            "linear_allow_neg_eigval": True,
            "layer_types": ["linear_attention", "full_attention"],
        }


mixer = NegativeDeltaNet
