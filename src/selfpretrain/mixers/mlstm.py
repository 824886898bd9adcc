"""mLSTM, of xLSTM: an LSTM with a matrix for a state, and an exponential input gate.

C[t] = sigmoid(f[t]) C[t-1] + exp(i[t]) k[t] v[t]^T,  n[t] = sigmoid(f[t]) n[t-1] + exp(i[t]) k[t],
h[t] = C[t]^T q[t] / max(|n[t]^T q[t]|, 1) per head,  q, k, v = W_* x,  i, f = 15 tanh((W_* x + b_*) / 15),
y[t] = W (sigmoid(W_o x[t]) LayerNorm(h[t]))

Source: Beck et al. (2024), xLSTM, arXiv:2405.04517, with the block of Beck et al. (2025), xLSTM 7B,
arXiv:2503.13427; the layer xLSTMLayer of transformers. What differs from it: bidirectional layers add the
outputs of a second, backward recurrence.
"""

import importlib.util
from typing import Any

from ..config import Count, spec
from ..errors import SpecError
from .base import LayerContext
from .common.attention_heads import head_size
from .common.transformers_layer import TransformersMixer, mlstm


@spec
class MLSTM(TransformersMixer):
    """mLSTM, one per direction unless causal."""

    layer = "xlstm.xLSTMLayer"
    model = "xLSTM"

    heads: Count = 4

    def config(self, context: LayerContext) -> dict[str, Any]:
        """Return the sizes of the layer; queries and keys have half the size of values."""
        if head_size(context, self.heads) % 2:
            raise SpecError(f"mlstm halves its heads of {context.width // self.heads}, which must be even")
        return {"num_heads": self.heads, "qk_dim_factor": 0.5, "autocast_kernel_dtype": "float32"}

    def classes(self) -> tuple[Any, Any, Any]:
        """Return the classes of the config, the model and the layer.

        Raises:
            SpecError: if the library is not installed, or leaves xLSTM to another package.
        """
        if importlib.util.find_spec("xlstm"):
            raise SpecError(
                "mlstm is the xLSTM of transformers, which the package xlstm replaces: pip uninstall xlstm"
            )
        return super().classes()

    def prepare(self, layer: Any) -> None:
        """Compute the recurrence in chunks of any length, in the precision of the layer."""
        layer.mlstm_backend._inference_fn = mlstm


mixer = MLSTM
