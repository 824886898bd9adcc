"""Segmentation: name the class of every position, as in tagging words, marking genes or finding events."""

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


@spec
class TokenClassify(Objective):
    """Cross-entropy over the classes at every labelled position; the score is accuracy."""

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
        """Return the sums of labelled positions, losses and correct predictions."""
        labels = targets.selected_labels()
        right = (self.predict(outputs) == labels).sum()
        n_labelled = (labels != UNKNOWN).sum()
        return {"positions": n_labelled, "loss": self.loss(outputs, targets, form), "right": right}

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return accuracy over positions, in [0, 1], and mean loss."""
        n = max(metric_sums["positions"], 1.0)
        accuracy = metric_sums["right"] / n
        return {"score": accuracy, "accuracy": accuracy, "loss": metric_sums["loss"] / n}

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """Return (examples, 3): correct positions, labelled positions, and the latter again."""
        right = torch.zeros_like(targets.labels, dtype=torch.bool).flatten()
        right[targets.rows] = self.predict(outputs) == targets.selected_labels()
        n_labelled = (targets.labels != UNKNOWN).sum(1)
        return torch.stack([right.view_as(targets.labels).sum(1), n_labelled, n_labelled], dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """Return the most probable class at every real position."""
        return outputs.argmax(-1)


objective = TokenClassify
