"""Powers of damped oscillations, exact at any length."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def powers(rate: Tensor, step: int, count: int, like: torch.dtype) -> Tensor:
    """Return exp(rate step j) for j < count along the second to last axis: (..., N) to (..., count, N).

    Single precision cannot represent a phase of thousands of radians, so exponentials are computed in double,
    but only about 2 sqrt(count) of them: the others are products of two.

    Args:
        rate: real or complex, in double precision.
        like: precision of the result.
    """
    fine = max(1, math.isqrt(count))
    coarse = -(-count // fine)
    a = _exp_table(rate, step * fine, coarse).to(like)[..., :, None, :]
    b = _exp_table(rate, step, fine).to(like)[..., None, :, :]
    return (a * b).flatten(-3, -2)[..., :count, :]


def as_real(z: Tensor) -> Float[Tensor, "..."]:
    """Interleave real and imaginary parts on the last axis: (..., N) to (..., 2N)."""
    return torch.view_as_real(z).flatten(-2) if z.is_complex() else z


def as_modes(x: Tensor, like: Tensor) -> Tensor:
    """Undo ``as_real`` if ``like`` is complex."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2))) if like.is_complex() else x


def _exp_table(rate: Tensor, step: int, count: int) -> Tensor:
    j = torch.arange(count, dtype=torch.float64, device=rate.device)[:, None] * step
    if not rate.is_complex():
        return torch.exp(rate[..., None, :] * j)
    # On CPUs the exponential of complex numbers takes ten times as long as these three.
    size = torch.exp(rate.real[..., None, :] * j)
    angle = rate.imag[..., None, :] * j
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))
