"""Modes, i.e. damped oscillations exp(rate l): their powers, convolution kernels as sums of them, and a scan.

Powers are exact at any length. The scan computes a diagonal recurrence at all positions at once, by FFT.

Kernels of diagonal state space models have modes of their own for every channel. They are computed without a
tensor of H x N x L, by baby and giant steps: with l = i s + j and s near sqrt(L), exp(rate l) is the product
of two small tables, so that the sum over modes is one real matrix product per channel.

Kernels of diagonal linear recurrences have many modes that all channels share. Lags are split into blocks of
T. All blocks share one table of powers; at block i the weights are multiplied by exp(rate i T), and modes
that have decayed by then are left out.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision
from .longconv import fast_length

Modes = Complex[Tensor, "H N"] | Float[Tensor, "H N"]
BLOCK = 1024  # lags per block; products with the block's table take nearly all of the time
State = Complex[Tensor, "B N"]


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


def modal_kernel(
    weight: Complex[Tensor, "c H N"] | Float[Tensor, "c H N"], rate: Modes, length: int
) -> Float[Tensor, "c H L"]:
    """Return K[c, h, l] = Re sum_n weight[c, h, n] exp(rate[h, n] l), for l < length.

    Args:
        weight: one per output, channel and mode; its precision is that of the kernel.
        rate: log of each mode's factor per position, complex if and only if ``weight`` is; best in double
            precision, as its rounding error is multiplied by the length.
    """
    return _Modal.apply(weight, rate, length)


class _Modal(torch.autograd.Function):
    """The sum above; the backward pass computes all gradients by two more such products."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rate: Tensor, length: int) -> Tensor:
        c, H, _ = weight.shape
        s = 1 << math.ceil(math.log2(c * length) / 2)
        giants = -(-length // s)
        wide = rate.to(torch.complex128 if rate.is_complex() else torch.float64)
        with full_precision(weight.device):
            baby = powers(wide, 1, s, weight.dtype)  # (H, s, N)
            giant = powers(wide, s, giants, weight.dtype)  # (H, G, N)
            turned = (weight.transpose(0, 1)[:, :, None] * giant[:, None]).flatten(1, 2)  # (H, c G, N)
            kernel = torch.bmm(as_real(torch.conj_physical(turned)), as_real(baby).transpose(1, 2))
        ctx.save_for_backward(weight, rate, baby, giant)
        return kernel.view(H, c, giants * s)[..., :length].transpose(0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        weight, rate, baby, giant = ctx.saved_tensors
        c, H, _ = weight.shape
        s = baby.shape[1]
        giants = giant.shape[1]
        missing = giants * s - grad.shape[-1]
        rows = F.pad(grad.transpose(0, 1), (0, missing)) if missing else grad.transpose(0, 1)
        rows = rows.reshape(H, c * giants, s)
        j = torch.arange(s, dtype=grad.dtype, device=grad.device)[:, None]
        i = torch.arange(giants, dtype=grad.dtype, device=grad.device)[:, None] * s
        with full_precision(grad.device):
            flat = as_real(baby)
            sums = as_modes(torch.bmm(rows, flat), baby).unflatten(1, (c, giants))  # (H, c, G, N)
            moments = as_modes(torch.bmm(rows, flat * j), baby).unflatten(1, (c, giants))
            of_rate = weight.transpose(0, 1) * ((sums * i + moments) * giant[:, None]).sum(2)
            of_weight = (sums * giant[:, None]).sum(2)
        return (
            torch.conj_physical(of_weight).transpose(0, 1),
            torch.conj_physical(of_rate.sum(1)).to(rate.dtype),
            None,
        )


def shared_kernel(
    weight: Complex[Tensor, "n H N"], rate: Complex[Tensor, "n N"], length: int, block: int = BLOCK
) -> Float[Tensor, "n H L"]:
    """Return K[i, h, l] = Re sum_n weight[i, h, n] exp(rate[i, n] l), for l < length.

    Args:
        weight: one per layer, channel and mode; its precision is that of the kernel.
        rate: log of each mode's factor per position, no real part above zero; best in double precision.
        block: lags that are computed together.
    """
    if _counts_modes(rate):
        order = rate.real.argsort(descending=True)  # slowest first, so that the remaining modes are a prefix
        rate = rate.take_along_dim(order, -1)
        weight = weight.take_along_dim(order[:, None], -1)
    return _Shared.apply(weight, rate, length, block)


class _Shared(torch.autograd.Function):
    """The sum above for modes in order of decay; tables are recomputed in the backward pass, not stored.

    Tables hold conjugate powers: the real part of a product of complex numbers is then one product of real
    ones, forward and backward.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rate: Tensor, length: int, block: int) -> Tensor:
        ctx.save_for_backward(weight, rate)
        ctx.block = block
        kernel = weight.real.new_empty(*weight.shape[:2], length)
        with full_precision(weight.device):
            table = _table(rate, length, block, weight.dtype)
            for part, turn, alive in _blocks(rate, length, block, weight.dtype):
                turned = as_real(weight[..., :alive] * turn)
                near = table[:, : part.stop - part.start, : 2 * alive]
                torch.bmm(turned, near.mT, out=kernel[..., part])
        return kernel

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        weight, rate = ctx.saved_tensors
        length = grad.shape[-1]
        of_weight = torch.zeros_like(weight)
        of_rate = torch.zeros_like(rate)
        lags = torch.arange(length, dtype=grad.dtype, device=grad.device)
        with full_precision(grad.device):
            table = _table(rate, length, ctx.block, weight.dtype)
            for part, turn, alive in _blocks(rate, length, ctx.block, weight.dtype):
                rows = grad[..., part]
                near = table[:, : part.stop - part.start, : 2 * alive]
                both = torch.bmm(torch.cat([rows, rows * lags[part]], dim=1), near)
                sums, moments = as_modes(both, weight).chunk(2, dim=1)
                of_weight[..., :alive].addcmul_(sums, turn.conj())
                of_rate[:, :alive] += torch.linalg.vecdot(weight[..., :alive] * turn, moments, dim=1)
        return of_weight, of_rate, None, None


def _table(rate: Tensor, length: int, block: int, like: torch.dtype) -> Float[Tensor, "n T modes"]:
    return as_real(powers(rate.to(torch.complex128).conj(), 1, min(block, length), like))


def _blocks(rate: Tensor, length: int, block: int, like: torch.dtype) -> Iterator[tuple[slice, Tensor, int]]:
    """Yield the lags of every block, the factors of the modes at its start, and how many have not decayed."""
    wide = rate.to(torch.complex128)
    starts = torch.arange(0, length, block, dtype=torch.float64, device=rate.device)
    dead = -math.log(torch.finfo(like).eps)  # decayed to the rounding error of the initial value
    alive = [rate.shape[1]] * len(starts)
    if _counts_modes(rate):
        decayed = -wide.real[:, None] * starts[:, None] >= dead  # False for NaN, which must propagate
        alive = (~decayed).sum(-1).amax(0).tolist()
    for start, count in zip(range(0, length, block), alive, strict=True):
        turn = powers(wide[:, :count] * start, 1, 2, like)[:, 1:]  # (n, 1, modes)
        yield slice(start, min(start + block, length)), turn, count


def _counts_modes(rate: Tensor) -> bool:
    """Return whether to leave out modes that have decayed; counting them would synchronise with a GPU."""
    return rate.device.type == "cpu"


def modal_scan(
    u: Complex[Tensor, "B L N"], rate: Complex[Tensor, "N"], state: State
) -> tuple[Complex[Tensor, "B L N"], State]:
    """Return z[t] = exp(rate) z[t-1] + u[t], and the state after the last position."""
    L = u.shape[1]
    n = fast_length(2 * L - 1)
    with full_precision(u.device):
        table = powers(rate, 1, L + 1, u.dtype)
        spectrum = torch.fft.fft(u.mT, n=n) * torch.fft.fft(table[:L].mT, n=n)
        z = torch.fft.ifft(spectrum, n=n)[..., :L].mT + table[1:] * state[:, None]
    return z, z[:, -1]
