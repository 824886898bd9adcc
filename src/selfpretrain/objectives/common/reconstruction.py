"""Rebuilding inputs from vectors: what masked and causal denoising share.

Symbols are told by cross-entropy over the vocabulary; values by their standardised L1 distance, or by
cross-entropy over evenly spaced levels (256 for pixels; Amos et al. 2024, section 2).
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ...data.spec import SequenceSpec, Tokens, Values
from ...shapes import Inputs

Distance = Literal["auto", "l1", "levels"]
LEVELS = 256


def levels_of(form: SequenceSpec, distance: Distance) -> int | None:
    """How many classes tell a channel; None: its distance does. "auto" takes levels where there are any."""
    if isinstance(form.signal, Tokens):
        return form.signal.vocab
    if distance == "l1" or (distance == "auto" and form.signal.levels is None):
        return None
    return form.signal.levels or LEVELS


def outputs_of(form: SequenceSpec, distance: Distance) -> int:
    """How many numbers a head must give per position."""
    channels = form.signal.channels if isinstance(form.signal, Values) else 1
    return channels * (levels_of(form, distance) or 1)


def reconstruction_target(
    inputs: Inputs, form: SequenceSpec, distance: Distance
) -> Int[Tensor, "B L C"] | Float[Tensor, "B L C"]:
    """What the answers are compared with: symbols, levels, or standardised values."""
    if isinstance(form.signal, Tokens):
        return inputs[..., None]
    signal, levels = form.signal, levels_of(form, distance)
    if levels is None:
        return signal.standardised(inputs)
    return signal.level_of(inputs, levels)


def loss(outputs: Tensor, right: Tensor) -> Tensor:
    """Sum over positions of the loss, averaged over channels."""
    channels = right.shape[-1]
    if right.is_floating_point():
        return F.l1_loss(outputs, right, reduction="sum") / channels
    return F.cross_entropy(_by_channel(outputs, channels), right.flatten(), reduction="sum") / channels


def metric_sums(outputs: Tensor, right: Tensor) -> dict[str, Tensor]:
    """Sums of positions and losses; of right answers, or of errors and values where there are no classes."""
    sums = {"positions": torch.tensor(float(len(right))), "loss": loss(outputs, right)}
    if right.is_floating_point():
        sums |= {
            "values": torch.tensor(float(right.numel())),
            "squared": ((outputs - right).double() ** 2).sum(),
            "value": right.double().sum(),
            "value squared": (right.double() ** 2).sum(),
        }
    else:
        best = _by_channel(outputs, right.shape[-1]).argmax(-1)
        sums["right"] = (best == right.flatten()).sum() / right.shape[-1]
    return sums


def _by_channel(outputs: Tensor, channels: int) -> Float[Tensor, "scored V"]:
    """Return the logits of every channel of every position, of which there may be none."""
    positions, logits = outputs.shape
    return outputs.view(positions * channels, logits // channels)


def scores(sums: dict[str, float]) -> dict[str, float]:
    """Mean loss, its negative as the score, and accuracy, or R2 where there are no classes."""
    mean = sums["loss"] / max(sums["positions"], 1.0)
    named = {"score": -mean, "loss": mean}
    if "right" in sums:
        return named | {"accuracy": sums["right"] / max(sums["positions"], 1.0)}
    total = sums["value squared"] - sums["value"] ** 2 / max(sums["values"], 1.0)
    return named | {"r2": 1 - sums["squared"] / total if total > 0 else 0.0}
