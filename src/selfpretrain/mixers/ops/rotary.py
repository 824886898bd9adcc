"""Rotary position encoding: pairs of features are rotated by an angle proportional to the position."""

import torch
from jaxtyping import Float
from torch import Tensor


def angles(length: int, size: int, base: float = 10_000.0) -> Float[Tensor, "L half"]:
    """Return theta[t, m] = t * base^(-2m/size) for m < size/2, in radians; computed in float64.

    Source: Su et al. (2021), RoFormer, eq. 15.
    """
    frequency = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    return torch.outer(torch.arange(length, dtype=torch.float64), frequency)


def rotate(
    x: Float[Tensor, "B H L E"], cos: Float[Tensor, "L half"], sin: Float[Tensor, "L half"]
) -> Float[Tensor, "B H L E"]:
    """Rotate the pair of features m and m + E/2 by the angle of its position."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
