"""Convolution kernels of diagonal state space models: sums of modes, without a tensor of H x N x L.

Baby and giant steps: with l = i s + j and s near sqrt(L), exp(rate l) is the product of two small tables, so
that the sum over modes is one real matrix product per channel.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision
from ._modes import as_modes, as_real, powers

Modes = Complex[Tensor, "H N"] | Float[Tensor, "H N"]


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
