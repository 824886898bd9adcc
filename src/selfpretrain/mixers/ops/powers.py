"""Convolution kernels of state space models with a dense transition matrix, by baby and giant steps.

With l = i s + j the kernel is C A^(is) A^j B: columns A^j B (baby steps) times rows C A^(is) (giant steps).
Columns grow by doubling, as every squaring of A doubles their number; rows are computed one after the other,
as a few products with rows are cheaper than a squaring.
"""

import itertools
import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision

MAX_ROW_PRODUCTS = 64
"""Maximum number of sequential row products; for more rows, A is squared to compute 2, 4, ... at once."""

Dense = Float[Tensor, "H N N"]


def powers_kernel(
    change: Dense, columns: Float[Tensor, "H s N"], C: Float[Tensor, "c H N"], length: int
) -> Float[Tensor, "c H L"]:
    """Return K[c, h, l] = C[c, h] A[h]^l B[h] for l < length.

    Powers of A are stored as their difference from the identity: for short steps A is so close to it that
    single precision would lose half of its digits.

    Args:
        change: A^s - I; A should have no singular value above one, or its powers grow.
        columns: A^j B for j < s, with s a power of two, e.g. 1.
    """
    while columns.shape[1] < 2 ** n_doublings(length):
        columns = torch.cat([columns, torch.baddbmm(columns, columns, change.mT)], dim=1)
        change = _Square.apply(change)
    giants = -(-length // columns.shape[1])
    rows = C.transpose(0, 1)  # (H, known c, N)
    while giants * len(C) > MAX_ROW_PRODUCTS * rows.shape[1]:
        rows = torch.cat([rows, torch.baddbmm(rows, rows, change)], dim=1)
        change = _Square.apply(change)
    rows = _RowPowers.apply(change, rows, -(-giants * len(C) // rows.shape[1]))  # (leaps, H, known c, N)
    rows = rows.unflatten(2, (-1, len(C))).permute(1, 3, 0, 2, 4).flatten(2, 3)[:, :, :giants]
    kernel = torch.bmm(rows.flatten(1, 2), columns.mT)
    return kernel.unflatten(1, (len(C), giants)).flatten(2)[..., :length].transpose(0, 1)


def n_doublings(length: int) -> int:
    """Return the number of doublings after which there are about as many columns as rows."""
    return math.ceil(math.log2(length) / 2)


class _Square(torch.autograd.Function):
    """(I + E)^2 - I; its gradient 2 G + G E^T + E^T G in two products saves a fifth of the kernel."""

    @staticmethod
    def forward(ctx: Any, change: Tensor) -> Tensor:
        ctx.save_for_backward(change)
        return torch.baddbmm(change, change, change, beta=2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (change,) = ctx.saved_tensors
        with full_precision(grad.device):
            return torch.baddbmm(grad, grad, change.mT, beta=2).baddbmm_(change.mT, grad)


class _RowPowers(torch.autograd.Function):
    """Rows, rows (I + E), rows (I + E)^2 and so on; the gradient of E is one product for all of them."""

    @staticmethod
    def forward(ctx: Any, change: Tensor, rows: Tensor, count: int) -> Tensor:
        all_rows = rows.new_empty(count, *rows.shape)
        all_rows[0] = rows
        for before, after in itertools.pairwise(all_rows):
            torch.baddbmm(before, before, change, out=after)
        ctx.save_for_backward(change, all_rows)
        return all_rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        change, all_rows = ctx.saved_tensors
        total = torch.empty_like(all_rows).copy_(grad)
        back = change.mT.contiguous()
        with full_precision(grad.device):
            for i in range(len(total) - 1, 0, -1):
                before = total[i - 1].add_(total[i])
                torch.baddbmm(before, total[i], back, out=before)
            left, right = (x.transpose(0, 1).flatten(1, 2) for x in (all_rows[:-1], total[1:]))
            return torch.bmm(left.mT, right), total[0], None
