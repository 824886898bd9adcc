"""Masked denoising: predict the inputs at randomly masked positions.

Every real position is masked independently with probability ``rate``, drawn again for every batch; the loss
is taken over masked positions only. A batch has at least one: if none is drawn, as may happen with a few
short sequences, the position with the smallest random number is masked.

Source: Amos et al. (2024), section 2; appendix C.3 for rates.
"""

import torch

from ..config import Share, spec
from ..data.dataset import Batch
from ..data.spec import SequenceSpec
from .base import Denoise, ObjectiveBatch
from .common.reconstruction import Distance, at_least_one, usual_rate


@spec
class Masked(Denoise):
    """Cross-entropy of masked symbols or levels, or L1 distance of masked values."""

    masks_inputs = True

    rate: Share = 0.15  # probability of masking a position
    distance: Distance = "auto"  # loss of values: levels (cross-entropy) if they are quantised, else l1

    @classmethod
    def for_signal(cls, form: SequenceSpec) -> "Masked":
        """Return the objective with the rate for a signal, see ``usual_rate``."""
        return cls(usual_rate(form))

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with a mask, drawn on the CPU so that it is the same on all devices."""
        chance = torch.rand(batch.inputs.shape[:2], generator=random)
        masked = at_least_one(chance, self.rate, batch.real())
        return ObjectiveBatch(
            batch, self.reconstruction_target(batch, form), masked.sum(), masked=masked, loss_mask=masked
        )


objective = Masked
