"""Base class of objectives that change another objective: its batches in training, or its answers."""

from dataclasses import replace
from operator import attrgetter

from ...config import spec
from ...data.dataset import SequenceDataset
from ..base import Objective


@spec
class Wrapped(Objective):
    """Another objective, with its head, batches, loss and metrics; subclasses change some of these."""

    objective: Objective

    # Attributes and methods are those of the wrapped objective.
    labelled = property(attrgetter("objective.labelled"))
    target_type = property(attrgetter("objective.target_type"))
    masks_inputs = property(attrgetter("objective.masks_inputs"))
    needs_causal = property(attrgetter("objective.needs_causal"))
    pools = property(attrgetter("objective.pools"))
    whole_batch = property(attrgetter("objective.whole_batch"))
    reads_inputs = property(attrgetter("objective.reads_inputs"))
    head = property(attrgetter("objective.head"))
    make_targets = property(attrgetter("objective.make_targets"))
    loss = property(attrgetter("objective.loss"))
    metric_sums = property(attrgetter("objective.metric_sums"))
    scores = property(attrgetter("objective.scores"))
    shares = property(attrgetter("objective.shares"))
    confidence = property(attrgetter("objective.confidence"))
    predict = property(attrgetter("objective.predict"))

    def measured(self, train: SequenceDataset) -> "Wrapped":
        """Return the objective, with another one that has measured the training sequences."""
        return replace(self, objective=self.objective.measured(train))
