"""Classification: name the class of the whole example. Training from scratch is this objective alone."""

import torch.nn.functional as F
from torch import Tensor

from ..config import Positive, Rate, spec
from ..data.spec import Classes, SequenceSpec
from .base import ObjectiveBatch, Supervised, class_weights, weighted_sum
from .common.heads import Style


@spec
class Classify(Supervised):
    """Cross-entropy over the classes; the score is accuracy."""

    target_type = Classes

    style: Style = "norm"  # head on pooled features: linear, linear after a layer norm, or an MLP
    weights: tuple[Positive, ...] = ()  # class weights in the loss; empty: equal weights
    smoothing: Rate = 0.0  # label smoothing: share of every label spread evenly over all classes

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the sum of cross-entropies, in nats, with class and example weights and label smoothing."""
        weights = class_weights(self.weights, outputs.shape[1], outputs)
        reduction = "sum" if targets.batch.weights is None else "none"
        losses = F.cross_entropy(
            outputs, targets.labels, weights, reduction=reduction, label_smoothing=self.smoothing
        )
        return weighted_sum(losses, targets)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return the sums of examples, losses and correct predictions."""
        right = (outputs.argmax(-1) == targets.labels).sum()
        return {"examples": targets.size, "loss": self.loss(outputs, targets, form), "right": right}

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return accuracy in [0, 1] and mean loss."""
        accuracy = metric_sums["right"] / metric_sums["examples"]
        return {
            "score": accuracy,
            "accuracy": accuracy,
            "loss": metric_sums["loss"] / metric_sums["examples"],
        }

    def confidence(self, outputs: Tensor) -> Tensor:
        """Return the probability of the most probable class."""
        return outputs.float().softmax(-1).amax(-1)

    def predict(self, outputs: Tensor) -> Tensor:
        """Return the most probable class."""
        return outputs.argmax(-1)


objective = Classify
