"""Synthesizer: attention whose weights are learned directly, or computed from each position alone.

Y = softmax(A + G) V per head, over real positions (and not over later ones when causal)
dense:       A[t] = W_2 max(W_1 X[t], 0)          random:  A learned, L x L
factorised:  A = R_1 R_2^T, both learned, L x rank
G = Q K^T / sqrt(D/H) with ``dot_product``, else 0

Source: Tay et al. (2021), Synthesizer: Rethinking Self-Attention for Transformer Models, section 3. What
differs from it: the only mixtures are those with dot products, with equal weights. Shorter sequences use the
first rows and columns of the learned weights.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..config import Count, spec
from ..shapes import PaddingMask, Vectors
from .base import LayerContext, Mixer, check_length
from .common.attention_heads import head_size, key_mask, merge_heads, split_heads


@spec
class Synthesizer(Mixer):
    """Attention that does not compare positions, unless ``dot_product`` is set; built for one length."""

    positions = "sinusoidal"
    published = (
        "The LRA number came from random weights added to dot products, with up to 256 million parameters "
        "of their own."
    )

    heads: Count = 4
    kind: Literal["dense", "random", "factorised"] = "dense"
    rank: Count = 8  # of the factorised weights
    dot_product: bool = False  # whether to add scaled dot products of queries and keys

    def build(self, context: LayerContext) -> nn.Module:
        """Return the attention layer."""
        return SynthesizerLayer(context, self)


class SynthesizerLayer(nn.Module):
    """The layer of ``Synthesizer``."""

    def __init__(self, context: LayerContext, settings: Synthesizer) -> None:
        super().__init__()
        D = context.width
        H = settings.heads
        self.heads = H
        self.size = head_size(context, H)
        self.longest = context.length
        self.causal = context.causal
        kinds: dict[str, type[Dense | Random | Factorised]]
        kinds = {"dense": Dense, "random": Random, "factorised": Factorised}
        self.made = kinds[settings.kind](context, settings)
        self.q, self.k = (nn.Linear(D, D) if settings.dot_product else None for _ in range(2))
        self.v = nn.Linear(D, D)
        self.out = nn.Linear(D, D)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Mix the real positions of every sequence."""
        check_length(x.shape[1], self.longest)
        logits = self.made(x)
        if self.q is not None and self.k is not None:
            q = split_heads(self.q(x), self.heads)
            k = split_heads(self.k(x), self.heads)
            logits = logits + q @ k.transpose(-1, -2) * self.size**-0.5
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        visible = key_mask(padding_mask)
        if self.causal:
            earlier = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
            visible = earlier if visible is None else visible & earlier
        if visible is not None:
            logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        weights = logits.softmax(-1)
        v = split_heads(self.v(x), self.heads)
        return self.out(merge_heads(weights.to(v.dtype) @ v))


class Dense(nn.Module):
    """Attention logits computed by a two-layer network from every position."""

    def __init__(self, context: LayerContext, settings: Synthesizer) -> None:
        super().__init__()
        size = context.width // settings.heads
        self.heads = settings.heads
        self.up = nn.Linear(context.width, context.width)
        self.down = nn.Parameter(torch.randn(self.heads, size, context.length) * size**-0.5)

    def forward(self, x: Vectors) -> Float[Tensor, "B H L L"]:
        """Return A of the module docstring."""
        return split_heads(self.up(x).relu(), self.heads) @ self.down[..., : x.shape[1]]


class Random(nn.Module):
    """Attention logits that are learned for every pair of positions, independent of the input."""

    def __init__(self, context: LayerContext, settings: Synthesizer) -> None:
        super().__init__()
        L = context.length
        self.table = nn.Parameter(torch.randn(settings.heads, L, L) * L**-0.5)

    def forward(self, x: Vectors) -> Float[Tensor, "H L L"]:
        """Return A of the module docstring."""
        return self.table[:, : x.shape[1], : x.shape[1]]


class Factorised(nn.Module):
    """The learned attention logits as a product of low rank."""

    def __init__(self, context: LayerContext, settings: Synthesizer) -> None:
        super().__init__()
        size = (settings.heads, context.length, settings.rank)
        scale = (settings.rank * context.length) ** -0.25
        self.left, self.right = (nn.Parameter(torch.randn(size) * scale) for _ in range(2))

    def forward(self, x: Vectors) -> Float[Tensor, "H L L"]:
        """Return A of the module docstring."""
        return self.left[:, : x.shape[1]] @ self.right[:, : x.shape[1]].transpose(-1, -2)


mixer = Synthesizer
