"""RWKV-4: a mean of all earlier values, weighted by their keys and by a fixed decay per channel.

o[t] = (sum_s exp(k[s] - (t - 1 - s) w) v[s] + exp(f + k[t]) v[t]) / (the same without v), over s < t,
w = exp(time_decay),  k, v, r = W_* (m x[t] + (1 - m) x[t-1]),  y[t] = W (sigmoid(r[t]) o[t])

Source: Peng et al. (2023), RWKV, arXiv:2305.13048; the layer RwkvSelfAttention of transformers (RWKV-4; later
versions have a matrix for a state). What differs from it: f starts as in the paper, which the library misses
by a bracket; the recurrence runs in chunks; bidirectional layers add the outputs of a second, backward one.
"""

import math
from typing import Any, ClassVar

import torch

from ..config import spec
from ..errors import SpecError
from .base import LayerContext
from .common.transformers_layer import TransformersMixer, rwkv_attention


@spec
class RWKV4(TransformersMixer):
    """RWKV-4, one per direction unless causal."""

    slow_parameters: ClassVar = dict.fromkeys(("*.time_decay", "*.time_first"), 1e-3)
    layer = "rwkv.RwkvSelfAttention"
    model = "Rwkv"
    operations: ClassVar = {"rwkv_linear_attention": rwkv_attention}

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the depth of the network, by which decays and shifts of a block start.

        Raises:
            SpecError: if there is but one channel.
        """
        if context.width < 2:
            raise SpecError("rwkv4 spreads its decays over the channels: use a width of 2 or more")
        return {"num_hidden_layers": max(context.depth, 2), "attention_hidden_size": context.width}

    @torch.no_grad()
    def prepare(self, layer: Any) -> None:
        """Start f at log 0.3, with a zigzag over the channels."""
        zigzag = (torch.arange(len(layer.time_first)) + 1) % 3 - 1
        layer.time_first.copy_(math.log(0.3) + 0.5 * zigzag)


mixer = RWKV4
