"""Convolution with kernels as long as the sequence, by FFT in O(L log L)."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import exact

BLOCK = 1 << 21
"""Bytes per block of FFTs on CPUs, so that a block stays in a core's cache throughout."""

Sequences = Float[Tensor, "B L H"]
Taps = Float[Tensor, "H T"]


def causal_conv(u: Sequences, kernel: Taps) -> Sequences:
    """Return y[t] = sum_{j >= 0} kernel[j] u[t - j], per channel; lags beyond the kernel are zero."""
    kernel = kernel[:, : u.shape[1]]
    if torch.compiler.is_exporting():
        return _direct(u, kernel, 0)
    return _convolve(u, _around(kernel, None, fast_length(u.shape[1] + kernel.shape[1] - 1)))


def two_sided_conv(u: Sequences, past: Taps, future: Taps) -> Sequences:
    """Return y[t] = sum_{j >= 0} past[j] u[t - j] + sum_{j >= 0} future[j] u[t + 1 + j], per channel.

    Source: Amos et al. (2024), the bidirectional S4 of their code: the future starts at lag 1.
    """
    L = u.shape[1]
    if torch.compiler.is_exporting():
        return _direct(u, torch.cat([future[:, :L].flip(-1), past[:, :L]], dim=-1), L)
    return _convolve(u, _around(past[:, :L], future[:, :L], fast_length(2 * L)))


def _direct(u: Sequences, kernel: Taps, ahead: int) -> Sequences:
    """Return the convolution without FFT, which export formats do not support for arbitrary lengths.

    Args:
        kernel: the lag of its first tap is -ahead.
    """
    padded = F.pad(u.transpose(1, 2), (kernel.shape[1] - 1 - ahead, ahead))
    return F.conv1d(padded, kernel.flip(-1)[:, None].to(u.dtype), groups=u.shape[2]).transpose(1, 2)


def fast_length(n: int) -> int:
    """Return the smallest number >= ``n`` with no prime factors but 2, 3 and 5, a fast size for FFTs."""
    while not _smooth(n):
        n += 1
    return n


def _around(past: Taps, future: Taps | None, n: int) -> Float[Tensor, "H n"]:
    """Return both kernels as one circular kernel of size n: lag j at j, lag -1 - j at n - 1 - j."""
    between = n - past.shape[1] - (0 if future is None else future.shape[1])
    parts = [past, past.new_zeros(len(past), between)]
    return torch.cat(parts if future is None else [*parts, future.flip(-1)], dim=-1)


def _convolve(u: Sequences, circle: Float[Tensor, "H n"]) -> Sequences:
    # FFTs support fp32 and fp64 only; under autocast the kernel would lose digits silently.
    with exact(u.device):
        circle = circle.to(torch.promote_types(u.dtype, torch.float32))
        if u.device.type != "cpu":
            return circular(u, circle)
        return _Blocked.apply(u, circle)


def circular(u: Sequences, circle: Float[Tensor, "H n"]) -> Sequences:
    """Return the circular convolution of sequences padded to the length of the kernels, in one piece."""
    n = circle.shape[1]
    spectrum = torch.fft.rfft(u.to(circle.dtype).transpose(1, 2), n=n) * torch.fft.rfft(circle)
    return torch.fft.irfft(spectrum, n=n)[..., : u.shape[1]].transpose(1, 2).to(u.dtype)


class _Blocked(torch.autograd.Function):
    """``circular`` in blocks of a few channels and sequences; spectra are stored for the backward pass."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, circle: Tensor) -> Tensor:
        u = u.contiguous()
        L, n, y, kept = u.shape[1], circle.shape[1], torch.empty_like(u), []
        kernel = torch.fft.rfft(circle)[:, None]
        for rows, lanes in _blocks(u, circle):
            turned, out = _turned(u[rows], circle.dtype), circle.new_empty(u.shape[2], len(u[rows]), L)
            for part in lanes:
                spectrum = torch.fft.rfft(turned[part], n=n)
                kept.append(spectrum)
                out[part] = torch.fft.irfft(spectrum * kernel[part], n=n)[..., :L]
            _turn_back(out, y[rows])
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(kernel, *kept)
            ctx.circle = circle.shape, circle.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        kernel, *kept = ctx.saved_tensors
        spectra, grad = iter(kept), grad.contiguous()
        circle = grad.new_empty(ctx.circle[0], dtype=ctx.circle[1])
        L, n, of_u = grad.shape[1], circle.shape[1], torch.empty_like(grad)
        mirrored, total = torch.conj_physical(kernel), torch.zeros_like(kernel[:, 0])
        for rows, lanes in _blocks(grad, circle):
            turned, out = (
                _turned(grad[rows], circle.dtype),
                circle.new_empty(grad.shape[2], len(grad[rows]), L),
            )
            for part in lanes:
                spectrum = torch.fft.rfft(turned[part], n=n)
                out[part] = torch.fft.irfft(spectrum * mirrored[part], n=n)[..., :L]
                total[part] += spectrum.mul_(torch.conj_physical(next(spectra))).sum(1)
            _turn_back(out, of_u[rows])
        return of_u, torch.fft.irfft(total, n=n)


def _blocks(u: Sequences, circle: Float[Tensor, "H n"]) -> Iterator[tuple[slice, list[slice]]]:
    """Yield groups of sequences, each with groups of channels, such that a block fits into the cache."""
    (B, _, H), n = u.shape, circle.shape[1]
    values = BLOCK // circle.element_size()
    rows = max(1, values // (H * n))
    lanes = max(1, values // (rows * n))
    channels = [slice(at, min(at + lanes, H)) for at in range(0, H, lanes)]
    for at in range(0, B, rows):
        yield slice(at, min(at + rows, B)), channels


def _turned(u: Sequences, dtype: torch.dtype) -> Float[Tensor, "H B L"]:
    """Move channels first; a matrix transpose is four times as fast as a permutation of three axes."""
    return u.to(dtype).flatten(0, 1).T.contiguous().unflatten(1, u.shape[:2])


def _turn_back(out: Float[Tensor, "H B L"], y: Sequences) -> None:
    y.flatten(0, 1).copy_(out.flatten(1).T)


def _smooth(n: int) -> bool:
    for prime in (2, 3, 5):
        while n % prime == 0:
            n //= prime
    return n == 1
