"""Causal denoising: predict the next position from this and all earlier ones.

There is no start token: the first position is never predicted, and the last has no successor. The model must
be causal, also in finetuning.

Source: Amos et al. (2024), section 2.
"""

import torch

from ..config import spec
from ..data.dataset import Batch
from ..data.spec import SequenceSpec
from .base import Denoise, ObjectiveBatch
from .common.reconstruction import Distance, followed


@spec
class Causal(Denoise):
    """Cross-entropy of the next symbol or level, or L1 distance of the next value."""

    needs_causal = True

    distance: Distance = "auto"  # loss of values: levels (cross-entropy) if they are quantised, else l1

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with the next position as label, and the positions that have one as loss mask."""
        loss_mask = followed(batch.real())
        return ObjectiveBatch(
            batch,
            self.reconstruction_target(batch, form).roll(-1, dims=1),
            size=loss_mask.sum(),
            loss_mask=loss_mask,
        )


objective = Causal
