"""Gated short convolution: a depthwise convolution over a few positions between two gates, as in LFM2.

y[t] = W (c[t] conv(b u)[t]),  b, c, u = W_* x

Source: Liquid AI (2025), LFM2 Technical Report, arXiv:2511.23404; the layer Lfm2ShortConv of transformers.
What differs from it: bidirectional layers add the outputs of a second layer that looks forward.
"""

from typing import Any

from ..config import Count, spec
from .base import LayerContext
from .common.transformers_layer import TransformersMixer


@spec
class ShortConv(TransformersMixer):
    """Gated short convolution, one per direction unless causal."""

    layer = "lfm2.Lfm2ShortConv"
    model = "Lfm2"

    taps: Count = 3  # kernel size of the convolution

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the size of the kernel; of the library's two kinds of layers the first alone is used."""
        return {
            "conv_L_cache": self.taps,
            "layer_types": ["conv", "full_attention"],
            "intermediate_size": context.width,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
        }


mixer = ShortConv
