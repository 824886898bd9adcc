"""Nystroemformer: softmax attention approximated through landmarks, the means of consecutive positions.

Y = s(Q K~^T) s(Q~ K~^T)^+ s(Q~ K^T) V + depthwise convolution of V,  s(X) = softmax(X / sqrt(D/H))

Source: Xiong et al. (2021), Nystroemformer, eqs. 9-13. What differs from it: segments divide the real
positions, so that padding changes nothing; a short sequence has at most as many landmarks as positions; and
the inverse starts from norms of each matrix, not of the whole batch.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..config import Count, Natural, spec
from ..errors import SpecError
from ..shapes import PaddingMask
from .base import LayerContext, Mixer, refuse_causal
from .common.attention_heads import Heads, PerHead, key_mask
from .ops._exact import full_precision


@spec
class Nystromformer(Mixer):
    """Attention through landmarks; never causal."""

    positions = "learned"
    causal = False
    published = (
        "The LRA number came from the authors' own benchmark: two layers of width 64, texts cut to 1024 "
        "symbols, and means that count padding."
    )

    heads: Count = 4
    landmarks: Count = 64
    steps: Count = 6  # iterations for the pseudoinverse
    kernel: Natural = 35  # width of the convolution, an odd number; 0: none

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        refuse_causal(self, context)
        if self.kernel and self.kernel % 2 == 0:
            raise SpecError(f"a convolution around a position has an odd width, not {self.kernel}")
        return NystromformerLayer(context, self)


class NystromformerLayer(Heads):
    """The layer of ``Nystromformer``."""

    def __init__(self, context: LayerContext, settings: Nystromformer) -> None:
        super().__init__(context, settings.heads)
        self.landmarks = settings.landmarks
        self.steps = settings.steps
        H = settings.heads
        shape: Any = {"padding": (settings.kernel // 2, 0), "groups": H, "bias": False}
        self.near = nn.Conv2d(H, H, (settings.kernel, 1), **shape) if settings.kernel else None

    def mix(self, q: PerHead, k: PerHead, v: PerHead, padding_mask: PaddingMask) -> PerHead:
        """Return attention from positions to landmarks, which attend to all positions."""
        real = padding_mask if padding_mask is not None else q.new_ones(len(q), q.shape[2], dtype=torch.bool)
        q, k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
        v = v * real[:, None, :, None]
        with full_precision(q.device):  # the inverse amplifies rounding errors
            means, used = _segments(real, self.landmarks, q.dtype)
            q_mean = means[:, None] @ q
            k_mean = means[:, None] @ k
            landmark_values = F.scaled_dot_product_attention(q_mean, k, v, key_mask(padding_mask))
            inverse = pseudoinverse(_weights(q_mean, k_mean, used), self.steps)
            y = F.scaled_dot_product_attention(q, k_mean, inverse @ landmark_values, key_mask(used))
            return y if self.near is None else y + self.near(v)


def _segments(
    real: Bool[Tensor, "B L"], count: int, dtype: torch.dtype
) -> tuple[Float[Tensor, "B m L"], Bool[Tensor, "B m"]]:
    """Return the weights of means over ``count`` segments of real positions, and a mask of used segments."""
    length = real.sum(1, keepdim=True).clamp(min=1)
    segments = length.clamp(max=count)
    number = torch.arange(count, device=real.device)
    segment = (real.cumsum(1) - 1) * segments // length
    inside = (segment[:, None] == number[:, None]) & real[:, None]
    return inside.to(dtype) / inside.sum(-1, keepdim=True).clamp(min=1), number < segments


def _weights(q: PerHead, k: PerHead, used: Bool[Tensor, "B m"]) -> Float[Tensor, "B H m m"]:
    """Return softmax attention weights among landmarks; unused ones attend to themselves only."""
    logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    weights = logits.masked_fill(~used[:, None, None], torch.finfo(q.dtype).min).softmax(-1)
    eye = torch.eye(q.shape[2], dtype=q.dtype, device=q.device)
    return torch.where(used[:, None, :, None], weights, eye)


def pseudoinverse(A: Float[Tensor, "*batch m m"], steps: int) -> Float[Tensor, "*batch m m"]:
    """Iterate Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4 from Z_0 = A^T / (|A|_1 |A|_inf), per matrix.

    Source: Xiong et al. (2021), Nystroemformer, eqs. 11-12, after Razavi et al. (2014).
    """
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    size = A.abs()
    norms = size.sum(-2).amax(-1) * size.sum(-1).amax(-1)
    with full_precision(A.device):
        Z = A.transpose(-1, -2) / norms[..., None, None]
        for _ in range(steps):
            AZ = A @ Z
            Z = 0.25 * Z @ (13 * eye - AZ @ (15 * eye - AZ @ (7 * eye - AZ)))
    return Z


mixer = Nystromformer
