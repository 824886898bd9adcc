"""Objective on masked inputs: in training, the network does not see some positions, and answers as ever.

A rate r is drawn from U(0, highest) for every example, and each of its positions is masked with probability
r, as in pretraining: the network sees the mask token there. Validation and test see the whole sequences.

Source: Gao et al. (2025), arXiv 2510.04071, for next tokens; labels here.
"""

from dataclasses import replace

import torch

from ...config import Share, spec
from ...data.dataset import Batch
from ...data.spec import SequenceSpec
from ...registry import name_of
from ..base import ObjectiveBatch
from .wrapped import Wrapped


@spec
class MaskedInputs(Wrapped):
    """Another objective, whose inputs are masked at random; it must not mask inputs itself."""

    masks_inputs = True

    highest: Share = 0.5  # rates are drawn from U(0, highest)

    @property
    def name(self) -> str:
        """Return the name of runs: that of the objective, marked as of masked inputs."""
        return f"noisy-{name_of(self.objective)}"

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the targets of the batch and, if gradients are enabled, masked positions."""
        targets = self.objective.make_targets(batch, form, random)
        if not torch.is_grad_enabled():
            return targets
        real = targets.batch.real()
        rate = (self.highest * torch.rand(len(real) // batch.views, generator=random)).repeat(batch.views)
        return replace(targets, masked=(torch.rand(real.shape, generator=random) < rate[:, None]) & real)
