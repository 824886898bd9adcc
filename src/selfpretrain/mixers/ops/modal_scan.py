"""Diagonal linear recurrence (damped oscillations), computed at all positions at once by FFT."""

import torch
from jaxtyping import Complex
from torch import Tensor

from ._exact import full_precision
from ._modes import powers
from .longconv import fast_length

Modes = Complex[Tensor, "B N"]


def modal_scan(
    u: Complex[Tensor, "B L N"], rate: Complex[Tensor, "N"], state: Modes
) -> tuple[Complex[Tensor, "B L N"], Modes]:
    """Return z[t] = exp(rate) z[t-1] + u[t], and the state after the last position.

    Args:
        rate: log of each mode's factor, in double precision.
        state: z before the first position.
    """
    L = u.shape[1]
    n = fast_length(2 * L - 1)
    with full_precision(u.device):
        table = powers(rate, 1, L + 1, u.dtype)
        spectrum = torch.fft.fft(u.mT, n=n) * torch.fft.fft(table[:L].mT, n=n)
        z = torch.fft.ifft(spectrum, n=n)[..., :L].mT + table[1:] * state[:, None]
    return z, z[:, -1]
