"""Several labels at once: tell of every class whether it belongs to the example."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import Positive, spec
from ..data.spec import ClassSets, SequenceSpec
from .base import ObjectiveBatch, Supervised, class_weights, weighed
from .common.heads import Style


@spec
class Multilabel(Supervised):
    """Binary cross-entropy, averaged over the classes; the score is micro F1."""

    answers = ClassSets

    style: Style = "norm"  # of the head on pooled features: linear, linear after a layer norm, or an mlp
    weights: tuple[Positive, ...] = ()  # what a yes to each class counts in the loss; none: as much as a no

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Sum over examples of the mean cross-entropy of their classes, in nats."""
        found = F.binary_cross_entropy_with_logits(
            outputs,
            targets.labels.to(outputs.dtype),
            reduction="none",
            pos_weight=class_weights(self.weights, outputs.shape[1], outputs),
        )
        return weighed(found.mean(1), targets)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Sums of examples and losses; of classes that were told, that are there, and both; of equal sets."""
        told, there = self.predict(outputs) > 0, targets.labels > 0
        return {
            "examples": targets.size,
            "loss": self.loss(outputs, targets, form),
            "told": told.sum(),
            "there": there.sum(),
            "right": (told & there).sum(),
            "equal": (told == there).all(1).sum(),
        }

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Micro F1, the share of examples whose set is told exactly, and mean loss."""
        n, both = metric_sums["examples"], metric_sums["told"] + metric_sums["there"]
        f1 = 2 * metric_sums["right"] / both if both else 1.0
        exact = metric_sums["equal"] / n
        return {"score": f1, "micro F1": f1, "exact match": exact, "loss": metric_sums["loss"] / n}

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """(examples, 3) twice the labels told rightly, those told and those there, and the latter."""
        told, there = self.predict(outputs) > 0, targets.labels > 0
        right, labels = (told & there).sum(1), there.sum(1)
        return torch.stack([2 * right, told.sum(1) + labels, labels], dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """(n, K) 1 where a class is more probable than not."""
        return (outputs > 0).long()


objective = Multilabel
