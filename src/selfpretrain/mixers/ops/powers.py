"""Kernels of state space models with a dense transition matrix, without the length in any matrix power.

With l = i s + j the kernel is C A^(is) A^j B: a few columns A^j B (baby steps) times a few rows C A^(is)
(giant steps). Both grow by doubling, for every squaring of A doubles how many of them are known.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import exact

Dense = Float[Tensor, "H N N"]


def powers_kernel(
    change: Dense, B: Float[Tensor, "H N"], C: Float[Tensor, "c H N"], length: int
) -> Float[Tensor, "c H L"]:
    """K[c, h, l] = C[c, h] A[h]^l B[h] with A = I + change, for l < length.

    Powers of A are kept as their difference from the identity: for short steps A is so near to it that
    single precision would lose half of its digits.

    Args:
        change: A - I; A should have no singular value above one, or its powers grow.
    """
    s = 1 << math.ceil(math.log2(len(C) * length) / 2)
    s = min(s, 1 << math.ceil(math.log2(length)))
    giants = -(-length // s)
    columns, rows = B[..., None], C.transpose(0, 1)[:, :, None]  # (H, N, s), (H, c, G, N)
    known = 1
    while known < s:
        columns = torch.cat([columns, torch.baddbmm(columns, change, columns)], dim=-1)
        change, known = _Squared.apply(change), 2 * known
    known = 1
    while known < giants:
        flat = rows.flatten(1, 2)
        after = torch.baddbmm(flat, flat, change).view_as(rows)
        rows, known = torch.cat([rows, after], dim=2), 2 * known
        if known < giants:
            change = _Squared.apply(change)
    kernel = torch.bmm(rows[:, :, :giants].flatten(1, 2), columns)
    return kernel.unflatten(1, (len(C), giants)).flatten(2)[..., :length].transpose(0, 1)


class _Squared(torch.autograd.Function):
    """(I + E)^2 - I; its gradient 2 G + G E^T + E^T G in two products saves a fifth of the kernel."""

    @staticmethod
    def forward(ctx: Any, change: Tensor) -> Tensor:
        ctx.save_for_backward(change)
        return torch.baddbmm(change, change, change, beta=2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (change,) = ctx.saved_tensors
        with exact(grad.device):
            return torch.baddbmm(grad, grad, change.mT, beta=2).baddbmm_(change.mT, grad)
