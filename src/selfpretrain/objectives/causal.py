"""Causal denoising: tell the next position from all earlier ones.

There is no start symbol: the first position is never asked, the last has no successor. The model must be
causal, and stays so in finetuning.

Source: Amos et al. (2024), section 2.
"""

import torch

from ..data.examples import Batch
from ..data.schema import Form
from ..spec import spec
from ._rebuild import Distance
from .base import Denoise, Targets


@spec
class Causal(Denoise):
    """Cross-entropy of the next symbol or level, or L1 distance of the next value."""

    needs_causal = True

    distance: Distance = "auto"  # of values: levels (cross-entropy) where they are quantised, l1 elsewhere

    def make_targets(self, batch: Batch, form: Form, random: torch.Generator) -> Targets:
        """Ask every position that has a successor for it."""
        real = batch.real()
        counts = torch.zeros_like(real)
        counts[:, :-1] = real[:, :-1] & real[:, 1:]
        return Targets(
            batch, self.reconstruction_target(batch, form).roll(-1, dims=1), counts.sum(), counts=counts
        )


objective = Causal
