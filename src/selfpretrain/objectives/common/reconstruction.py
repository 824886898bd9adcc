"""Reconstruction of inputs: masks, targets, losses and metrics shared by masked and causal denoising.

The loss of symbols is cross-entropy over the vocabulary; that of values is the L1 distance of standardised
values, or cross-entropy over evenly spaced levels (256 for pixels; Amos et al. 2024, section 2).
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...data.spec import SequenceSpec, Tokens, Values
from ...shapes import Inputs

Distance = Literal["auto", "l1", "levels"]
LEVELS = 256


def levels_of(form: SequenceSpec, distance: Distance) -> int | None:
    """Return the number of classes per channel; None: L1 distance. "auto" uses levels if there are any."""
    if isinstance(form.signal, Tokens):
        return form.signal.vocab
    if distance == "l1" or (distance == "auto" and form.signal.levels is None):
        return None
    return form.signal.levels or LEVELS


def outputs_of(form: SequenceSpec, distance: Distance) -> int:
    """Return the number of outputs of the head per position."""
    channels = form.signal.channels if isinstance(form.signal, Values) else 1
    return channels * (levels_of(form, distance) or 1)


def reconstruction_target(
    inputs: Inputs, form: SequenceSpec, distance: Distance
) -> Int[Tensor, "B L C"] | Float[Tensor, "B L C"]:
    """Return the targets at every position: symbols, levels, or standardised values."""
    if isinstance(form.signal, Tokens):
        return inputs[..., None]
    signal = form.signal
    levels = levels_of(form, distance)
    if levels is None:
        return signal.standardise(inputs)
    return signal.level_of(inputs, levels)


def loss(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the loss summed over positions and averaged over channels, or with weights (positions, C)."""
    channels = targets.shape[-1]
    if weights is not None:
        return (_losses(outputs, targets) * weights.flatten()).sum()
    if targets.is_floating_point():
        return F.l1_loss(outputs, targets, reduction="sum") / channels
    return F.cross_entropy(_by_channel(outputs, channels), targets.flatten(), reduction="sum") / channels


def _losses(outputs: Tensor, targets: Tensor) -> Float[Tensor, "scored"]:
    if targets.is_floating_point():
        return F.l1_loss(outputs, targets, reduction="none").flatten()
    return F.cross_entropy(_by_channel(outputs, targets.shape[-1]), targets.flatten(), reduction="none")


def metric_sums(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> dict[str, Tensor]:
    """Return the sums of positions and losses; and of correct answers or, for L1, of errors and values."""
    sums = {"positions": torch.tensor(float(len(targets))), "loss": loss(outputs, targets, weights)}
    if targets.is_floating_point():
        sums |= {
            "values": torch.tensor(float(targets.numel())),
            "squared": ((outputs - targets).double() ** 2).sum(),
            "value": targets.double().sum(),
            "value squared": (targets.double() ** 2).sum(),
        }
    else:
        predictions = _by_channel(outputs, targets.shape[-1]).argmax(-1)
        sums["right"] = (predictions == targets.flatten()).sum() / targets.shape[-1]
    return sums


def _by_channel(outputs: Tensor, channels: int) -> Float[Tensor, "scored V"]:
    """Return outputs reshaped to one row of logits per position and channel; there may be no positions."""
    positions, logits = outputs.shape
    return outputs.view(positions * channels, logits // channels)


def scores(sums: dict[str, float]) -> dict[str, float]:
    """Return the mean loss, the score (minus the loss), and accuracy or, for L1, R2."""
    mean = sums["loss"] / max(sums["positions"], 1.0)
    metrics = {"score": -mean, "loss": mean}
    if "right" in sums:
        return metrics | {"accuracy": sums["right"] / max(sums["positions"], 1.0)}
    total = sums["value squared"] - sums["value"] ** 2 / max(sums["values"], 1.0)
    return metrics | {"r2": 1 - sums["squared"] / total if total > 0 else 0.0}


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
