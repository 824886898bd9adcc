"""Masked spans: predict stretches of the inputs, whose lengths are geometric, in every channel by itself.

In every sequence and channel, masked and unmasked stretches alternate; their lengths are geometric with means
``length`` and ``length (1 - rate) / rate``, so that a share ``rate`` is masked. A masked value is replaced by
the mean of its channel; where all channels of a position are masked, the network sees the mask token, too.
The loss of a position is the mean over its masked channels. Symbols are one channel.

Source: Zerveas et al. (2021), A transformer-based framework for multivariate time series representation
learning, section 3.3 and appendix A.1. What differs from it: the L1 distance or levels, not squared errors.
"""

from dataclasses import replace
from typing import Annotated

import torch
from jaxtyping import Bool
from pydantic import Field
from torch import Tensor

from ..config import Rate, spec
from ..data.dataset import Batch, per_channel, to_device
from ..data.spec import SequenceSpec, Values
from ..errors import SpecError
from .base import Denoise, ObjectiveBatch
from .common.reconstruction import Distance, at_least_one


@spec
class Spans(Denoise):
    """Cross-entropy of masked symbols or levels, or L1 distance of masked values."""

    masks_inputs = True

    rate: Annotated[Rate, Field(gt=0)] = 0.15  # share of masked positions
    length: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 3.0  # mean length of a masked stretch
    distance: Distance = "auto"  # loss of values: levels (cross-entropy) if they are quantised, else l1

    def __post_init__(self) -> None:
        if self.length * (1 - self.rate) < 1 - 1e-9:  # 10 * (1 - 0.9) is below 1
            raise SpecError(
                f"stretches of {self.length:g} positions cannot leave a share of {1 - self.rate:g} unmasked; "
                f"raise length to at least {1 / (1 - self.rate):.3g}, or lower rate"
            )

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with masked stretches, the same on all devices."""
        target = self.reconstruction_target(batch, form)
        real = batch.real()
        hidden = self.draw(len(real), real.shape[1], target.shape[-1], random) & real[..., None]
        if not hidden.any():  # a few short sequences
            chance = torch.rand(real.shape, generator=random)
            hidden = at_least_one(chance, 0.0, real)[..., None].expand_as(hidden)
        loss_mask = hidden.any(-1)
        weights = hidden / hidden.sum(-1, keepdim=True).clamp(min=1)
        if isinstance(form.signal, Values):  # masked values become the mean of their channel
            inputs = batch.inputs
            centre = per_channel(form.signal.centre, inputs)
            batch = replace(batch, inputs=torch.where(to_device(hidden, inputs.device), centre, inputs))
        return ObjectiveBatch(
            batch,
            target,
            loss_mask.sum(),
            masked=hidden.all(-1),
            loss_mask=loss_mask,
            position_weights=weights,
        )

    def draw(
        self, sequences: int, length: int, channels: int, random: torch.Generator
    ) -> Bool[Tensor, "B L C"]:
        """Return which values are masked.

        Masked and unmasked positions are the states of a Markov chain. A uniform number below the probability
        of masking masks whatever came before, one above that of staying masked unmasks, and any other keeps
        the state: that of a position is set by the last number of the first two kinds.
        """
        end = 1 / self.length
        begin = end * self.rate / (1 - self.rate)
        chance = torch.rand(sequences, length, channels, generator=random)
        sets = chance < begin
        decides = sets | (chance >= 1 - end)
        sets[:, 0] = chance[:, 0] < self.rate
        decides[:, 0] = True
        position = torch.arange(length)[:, None].expand_as(chance)
        last = torch.where(decides, position, 0).cummax(1).values
        return sets.gather(1, last)


objective = Spans
