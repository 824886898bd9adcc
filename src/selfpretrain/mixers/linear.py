"""Linear attention: softmax weights are replaced by products of positive features, at a cost of O(L).

y[t] = sum_s phi(q[t]).phi(k[s]) v[s] / sum_s phi(q[t]).phi(k[s]),  phi(x) = elu(x) + 1

Source: Katharopoulos et al. (2020), Transformers are RNNs, eqs. 5-7. What differs from it: nothing.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..config import Count, spec
from ..shapes import PaddingMask
from .base import LayerContext, Mixer
from .common.attention_heads import Heads, PerHead
from .ops.linear_attention import causal_linear_attention, linear_attention


@spec
class Linear(Mixer):
    """Attention with the feature map elu + 1."""

    positions = "sinusoidal"
    published = "The LRA number came from code that does not mask padding."

    heads: Count = 4

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return LinearLayer(context, self.heads)


class LinearLayer(Heads):
    """The layer of ``Linear``."""

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return linear attention with the features of queries and keys."""
        q, k = (_Features.apply(x.to(torch.promote_types(x.dtype, torch.float32))) for x in (q, k))
        if padding_mask is not None:
            k = k * padding_mask[:, None, :, None]
        attend = causal_linear_attention if self.causal else linear_attention
        return attend(q, k, v.to(q))


class _Features(torch.autograd.Function):
    """elu(x) + 1 = exp(min(x, 0)) + max(x, 0) = y, with derivative min(y, 1), so that only y is stored."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()  # non-contiguous heads would be read several times
        y = x.clamp(max=0).exp_().add_(x.relu())
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return y.clamp(max=1).mul_(grad)


mixer = Linear
