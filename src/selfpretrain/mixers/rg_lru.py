"""Real-gated linear recurrent unit (RG-LRU): decays that depend on the input, in the gated block of Griffin.

h[t] = a[t] h[t-1] + sqrt(1 - a[t]^2) (i[t] u[t]),  log a[t] = -8 r[t] softplus(recurrent_param),
r, i = sigmoid(W_* u + b_*) per head,  u = conv(W_u x),  y[t] = W (h[t] GELU(W_z x[t]))

Source: De et al. (2024), Griffin, arXiv:2402.19427; the layer RecurrentGemmaRecurrentBlock of transformers.
What differs from it: the first position is not multiplied by sqrt(1 - a^2), as in the library; kernels of the
convolution start six times as large, so that outputs do not start near zero; the recurrence runs in chunks;
bidirectional layers add the outputs of a second, backward recurrence.
"""

from typing import Any, ClassVar

import torch

from ..config import Count, spec
from ..shapes import Vectors
from .base import LayerContext
from .common.attention_heads import head_size
from .common.transformers_layer import TransformersMixer, rnn_scan


@spec
class RGLRU(TransformersMixer):
    """Real-gated linear recurrent unit, one per direction unless causal."""

    slow_parameters: ClassVar = {"*.recurrent_param": 1e-3}
    layer = "recurrent_gemma.RecurrentGemmaRecurrentBlock"
    model = "RecurrentGemma"

    heads: Count = 4  # blocks of W_r and W_i
    taps: Count = 4  # kernel size of the convolution

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer."""
        head_size(context, self.heads)
        return {
            "lru_width": context.width,
            "intermediate_size": context.width,
            "num_attention_heads": self.heads,
            "conv1d_width": self.taps,
            "block_types": ["recurrent"],
        }

    def prepare(self, layer: Any) -> None:
        """Adjust its start; let it keep no state, whose graph would stay in memory."""
        super().prepare(layer)
        layer.rg_lru._rnn_scan = rnn_scan

    def arguments(self, x: Vectors) -> dict[str, Any]:
        """Return the positions: the recurrence starts anew at zero."""
        at = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        return {"position_ids": at, "attention_mask": None, "use_cache": False}


mixer = RGLRU
