"""Convolution with kernels as long as the sequence, by FFT in O(L log L)."""

import functools

import torch
from jaxtyping import Float
from torch import Tensor


def causal_conv(u: Float[Tensor, "B L H"], kernel: Float[Tensor, "H L"]) -> Float[Tensor, "B L H"]:
    """y[t] = sum_{j >= 0} kernel[j] u[t - j], per channel."""
    L = u.shape[1]
    n = fast_length(2 * L - 1)
    return _convolve(u, kernel, n)


def two_sided_conv(
    u: Float[Tensor, "B L H"], past: Float[Tensor, "H L"], future: Float[Tensor, "H L"]
) -> Float[Tensor, "B L H"]:
    """y[t] = sum_{j >= 0} past[j] u[t - j] + sum_{j >= 0} future[j] u[t + 1 + j], per channel.

    Source: Amos et al. (2024), the bidirectional S4 of their code: the future starts at lag 1.
    """
    L = u.shape[1]
    n = fast_length(2 * L)
    both = torch.cat([past, past.new_zeros(past.shape[0], n - 2 * L), future.flip(-1)], dim=-1)
    return _convolve(u, both, n)


@functools.cache
def fast_length(n: int) -> int:
    """The smallest number from ``n`` on with no prime factors but 2, 3 and 5: FFTs of that size are fast."""
    while not _smooth(n):
        n += 1
    return n


def _convolve(u: Float[Tensor, "B L H"], kernel: Float[Tensor, "H M"], n: int) -> Float[Tensor, "B L H"]:
    # FFTs exist in single and double precision only; under autocast the kernel would lose digits silently.
    with torch.autocast(u.device.type, enabled=False):
        wide = torch.promote_types(u.dtype, torch.float32)
        spectrum = torch.fft.rfft(kernel.to(wide), n=n)
        y = torch.fft.irfft(torch.fft.rfft(u.to(wide).transpose(1, 2), n=n) * spectrum, n=n)
    return y[..., : u.shape[1]].transpose(1, 2).to(u.dtype)


def _smooth(n: int) -> bool:
    for prime in (2, 3, 5):
        while n % prime == 0:
            n //= prime
    return n == 1
