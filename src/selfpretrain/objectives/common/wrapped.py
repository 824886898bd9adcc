"""Base class of objectives that change another objective: its batches in training, or its answers."""

from dataclasses import replace
from operator import attrgetter

import torch
from torch import Tensor, nn

from ...config import spec
from ...data.dataset import Batch, SequenceDataset
from ...data.spec import SequenceSpec
from ..base import Objective, ObjectiveBatch
from .heads import Pooling


@spec
class Wrapped(Objective):
    """Another objective, with its head, batches, loss and metrics; subclasses change some of these."""

    objective: Objective

    # Properties, as these are those of the wrapped objective.
    labelled = property(attrgetter("objective.labelled"))
    target_type = property(attrgetter("objective.target_type"))
    masks_inputs = property(attrgetter("objective.masks_inputs"))
    needs_causal = property(attrgetter("objective.needs_causal"))
    pools = property(attrgetter("objective.pools"))
    whole_batch = property(attrgetter("objective.whole_batch"))
    reads_inputs = property(attrgetter("objective.reads_inputs"))

    def measured(self, train: SequenceDataset) -> "Wrapped":
        """Return the objective, with another one that has measured the training sequences."""
        return replace(self, objective=self.objective.measured(train))

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return the head of the objective."""
        return self.objective.head(form, width, pooling)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the targets of the objective."""
        return self.objective.make_targets(batch, form, random)

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the loss of the objective."""
        return self.objective.loss(outputs, targets, form)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return the metric sums of the objective."""
        return self.objective.metric_sums(outputs, targets, form)

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return the metrics of the objective."""
        return self.objective.scores(metric_sums)

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """Return the shares of the objective, see ``Objective.shares``."""
        return self.objective.shares(outputs, targets)

    def confidence(self, outputs: Tensor) -> Tensor | None:
        """Return the predicted probability of each answer."""
        return self.objective.confidence(outputs)

    def predict(self, outputs: Tensor) -> Tensor:
        """Return the answers of the objective."""
        return self.objective.predict(outputs)
