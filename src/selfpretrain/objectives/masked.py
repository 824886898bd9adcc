"""Masked denoising: tell what stands at randomly hidden positions.

Every real position is hidden with probability ``rate``, independently and anew every time; the loss is
taken over hidden positions only. A batch has at least one: where chance hides none, as it may in a few short
sequences, the position with the smallest random number is hidden.

Source: Amos et al. (2024), section 2; appendix C.3 for rates.
"""

import torch

from ..config import Share, spec
from ..data.dataset import Batch
from ..data.spec import SequenceSpec, Tokens
from .base import Denoise, ObjectiveBatch
from .common.reconstruction import Distance


@spec
class Masked(Denoise):
    """Cross-entropy of hidden symbols or levels, or L1 distance of hidden values."""

    hides = True

    rate: Share = 0.15
    distance: Distance = "auto"  # of values: levels (cross-entropy) where they are quantised, l1 elsewhere

    @classmethod
    def for_signal(cls, form: SequenceSpec) -> "Masked":
        """15 % of symbols, half of quantised values (pixels), a quarter of other values."""
        signal = form.signal
        return cls(0.15 if isinstance(signal, Tokens) else 0.5 if signal.levels else 0.25)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Hide positions; the random numbers are drawn on the CPU, so that all devices hide the same ones."""
        chance = torch.rand(batch.inputs.shape[:2], generator=random)
        real = batch.real()
        masked = (chance < self.rate) & real
        if not masked.any():  # a few short sequences: the position that came nearest is asked for
            chance = chance.masked_fill(~real, torch.inf)
            masked = torch.zeros_like(real)
            masked.view(-1)[chance.argmin()] = True
        return ObjectiveBatch(
            batch, self.reconstruction_target(batch, form), masked.sum(), masked=masked, loss_mask=masked
        )


objective = Masked
