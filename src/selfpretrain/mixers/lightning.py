"""Lightning attention: linear attention whose heads decay at fixed rates, slower in later blocks.

S[t] = exp(-s) S[t-1] + k[t] v[t]^T,  o[t] = S[t]^T q[t] per head,  q, k, v = SiLU(W_* x),
s = 2^(-8 h / H) (1 - block / (depth - 1)) for head h = 1 .. H,  y[t] = W (sigmoid(W_g x[t]) RMSNorm(o[t]))

Source: Qin et al. (2024), Lightning Attention-2, arXiv:2401.04658, and MiniMax (2025), MiniMax-01,
arXiv:2501.08313; the layer MiniMaxLightningAttention of transformers. What differs from it: bidirectional
layers add the outputs of a second, backward recurrence.
"""

from typing import Any

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext
from .common.attention_heads import head_size
from .common.transformers_layer import TransformersMixer


@spec
class Lightning(TransformersMixer):
    """Lightning attention, one per direction unless causal."""

    layer = "minimax.MiniMaxLightningAttention"
    model = "MiniMax"

    heads: Count = 4
    chunk: Count = 64  # positions that are computed at once

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer, in a model as deep as the network."""
        depth = max(context.depth, 2)
        return {
            "intermediate_size": context.width,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "head_dim": head_size(context, self.heads),
            "block_size": self.chunk,
            "num_hidden_layers": depth,
            "layer_types": ["linear_attention"] * depth,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
        }

    def arguments(self, x: Vectors) -> dict[str, Any]:
        """Return no positions and no mask."""
        return {"position_embeddings": None, "attention_mask": None}


mixer = Lightning
