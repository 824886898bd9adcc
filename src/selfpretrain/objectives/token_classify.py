"""Segmentation: name the class of every position, as in tagging words, marking genes or finding events."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import Positive, spec
from ..data.dataset import Batch
from ..data.spec import PositionClasses, SequenceSpec
from ..errors import SpecError
from .base import Objective, ObjectiveBatch, class_weights, target_of
from .common.heads import PerPosition, Pooling

UNKNOWN = -1
MAX_COUNTED = 10
"""Maximum number of classes that are counted one by one, for Matthews' correlation."""


@spec
class TokenClassify(Objective):
    """Cross-entropy over the classes at every labelled position; the score is accuracy.

    Of up to ten classes Matthews' correlation (MCC) is reported, too.
    """

    labelled = True
    target_type = PositionClasses
    pools = False

    weights: tuple[Positive, ...] = ()  # class weights in the loss; empty: equal weights

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a linear head with the logits of the classes at every position."""
        classes = target_of(self, form).outputs
        class_weights(self.weights, classes)
        if form.views > 1:
            raise SpecError("token-classify labels positions of one sequence; these examples have several")
        return PerPosition(width, classes)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with a loss mask of all real positions; unlabelled ones get the label -1.

        The loss ignores them. The loss mask does not depend on labels, to avoid synchronising with the GPU.
        """
        L = batch.inputs.shape[1]
        labels = F.pad(batch.targets.long(), (0, max(0, L - batch.targets.shape[1])), value=UNKNOWN)[:, :L]
        labels = labels if batch.padding_mask is None else labels.masked_fill(~batch.padding_mask, UNKNOWN)
        return ObjectiveBatch(batch, labels, (labels != UNKNOWN).sum(), loss_mask=batch.real())

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the sum of the cross-entropies, in nats."""
        weights = class_weights(self.weights, outputs.shape[1], outputs)
        losses = F.cross_entropy(
            outputs, targets.selected_labels(), weights, ignore_index=UNKNOWN, reduction="none"
        )
        if targets.batch.weights is None or targets.rows is None:
            return losses.sum()
        return (losses * targets.batch.weights[targets.rows // targets.labels.shape[1]]).sum()

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return the sums of labelled positions, losses, correct predictions, and of each of few classes."""
        labels = targets.selected_labels()
        predicted = self.predict(outputs)
        known = labels != UNKNOWN
        sums = {"positions": known.sum(), "loss": self.loss(outputs, targets, form)}
        sums["right"] = (predicted == labels).sum()
        if outputs.shape[1] <= MAX_COUNTED:
            for k in range(outputs.shape[1]):
                sums[f"true {k}"] = (labels == k).sum()
                sums[f"predicted {k}"] = ((predicted == k) & known).sum()
        return sums

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return accuracy over positions, in [0, 1], mean loss and, of few classes, MCC."""
        n = max(metric_sums["positions"], 1.0)
        accuracy = metric_sums["right"] / n
        found = {"score": accuracy, "accuracy": accuracy, "loss": metric_sums["loss"] / n}
        true, predicted = (
            [value for name, value in metric_sums.items() if name.startswith(kind)]
            for kind in ("true ", "predicted ")
        )
        return found | ({"MCC": matthews(true, predicted, metric_sums["right"])} if true else {})

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """Return (examples, 3): correct positions, labelled positions, and the latter again."""
        right = torch.zeros_like(targets.labels, dtype=torch.bool).flatten()
        right[targets.rows] = self.predict(outputs) == targets.selected_labels()
        n_labelled = (targets.labels != UNKNOWN).sum(1)
        return torch.stack([right.view_as(targets.labels).sum(1), n_labelled, n_labelled], dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """Return the most probable class at every real position."""
        return outputs.argmax(-1)


def matthews(true: Sequence[float], predicted: Sequence[float], right: float) -> float:
    """Return Matthews' correlation (n r - sum_k t_k p_k) / sqrt((n^2 - sum t_k^2) (n^2 - sum p_k^2)).

    t_k and p_k are the numbers of true and predicted positions of class k, n their sum, and r the number of
    correct predictions. It is 0 if only one class is there or predicted.
    Source: Gorodkin (2004), Comparing two K-category assignments by a K-category correlation coefficient.
    """
    n = sum(true)
    chance = sum(t * p for t, p in zip(true, predicted, strict=True))
    spread = (n**2 - sum(t**2 for t in true)) * (n**2 - sum(p**2 for p in predicted))
    return (n * right - chance) / math.sqrt(spread) if spread > 0 else 0.0


objective = TokenClassify
