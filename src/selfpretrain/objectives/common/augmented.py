"""Objective on augmented batches: in training, inputs are changed in ways that keep the labels.

Validation and test see the sequences as they are.
"""

import torch

from ...config import spec
from ...data.dataset import Augmentation, Batch
from ...data.spec import SequenceSpec
from ...registry import name_of
from ..base import ObjectiveBatch
from .wrapped import Wrapped


@spec
class Augmented(Wrapped):
    """Another objective, whose batches are changed first."""

    augmentation: Augmentation

    @property
    def name(self) -> str:
        """Return the name of runs: that of the objective, marked as augmented."""
        return f"augmented-{name_of(self.objective)}"

    @property
    def reads_inputs(self) -> bool:  # type: ignore[override]  # those of both
        """Return whether the objective or the augmentation computes with inputs in main memory."""
        return self.objective.reads_inputs or self.augmentation.reads_inputs

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the targets of the batch, changed if gradients are enabled."""
        if torch.is_grad_enabled():
            batch = self.augmentation.apply(batch, form, random)
        return self.objective.make_targets(batch, form, random)
