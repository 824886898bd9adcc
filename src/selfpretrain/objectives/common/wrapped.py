"""Base class of objectives that change the batches of another objective in training."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from ...config import spec
from ...data.dataset import Batch, SequenceDataset
from ...data.spec import SequenceSpec, Target
from ..base import Objective, ObjectiveBatch
from .heads import Pooling


@spec
class Wrapped(Objective):
    """Another objective, with its head, loss and metrics; validation and test see its batches unchanged."""

    objective: Objective

    @property
    def labelled(self) -> bool:  # type: ignore[override]  # that of the objective
        """Return whether the objective uses labelled examples only."""
        return self.objective.labelled

    @property
    def target_type(self) -> type[Target] | None:  # type: ignore[override]  # that of the objective
        """Return the kind of target that the objective predicts; None: it reconstructs inputs."""
        return self.objective.target_type

    @property
    def masks_inputs(self) -> bool:  # type: ignore[override]  # that of the objective
        """Return whether the objective masks inputs."""
        return self.objective.masks_inputs

    @property
    def needs_causal(self) -> bool:  # type: ignore[override]  # that of the objective
        """Return whether the objective needs a causal model."""
        return self.objective.needs_causal

    @property
    def whole_batch(self) -> bool:  # type: ignore[override]  # that of the objective
        """Return whether the loss of the objective is of a batch as a whole."""
        return self.objective.whole_batch

    @property
    def reads_inputs(self) -> bool:  # type: ignore[override]  # that of the objective
        """Return whether the objective computes with inputs in main memory."""
        return self.objective.reads_inputs

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
