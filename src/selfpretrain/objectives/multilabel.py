"""Multi-label classification: predict for every class whether it belongs to the example."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import Positive, spec
from ..data.spec import ClassSets, SequenceSpec
from .base import ObjectiveBatch, Supervised, class_weights, weighted_sum
from .common.heads import Style


@spec
class Multilabel(Supervised):
    """Binary cross-entropy, averaged over the classes; the score is micro F1."""

    target_type = ClassSets

    style: Style = "norm"  # head on pooled features: linear, linear after a layer norm, or an MLP
    weights: tuple[Positive, ...] = ()  # weight of the positive labels of each class in the loss; empty: 1

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the sum over examples of the mean binary cross-entropy over classes, in nats."""
        losses = F.binary_cross_entropy_with_logits(
            outputs,
            targets.labels.to(outputs.dtype),
            reduction="none",
            pos_weight=class_weights(self.weights, outputs.shape[1], outputs),
        )
        return weighted_sum(losses.mean(1), targets)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return the sums of examples, losses, predicted labels, true labels, both, and equal sets."""
        y_pred = self.predict(outputs) > 0
        y_true = targets.labels > 0
        return {
            "examples": targets.size,
            "loss": self.loss(outputs, targets, form),
            "predicted": y_pred.sum(),
            "there": y_true.sum(),
            "right": (y_pred & y_true).sum(),
            "equal": (y_pred == y_true).all(1).sum(),
        }

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return micro F1, exact match (share of examples with exactly the right set), and mean loss."""
        n = metric_sums["examples"]
        labels = metric_sums["predicted"] + metric_sums["there"]
        f1 = 2 * metric_sums["right"] / labels if labels else 1.0
        exact = metric_sums["equal"] / n
        return {"score": f1, "micro F1": f1, "exact match": exact, "loss": metric_sums["loss"] / n}

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """Return (examples, 3): 2 x correct labels, predicted plus true labels, and true labels."""
        y_pred = self.predict(outputs) > 0
        y_true = targets.labels > 0
        n_correct = (y_pred & y_true).sum(1)
        n_true = y_true.sum(1)
        return torch.stack([2 * n_correct, y_pred.sum(1) + n_true, n_true], dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """Return (n, K): 1 where the probability of a class exceeds 1/2, else 0."""
        return (outputs > 0).long()


objective = Multilabel
