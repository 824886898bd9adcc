"""Convolution kernels of many modes shared by all channels, as in diagonal linear recurrences.

Lags are split into blocks of T. All blocks share one table of powers; at block i the weights are multiplied
by exp(rate i T), and modes that have decayed by then are left out.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision
from ._modes import as_modes, as_real, powers

BLOCK = 1024
"""Lags per block; products with the block's table take nearly all of the time."""


def shared_kernel(
    weight: Complex[Tensor, "c H N"], rate: Complex[Tensor, "N"], length: int, block: int = BLOCK
) -> Float[Tensor, "c H L"]:
    """Return K[c, h, l] = Re sum_n weight[c, h, n] exp(rate[n] l), for l < length.

    Args:
        weight: one per output, channel and mode; its precision is that of the kernel.
        rate: log of each mode's factor per position, no real part above zero; best in double precision.
        block: lags that are computed together.
    """
    order = rate.real.argsort(descending=True)  # slowest first, so that the remaining modes are a prefix
    kernel = _Shared.apply(weight.flatten(0, 1)[:, order], rate[order], length, block)
    return kernel.unflatten(0, weight.shape[:2])


class _Shared(torch.autograd.Function):
    """The sum above for modes in order of decay; tables are recomputed in the backward pass, not stored.

    Tables hold conjugate powers: the real part of a product of complex numbers is then one product of real
    ones, forward and backward.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rate: Tensor, length: int, block: int) -> Tensor:
        ctx.save_for_backward(weight, rate)
        ctx.block = block
        kernel = weight.real.new_empty(len(weight), length)
        with full_precision(weight.device):
            table = _table(rate, length, block, weight.dtype)
            for part, turn, alive in _blocks(rate, length, block, weight.dtype):
                turned = as_real(weight[:, :alive] * turn)
                torch.mm(turned, table[: part.stop - part.start, : 2 * alive].T, out=kernel[:, part])
        return kernel

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        weight, rate = ctx.saved_tensors
        length = grad.shape[1]
        of_weight = torch.zeros_like(weight)
        of_rate = torch.zeros_like(rate)
        lags = torch.arange(length, dtype=grad.dtype, device=grad.device)
        with full_precision(grad.device):
            table = _table(rate, length, ctx.block, weight.dtype)
            for part, turn, alive in _blocks(rate, length, ctx.block, weight.dtype):
                rows = grad[:, part]
                both = torch.cat([rows, rows * lags[part]]) @ table[: part.stop - part.start, : 2 * alive]
                sums, moments = as_modes(both, weight).chunk(2)
                of_weight[:, :alive].addcmul_(sums, turn.conj())
                of_rate[:alive] += torch.linalg.vecdot(weight[:, :alive] * turn, moments, dim=0)
        return of_weight, of_rate, None, None


def _table(rate: Tensor, length: int, block: int, like: torch.dtype) -> Float[Tensor, "T modes"]:
    return as_real(powers(rate.to(torch.complex128).conj(), 1, min(block, length), like))


def _blocks(rate: Tensor, length: int, block: int, like: torch.dtype) -> Iterator[tuple[slice, Tensor, int]]:
    """Yield the lags of every block, the factors of the modes at its start, and how many have not decayed."""
    wide = rate.to(torch.complex128)
    starts = torch.arange(0, length, block, dtype=torch.float64, device=rate.device)
    dead = -math.log(torch.finfo(like).eps)  # decayed to the rounding error of the initial value
    if rate.device.type == "cpu":
        decayed = -wide.real * starts[:, None] >= dead  # False for NaN, which must propagate
        alive = (~decayed).sum(1).tolist()
    else:  # counting them would synchronise with the GPU
        alive = [len(rate)] * len(starts)
    for start, count in zip(range(0, length, block), alive, strict=True):
        turn = powers(wide[:count] * start, 1, 2, like)[1]
        yield slice(start, min(start + block, length)), turn, count
