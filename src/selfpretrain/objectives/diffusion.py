"""Masked diffusion: predict masked positions, at a masking rate drawn for every sequence and batch.

A rate r is drawn from U(lowest, 1) for every example, every real position is masked with probability r, and
the loss of a masked position is weighted by 1 / r: in expectation, the sum is a bound on the negative log
likelihood of the sequences. Weights are divided by their mean over the masked positions of the batch, where
the source divides by the number of all positions.

Source: Nie et al. (2025), Large language diffusion models, eq. 3 (``lowest`` is an epsilon of their code);
Prabhudesai et al. (2025), Diffusion beats autoregressive in data-constrained settings.
"""

import torch

from ..config import Share, spec
from ..data.dataset import Batch
from ..data.spec import SequenceSpec
from .base import Denoise, ObjectiveBatch
from .common.reconstruction import Distance, at_least_one


@spec
class Diffusion(Denoise):
    """Weighted cross-entropy of masked symbols or levels, or weighted L1 distance of masked values."""

    masks_inputs = True

    lowest: Share = 1e-3  # smallest masking rate
    distance: Distance = "auto"  # loss of values: levels (cross-entropy) if they are quantised, else l1

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with a mask and weights; both views of an example have the same rate."""
        real = batch.real()
        drawn = torch.rand(len(real) // batch.views, generator=random)
        rate = (self.lowest + (1 - self.lowest) * drawn).repeat(batch.views)
        masked = at_least_one(torch.rand(real.shape, generator=random) / rate[:, None], 1.0, real)
        weights = (1 / rate)[:, None].expand(real.shape)
        target = self.reconstruction_target(batch, form)
        channels = target.shape[-1]
        weights = (weights / weights[masked].mean())[..., None].expand(*real.shape, channels) / channels
        return ObjectiveBatch(
            batch, target, masked.sum(), masked=masked, loss_mask=masked, position_weights=weights
        )


objective = Diffusion
