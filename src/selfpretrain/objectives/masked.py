"""Masked denoising: tell what stands at randomly hidden positions.

Every real position is hidden with probability ``rate``, independently and anew every time; the loss is
taken over hidden positions only. A batch has at least one: where chance hides none, as it may in a few short
sequences, the position with the smallest random number is hidden.

Source: Amos et al. (2024), section 2; appendix C.3 for rates.
"""

import torch

from ..data.examples import Batch
from ..data.schema import Form, Tokens
from ..spec import Share, spec
from ._rebuild import Distance
from .base import Denoise, Targets


@spec
class Masked(Denoise):
    """Cross-entropy of hidden symbols or levels, or L1 distance of hidden values."""

    hides = True

    rate: Share = 0.15
    distance: Distance = "auto"  # of values: levels (cross-entropy) where they are quantised, l1 elsewhere

    @classmethod
    def for_signal(cls, form: Form) -> "Masked":
        """15 % of symbols, half of quantised values (pixels), a quarter of other values."""
        signal = form.signal
        return cls(0.15 if isinstance(signal, Tokens) else 0.5 if signal.levels else 0.25)

    def make_targets(self, batch: Batch, form: Form, random: torch.Generator) -> Targets:
        """Hide positions; the random numbers are drawn on the CPU, so that all devices hide the same ones."""
        chance = torch.rand(batch.inputs.shape[:2], generator=random)
        real = batch.real()
        hidden = (chance < self.rate) & real
        if not hidden.any():  # a few short sequences: the position that came nearest is asked for
            chance = chance.masked_fill(~real, torch.inf)
            hidden = torch.zeros_like(real)
            hidden.view(-1)[chance.argmin()] = True
        return Targets(
            batch, self.reconstruction_target(batch, form), hidden.sum(), hidden=hidden, counts=hidden
        )


objective = Masked
