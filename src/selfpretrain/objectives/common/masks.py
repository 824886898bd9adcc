"""Masks of random positions."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def at_least_one(
    chance: Float[Tensor, "B L"], below: float, real: Bool[Tensor, "B L"]
) -> Bool[Tensor, "B L"]:
    """Return which real positions have a number below a limit; if none has, that with the smallest number."""
    masked = (chance < below) & real
    if masked.any():
        return masked
    masked.view(-1)[chance.masked_fill(~real, torch.inf).argmin()] = True
    return masked
