"""Regression: tell the real number that belongs to the whole example, in the user's units.

Targets are standardised by the training labels inside; scores are in the user's units.
"""

from torch import Tensor, nn

from ..config import spec
from ..data.spec import Reals, SequenceSpec
from ..shapes import Answered, PaddingMask, Vectors
from .base import ObjectiveBatch, Supervised, target_of, weighed
from .common.heads import Pooling, Style


@spec
class Regress(Supervised):
    """Mean squared error of standardised targets; the score is R2 over the whole split."""

    answers = Reals

    style: Style = "norm"  # of the head on pooled features: linear, linear after a layer norm, or an mlp

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """One number in the user's units from pooled features."""
        return Rescaled(super().head(form, width, pooling), target_of(self, form))

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Sum of squared errors, in squared standard deviations of the training targets."""
        return weighed(((outputs[:, 0] - targets.labels) / target_of(self, form).spread) ** 2, targets)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Sums of examples, errors and centred targets, from which R2 over the whole split follows."""
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
        """R2, mean absolute error and root mean squared error, the latter two in the user's units."""
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
        """The value, in the user's units."""
        return outputs[:, 0]


class Rescaled(nn.Module):
    """A head whose standardised answer is put into the user's units."""

    def __init__(self, head: nn.Module, target: Reals) -> None:
        super().__init__()
        self.pooled, self.target = head, target

    def forward(self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: Answered = None) -> Tensor:
        """Answers of the examples, in the user's units."""
        return self.target.centre + self.target.spread * self.pooled(x, padding_mask, loss_mask)


objective = Regress
