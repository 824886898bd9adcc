"""Output heads: one output per position, or one per example from pooled features."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...mixers.ops._exact import full_precision
from ...shapes import Answered, PaddingMask, Vectors

Pooling = Literal["mean", "max", "last"]
Style = Literal["linear", "norm", "mlp", "mlp-relu"]


class PerPosition(nn.Module):
    """A linear head at every position of the loss mask."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, outputs)

    def forward(
        self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: Answered = None
    ) -> Float[Tensor, "answers K"]:
        """Return the outputs at the positions of the loss mask (None: all), sequence by sequence."""
        flat = x.flatten(0, 1)
        if loss_mask is not None:
            flat = x[loss_mask] if loss_mask.dtype == torch.bool else flat.index_select(0, loss_mask)
        return self.linear(flat)


class Pooled(nn.Module):
    """A head with one output per example, from features pooled over real positions.

    Two views a, b of an example are combined as [a, b, a - b, a * b].
    Source: Amos et al. (2024), appendix C (Retrieval), after Tay et al. (2021).
    """

    def __init__(self, width: int, outputs: int, pooling: Pooling, style: Style, views: int = 1) -> None:
        super().__init__()
        self.pooling, self.views = pooling, views
        D = {1: width, 2: 4 * width}.get(views, views * width)
        masked = nn.Linear(D, width)  # for every style, so that later random draws do not depend on it
        before = {
            "linear": nn.Identity(),
            "norm": nn.LayerNorm(D),
            "mlp": nn.Sequential(masked, nn.GELU()),
            "mlp-relu": nn.Sequential(masked, nn.ReLU()),
        }
        self.before = before[style]
        self.linear = nn.Linear(width if style.startswith("mlp") else D, outputs)

    def forward(
        self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: Answered = None
    ) -> Float[Tensor, "answers K"]:
        """Return one output per example."""
        pooled = pool(x, padding_mask, self.pooling)
        views = (pooled,) if self.views == 1 else pooled.chunk(self.views)
        if self.views == 2:
            a, b = views
            views = (a, b, a - b, a * b)
        with full_precision(x.device):  # cheap in fp32, while bf16 would round outputs to one part in 256
            return self.linear(self.before(torch.cat(views, dim=-1).to(self.linear.weight.dtype)))


def pool(x: Vectors, padding_mask: PaddingMask, how: Pooling) -> Float[Tensor, "B D"]:
    """Return the mean, maximum or last vector of the real positions of every sequence."""
    if how == "last":
        last = (
            torch.full_like(x[:, 0, 0], x.shape[1], dtype=torch.long)
            if padding_mask is None
            else padding_mask.sum(1)
        )
        return x[torch.arange(len(x), device=x.device), last - 1]
    if how == "max":
        return (x if padding_mask is None else x.masked_fill(~padding_mask[..., None], -torch.inf)).amax(1)
    if padding_mask is None:
        return x.mean(1)
    real = padding_mask[..., None].to(x.dtype)
    return (x * real).sum(1) / real.sum(1)
