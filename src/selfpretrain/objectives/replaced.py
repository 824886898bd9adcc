"""Replaced tokens: say of every position whether its input was exchanged for another one.

Every real position is chosen with probability ``rate``, and its input is exchanged for the one that another
sequence of the batch has there; where the other one is equal, or has ended, nothing is replaced. The loss is
the cross-entropy of two classes at all real positions.

Source: Clark et al. (2020), ELECTRA; Krishna et al. (2023), arXiv 2209.14389, self-pretrain with it. What
differs from them: there a small network, trained by masking at the same time, writes the replacements; here
they are drawn from what occurs at a position, so that no second network has to be trained, and some are
easily found.
"""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import nn

from ..config import Share, spec
from ..data.dataset import Batch, to_device
from ..data.spec import SequenceSpec
from .base import Denoise, ObjectiveBatch
from .common.heads import PerPosition, Pooling
from .common.reconstruction import at_least_one


@spec
class Replaced(Denoise):
    """Cross-entropy of whether the input at a position was replaced."""

    sees_answers: ClassVar[bool] = True

    rate: Share = 0.15  # probability of choosing a position

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a linear head with two outputs at every position."""
        return PerPosition(width, 2)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with some inputs replaced, and whether each was, drawn on the CPU."""
        real = batch.real()
        chosen = at_least_one(torch.rand(real.shape, generator=random), self.rate, real)
        shift = int(torch.randint(1, max(2, len(real)), (), generator=random))
        chosen = to_device(chosen & real.roll(shift, 0), batch.inputs.device)
        chosen = chosen.view(*chosen.shape, *[1] * (batch.inputs.ndim - 2))
        inputs = torch.where(chosen, batch.inputs.roll(shift, 0), batch.inputs)
        replaced = (inputs != batch.inputs).flatten(2).any(2) if inputs.ndim > 2 else inputs != batch.inputs
        return ObjectiveBatch(
            replace(batch, inputs=inputs), replaced.long()[..., None], real.sum(), loss_mask=real
        )


objective = Replaced
