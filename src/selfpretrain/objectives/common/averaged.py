"""Objective of an ensemble: every network has its own loss, and one answer is made of all of theirs.

The answer is the mean of the predicted probabilities (of classes, or of every class of a set) or of the
predicted values. Gradients of a network do not depend on the others.

Source: Lakshminarayanan et al. (2017), Simple and scalable predictive uncertainty estimation using deep
ensembles, section 2.4.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...config import Count, spec
from ...data.spec import ClassSets, Reals, SequenceSpec, Target
from ..base import ObjectiveBatch
from .heads import Pooling
from .wrapped import Wrapped


@spec
class Averaged(Wrapped):
    """The sum of the losses of several networks; metrics and answers are those of their mean prediction."""

    members: Count

    @property
    def name(self) -> str:
        """Return the name of runs: that of the objective, and the number of networks."""
        return f"{self.members}-{type(self.objective).__name__.lower()}"

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.ModuleList:
        """Return one head for every network, each with its own initial weights."""
        return nn.ModuleList(self.objective.head(form, width, pooling) for _ in range(self.members))

    def loss(
        self, outputs: Float[Tensor, "members answers K"], targets: ObjectiveBatch, form: SequenceSpec
    ) -> Tensor:
        """Return the sum of the losses of all networks."""
        return torch.stack([self.objective.loss(each, targets, form) for each in outputs]).sum()

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return the metric sums of the mean prediction."""
        return self.objective.metric_sums(self._combine(outputs), targets, form)

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """Return the shares of the mean prediction, see ``Objective.shares``."""
        return self.objective.shares(self._combine(outputs), targets)

    def confidence(self, outputs: Tensor) -> Tensor | None:
        """Return the mean probability of each answer."""
        return self.objective.confidence(self._combine(outputs))

    def predict(self, outputs: Tensor) -> Tensor:
        """Return the answers of the mean prediction."""
        return self.objective.predict(self._combine(outputs))

    def _combine(self, outputs: Tensor) -> Tensor:
        return mean_prediction(outputs, self.objective.target_type)


def mean_prediction(
    outputs: Float[Tensor, "members answers K"], target: type[Target] | None
) -> Float[Tensor, "answers K"]:
    """Return outputs of one network that predicts the mean of the probabilities or values of several."""
    if target is Reals:
        return outputs.mean(0)
    if target is ClassSets:
        present = torch.logsumexp(nn.functional.logsigmoid(outputs), 0)
        absent = torch.logsumexp(nn.functional.logsigmoid(-outputs), 0)
        return present - absent
    return torch.logsumexp(outputs.log_softmax(-1), 0) - math.log(len(outputs))
