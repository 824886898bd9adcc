"""Convolution with kernels as long as the sequence, by FFT in O(L log L)."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision

BLOCK = 1 << 21  # bytes per block of FFTs on CPUs, so that a block stays in a core's cache throughout
GPU_BLOCK = 1 << 28
"""Bytes per block on other devices, so that few kernels are launched and what a block needs is small."""

Sequences = Float[Tensor, "B L H"]
Taps = Float[Tensor, "H T"]


def causal_conv(u: Sequences, kernel: Taps) -> Sequences:
    """Return y[t] = sum_{j >= 0} kernel[j] u[t - j], per channel; lags beyond the kernel are zero."""
    kernel = kernel[:, : u.shape[1]]
    if torch.compiler.is_exporting():
        return _direct_conv(u, kernel, 0)
    return _fft_conv(u, _circular_kernel(kernel, None, fast_length(u.shape[1] + kernel.shape[1] - 1)))


def two_sided_conv(u: Sequences, past: Taps, future: Taps) -> Sequences:
    """Return y[t] = sum_{j >= 0} past[j] u[t - j] + sum_{j >= 0} future[j] u[t + 1 + j], per channel.

    Source: Amos et al. (2024), the bidirectional S4 of their code: the future starts at lag 1.
    """
    L = u.shape[1]
    if torch.compiler.is_exporting():
        return _direct_conv(u, torch.cat([future[:, :L].flip(-1), past[:, :L]], dim=-1), L)
    return _fft_conv(u, _circular_kernel(past[:, :L], future[:, :L], fast_length(2 * L)))


def _direct_conv(u: Sequences, kernel: Taps, ahead: int) -> Sequences:
    """Return the convolution without FFT, which export formats do not support for arbitrary lengths.

    Args:
        kernel: the lag of its first tap is -ahead.
    """
    padded = F.pad(u.transpose(1, 2), (kernel.shape[1] - 1 - ahead, ahead))
    return F.conv1d(padded, kernel.flip(-1)[:, None].to(u.dtype), groups=u.shape[2]).transpose(1, 2)


def fast_length(n: int) -> int:
    """Return the smallest number >= ``n`` with no prime factors but 2, 3 and 5, a fast size for FFTs."""
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return n
        n += 1


def _circular_kernel(past: Taps, future: Taps | None, n: int) -> Float[Tensor, "H n"]:
    """Return both kernels as one circular kernel of size n: lag j at j, lag -1 - j at n - 1 - j."""
    between = n - past.shape[1] - (0 if future is None else future.shape[1])
    parts = [past, past.new_zeros(len(past), between)]
    return torch.cat(parts if future is None else [*parts, future.flip(-1)], dim=-1)


def _fft_conv(u: Sequences, kernel_circle: Float[Tensor, "H n"]) -> Sequences:
    # FFTs support fp32 and fp64 only; under autocast the kernel would lose digits silently.
    with full_precision(u.device):
        return _BlockedConv.apply(u, kernel_circle.to(torch.promote_types(u.dtype, torch.float32)))


class _BlockedConv(torch.autograd.Function):
    """A circular convolution by blocks of channels and sequences; it stores spectra for the backward pass.

    Automatic differentiation would store the padded inputs and the uncut outputs, too: twice as much.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, kernel_circle: Tensor) -> Tensor:
        u = u.contiguous()
        L = u.shape[1]
        n = kernel_circle.shape[1]
        y = torch.empty_like(u)
        spectra = []
        kernel = torch.fft.rfft(kernel_circle)[:, None]
        for rows, channel_blocks in _blocks(u, kernel_circle):
            turned = _channels_first(u[rows], kernel_circle.dtype)
            out = kernel_circle.new_empty(u.shape[2], len(u[rows]), L)
            for part in channel_blocks:
                spectrum = torch.fft.rfft(turned[part], n=n)
                spectra.append(spectrum)
                out[part] = torch.fft.irfft(spectrum * kernel[part], n=n)[..., :L]
            _copy_channels_last(out, y[rows])
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(kernel, *spectra)
            ctx.kernel_circle = kernel_circle.shape, kernel_circle.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        kernel, *saved = ctx.saved_tensors
        spectra = iter(saved)
        grad = grad.contiguous()
        kernel_circle = grad.new_empty(ctx.kernel_circle[0], dtype=ctx.kernel_circle[1])
        L = grad.shape[1]
        n = kernel_circle.shape[1]
        of_u = torch.empty_like(grad)
        mirrored = torch.conj_physical(kernel)
        total = torch.zeros_like(kernel[:, 0])
        for rows, channel_blocks in _blocks(grad, kernel_circle):
            turned = _channels_first(grad[rows], kernel_circle.dtype)
            out = kernel_circle.new_empty(grad.shape[2], len(grad[rows]), L)
            for part in channel_blocks:
                spectrum = torch.fft.rfft(turned[part], n=n)
                out[part] = torch.fft.irfft(spectrum * mirrored[part], n=n)[..., :L]
                total[part] += spectrum.mul_(torch.conj_physical(next(spectra))).sum(1)
            _copy_channels_last(out, of_u[rows])
        return of_u, torch.fft.irfft(total, n=n)


def _blocks(u: Sequences, kernel_circle: Float[Tensor, "H n"]) -> Iterator[tuple[slice, list[slice]]]:
    """Yield groups of sequences, each with groups of channels, such that a block fits its size."""
    B, _, H = u.shape
    n = kernel_circle.shape[1]
    values = (BLOCK if u.device.type == "cpu" else GPU_BLOCK) // kernel_circle.element_size()
    rows = max(1, values // (H * n))
    channels = max(1, values // (rows * n))
    channel_blocks = [slice(start, min(start + channels, H)) for start in range(0, H, channels)]
    for start in range(0, B, rows):
        yield slice(start, min(start + rows, B)), channel_blocks


def _channels_first(u: Sequences, dtype: torch.dtype) -> Float[Tensor, "H B L"]:
    """Move channels first; a matrix transpose is four times as fast as a permutation of three axes."""
    return u.to(dtype).flatten(0, 1).T.contiguous().unflatten(1, u.shape[:2])


def _copy_channels_last(out: Float[Tensor, "H B L"], y: Sequences) -> None:
    y.flatten(0, 1).copy_(out.flatten(1).T)
