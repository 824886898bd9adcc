"""Output heads: one output per position, or one per example from pooled features."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...mixers.ops._exact import full_precision
from ...shapes import LossMask, PaddingMask, Vectors
from .latent import at_rows

Pooling = Literal["mean", "max", "last", "attention"]
Style = Literal["linear", "norm", "mlp", "mlp-relu"]


class PerPosition(nn.Module):
    """A linear head at every position of the loss mask."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, outputs)

    def forward(
        self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: LossMask = None
    ) -> Float[Tensor, "outputs K"]:
        """Return the outputs at the positions of the loss mask (None: all), sequence by sequence."""
        return self.linear(at_rows(x, loss_mask))


class Pooled(nn.Module):
    """A head with one output per example, from features pooled over real positions.

    Two views a, b of an example are combined as [a, b, a - b, a * b].
    Source: Amos et al. (2024), appendix C (Retrieval), after Tay et al. (2021).
    """

    def __init__(self, width: int, outputs: int, pooling: Pooling, style: Style, views: int = 1) -> None:
        super().__init__()
        self.pooling = pooling
        self.views = views
        D = {1: width, 2: 4 * width}.get(views, views * width)
        hidden = nn.Linear(D, width)  # for every style, so that later random draws do not depend on it
        transforms = {
            "linear": nn.Identity(),
            "norm": nn.LayerNorm(D),
            "mlp": nn.Sequential(hidden, nn.GELU()),
            "mlp-relu": nn.Sequential(hidden, nn.ReLU()),
        }
        self.before = transforms[style]  # part of the names of saved weights
        self.linear = nn.Linear(width if style.startswith("mlp") else D, outputs)
        # Zeros, so that it starts as the mean, and draws no random numbers.
        self.query = nn.Parameter(torch.zeros(width)) if pooling == "attention" else None

    def forward(
        self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: LossMask = None
    ) -> Float[Tensor, "outputs K"]:
        """Return one output per example."""
        pooled = self.pool(x, padding_mask)
        views = (pooled,) if self.views == 1 else pooled.chunk(self.views)
        if self.views == 2:
            a, b = views
            views = (a, b, a - b, a * b)
        with full_precision(x.device):  # cheap in fp32, while bf16 would round outputs to one part in 256
            return self.linear(self.before(torch.cat(views, dim=-1).to(self.linear.weight.dtype)))

    def pool(self, x: Vectors, padding_mask: PaddingMask) -> Float[Tensor, "B D"]:
        """Return one vector per sequence, as the head sees it; attention: sum_t softmax(x . query)_t x_t."""
        if self.query is None:
            return pool(x, padding_mask, self.pooling)
        scores = (x @ self.query[:, None].to(x.dtype))[..., 0]
        if padding_mask is not None:
            scores = scores.masked_fill(~padding_mask, -torch.inf)
        return (scores.softmax(-1).to(x.dtype)[:, None] @ x)[:, 0]


def pool_features(
    head: nn.Module, x: Vectors, padding_mask: PaddingMask, pooling: Pooling
) -> Float[Tensor, "B D"]:
    """Return one vector per sequence, pooled as by the head or by a part of it.

    A head that answers at every position learns no attention, so that this is then the mean.
    """
    for part in head.modules():
        if isinstance(part, Pooled):
            return part.pool(x, padding_mask)
    return pool(x, padding_mask, "mean" if pooling == "attention" else pooling)


def pool(x: Vectors, padding_mask: PaddingMask, pooling: Pooling) -> Float[Tensor, "B D"]:
    """Return the mean, maximum or last vector of the real positions of every sequence."""
    if pooling == "last":
        if padding_mask is None:
            return x[:, -1]
        # Not len(x), which torch.export takes as a constant.
        return x[torch.arange(x.shape[0], device=x.device), padding_mask.sum(1) - 1]
    if pooling == "max":
        return (x if padding_mask is None else x.masked_fill(~padding_mask[..., None], -torch.inf)).amax(1)
    if padding_mask is None:
        return x.mean(1)
    real = padding_mask[..., None].to(x.dtype)
    return (x * real).sum(1) / real.sum(1)
