"""Reconstruction of inputs: masks, levels and losses shared by masked and causal denoising.

The loss of symbols is cross-entropy over the vocabulary; that of values is the L1 distance of standardised
values, or cross-entropy over evenly spaced levels (256 for pixels; Amos et al. 2024, section 2).
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from ...data.spec import SequenceSpec, Tokens
from ...errors import SpecError

Distance = Literal["auto", "l1", "levels"]
LEVELS = 256


def levels_of(form: SequenceSpec, distance: Distance) -> int | None:
    """Return the number of classes per channel; None: L1 distance. "auto" uses levels if there are any.

    Raises:
        SpecError: if the values of a channel differ by less than a few levels, as beside one in larger units.
    """
    if isinstance(form.signal, Tokens):
        return form.signal.vocab
    if distance == "l1" or (distance == "auto" and form.signal.levels is None):
        return None
    levels = form.signal.levels or LEVELS
    step = (form.signal.high - form.signal.low) / (levels - 1)
    several = form.signal.channels > 1 and form.signal.levels is None
    # Four standard deviations on both sides: nearly all of its values.
    if several and (low := [at for at, spread in enumerate(form.signal.spread) if 8 * spread < step]):
        said = f"channel {low[0] + 1} of {form.signal.channels} varies by less than one of {levels} levels"
        raise SpecError(f"distance=levels: {said}; bring channels to one scale, or use distance=l1")
    return levels


def loss(outputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """Return the loss summed over positions and averaged over channels, or with weights (positions, C)."""
    channels = targets.shape[-1]
    if weights is not None:
        return (_losses(outputs, targets) * weights.flatten()).sum()
    if targets.is_floating_point():
        return F.l1_loss(outputs, targets, reduction="sum") / channels
    return F.cross_entropy(by_channel(outputs, channels), targets.flatten(), reduction="sum") / channels


def _losses(outputs: Tensor, targets: Tensor) -> Float[Tensor, "scored"]:
    if targets.is_floating_point():
        return F.l1_loss(outputs, targets, reduction="none").flatten()
    return F.cross_entropy(by_channel(outputs, targets.shape[-1]), targets.flatten(), reduction="none")


def right(outputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """Return the sum over positions of the share of right channels, of those with a weight above 0."""
    found = by_channel(outputs, targets.shape[-1]).argmax(-1).view_as(targets) == targets
    if weights is None:
        return found.sum() / targets.shape[-1]
    asked = weights > 0
    return ((found & asked).sum(-1) / asked.sum(-1).clamp(min=1)).sum()


def by_channel(outputs: Tensor, channels: int) -> Float[Tensor, "scored V"]:
    """Return outputs reshaped to one row of logits per position and channel; there may be no positions."""
    positions, logits = outputs.shape
    return outputs.view(positions * channels, logits // channels)


def usual_rate(form: SequenceSpec) -> float:
    """Return the masking rate for a signal: 0.15 for symbols, 0.5 for levels, else 0.25."""
    if isinstance(form.signal, Tokens):
        return 0.15
    return 0.5 if form.signal.levels else 0.25


def followed(real: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
    """Return which positions have a successor that is no padding."""
    wanted = torch.zeros_like(real)
    wanted[:, :-1] = real[:, :-1] & real[:, 1:]
    return wanted


def at_least_one(
    chance: Float[Tensor, "B L"], below: float, real: Bool[Tensor, "B L"]
) -> Bool[Tensor, "B L"]:
    """Return which real positions have a number below a limit; if none has, that with the smallest number."""
    masked = (chance < below) & real
    if masked.any():
        return masked
    masked.view(-1)[chance.masked_fill(~real, torch.inf).argmin()] = True
    return masked
