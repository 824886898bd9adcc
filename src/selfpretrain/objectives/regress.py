"""Regression: predict one real number per example, in the user's units.

The loss standardises targets by the mean and spread of the training labels; scores are in the user's units.
"""

from typing import cast

import torch
from torch import Tensor, nn

from ..config import spec
from ..data.spec import Reals, SequenceSpec
from ..shapes import LossMask, PaddingMask, Vectors
from .base import ObjectiveBatch, Supervised, target_of, weighted_sum
from .common.heads import Pooled, Pooling, Style


@spec
class Regress(Supervised):
    """Mean squared error of standardised targets; the score is R2 over the whole split."""

    target_type = Reals

    style: Style = "norm"  # head on pooled features: linear, linear after a layer norm, or an MLP

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a head on pooled features whose output is in the user's units."""
        return Rescaled(super().head(form, width, pooling), target_of(self, form))

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the sum of squared errors, in units of the training targets' variance."""
        return weighted_sum(((outputs[:, 0] - targets.labels) / target_of(self, form).spread) ** 2, targets)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return the sums of examples, errors and centred targets, from which ``scores`` computes R2."""
        error = (outputs[:, 0] - targets.labels).double()
        centred = (targets.labels - target_of(self, form).centre).double()
        return {
            "examples": targets.size,
            "loss": self.loss(outputs, targets, form),
            "absolute": error.abs().sum(),
            "squared": (error**2).sum(),
            "target": centred.sum(),
            "target squared": (centred**2).sum(),
        }

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return R2, mean absolute error and root mean squared error (the errors in the user's units)."""
        n = metric_sums["examples"]
        total = metric_sums["target squared"] - metric_sums["target"] ** 2 / n
        r2 = 1 - metric_sums["squared"] / total if total > 0 else float("nan")
        rmse = (metric_sums["squared"] / n) ** 0.5
        return {
            "score": r2,
            "r2": r2,
            "mae": metric_sums["absolute"] / n,
            "rmse": rmse,
            "loss": metric_sums["loss"] / n,
        }

    def predict(self, outputs: Tensor) -> Tensor:
        """Return the value, in the user's units."""
        return outputs[:, 0]


class Rescaled(nn.Module):
    """A head whose standardised output is converted to the user's units."""

    def __init__(self, head: nn.Module, target: Reals) -> None:
        super().__init__()
        self.pooled = head
        self.target = target

    def forward(self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: LossMask = None) -> Tensor:
        """Return one value per example, in the user's units."""
        return self.target.centre + self.target.spread * self.pooled(x, padding_mask, loss_mask)

    @torch.no_grad()
    def rescale(self, target: Reals) -> None:
        """Change centre and spread, and the weights such that the outputs stay what they are."""
        linear = cast(Pooled, self.pooled).linear
        shift = (self.target.centre - target.centre) / target.spread
        linear.weight *= self.target.spread / target.spread
        linear.bias.mul_(self.target.spread / target.spread).add_(shift)
        self.target = target


objective = Regress
