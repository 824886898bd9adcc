"""Performer: attention by random features, an unbiased estimate of the softmax kernel (FAVOR+).

y[t] = sum_s phi(q[t]).phi(k[s]) v[s] / sum_s phi(q[t]).phi(k[s]),  queries and keys divided by (D/H)^(1/4)
favor:  phi_m(x) = exp(w_m.x - |x|^2 / 2)        relu:  phi_m(x) = max(w_m.x, 0) / sqrt(M) + 0.001

Source: Choromanski et al. (2021), Rethinking Attention with Performers, lemma 1 and section 2.4 (orthogonal
directions). What differs from it: directions are drawn once and stored with the weights. Exponents of keys
are taken relative to the largest one of all real keys, of each feature, or, causal, of the keys so far; those
of queries, which compensate for it, relative to their own largest. This cancels in the ratio, and prevents
over- and underflow for logits q.k with a standard deviation up to 200 or, causal, 40; beyond, outputs shrink
towards zero.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask
from .base import LayerContext, Mixer
from .common.attention_heads import Heads, PerHead
from .ops._exact import full_precision
from .ops.linear_attention import causal_linear_attention, linear_attention, rescaled_linear_attention

Features = Float[Tensor, "B H L M"]


@spec
class Performer(Mixer):
    """Attention by random features of the softmax kernel, or by random ReLU features."""

    positions = "sinusoidal"
    published = (
        "The LRA number came from ReLU features without random directions, on ListOps from softmax features "
        "with two of them; padding was not masked."
    )

    heads: Count = 4
    kind: Literal["favor", "relu"] = "favor"
    features: Count = 256  # M

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return PerformerLayer(context, self)


class PerformerLayer(Heads):
    """The layer of ``Performer``."""

    directions: Float[Tensor, "M E"]

    def __init__(self, context: LayerContext, settings: Performer) -> None:
        super().__init__(context, settings.heads)
        self.kind = settings.kind
        size = context.width // settings.heads
        count = settings.features
        blocks = []
        for _ in range(-(-count // size)):
            q, r = torch.linalg.qr(torch.randn(size, size))
            blocks.append((q * r.diagonal().sign()).T)  # without the signs, directions would not be uniform
        # Rows have norms of Gaussian vectors, and are orthogonal in groups of `size`.
        directions = torch.cat(blocks)[:count] * torch.randn(count, size).norm(dim=1, keepdim=True)
        self.register_buffer("directions", directions)

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return linear attention with the random features of queries and keys."""
        real = None if padding_mask is None else padding_mask[:, None, :, None]
        wide = torch.promote_types(q.dtype, torch.float32)
        q, k = (x.to(wide) * x.shape[-1] ** -0.25 for x in (q, k))
        v = v.to(wide)
        with full_precision(q.device):
            if self.kind == "favor":
                return self._softmax(q, k, v, real)
            scale = len(self.directions) ** -0.5
            of_q, of_k = ((x @ self.directions.T).relu() * scale + 1e-3 for x in (q, k))
            attend = causal_linear_attention if self.causal else linear_attention
            return attend(of_q, _zero_padding(of_k, real), v)

    def _softmax(self, q: PerHead, k: PerHead, v: PerHead, real: Bool[Tensor, "B 1 L 1"] | None) -> PerHead:
        of_q, of_k = (x @ self.directions.T - x.square().sum(-1, keepdim=True) / 2 for x in (q, k))
        if real is not None:
            of_k = of_k.masked_fill(~real, torch.finfo(of_k.dtype).min)
        if self.causal:
            largest = of_k.detach().amax(-1, keepdim=True).cummax(2).values
        else:
            largest = of_k.detach().amax(2, keepdim=True)
            of_q = of_q + largest
        of_q = (of_q - of_q.detach().amax(-1, keepdim=True)).exp()
        of_k = _zero_padding((of_k - largest).exp(), real)
        if self.causal:
            return rescaled_linear_attention(of_q, of_k, v, largest)
        return linear_attention(of_q, of_k, v)


def _zero_padding(x: Features, real: Bool[Tensor, "B 1 L 1"] | None) -> Features:
    return x if real is None else x * real


mixer = Performer
