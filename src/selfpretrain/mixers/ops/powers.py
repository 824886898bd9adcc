"""Convolution kernels of state space models whose transition matrix is dense, or diagonal plus rank one.

With l = i s + j the kernel is C A^(is) A^j B: columns A^j B (baby steps) times rows C A^(is) (giant steps).
Columns grow by doubling, as every squaring of A doubles their number; rows are computed one after the other,
as a few products with rows are cheaper than a squaring.

For A = D + u r^T, columns A^j B are doubled without forming powers of A, as their difference from powers of D
has low rank:

A^k x = D^k x + sum_{j<k} A^j u (r^T D^(k-1-j) x)

Only A^s, which leads from one block of s lags to the next, is formed as a dense matrix. Up to about 4,096
lags no matrix is squared, which is cheaper and ten times as accurate in single precision.
"""

import itertools
import math
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision
from .modes import as_modes, as_real
from .state_matrices import Dplr

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


def dplr_kernel(system: Dplr, C: Float[Tensor, "c H M"], length: int) -> Float[Tensor, "c H L"]:
    """Return K[c, h, l] = C[c, h] A[h]^l B[h] for l < length, in the precision of C."""
    times = min(n_doublings(length), C.shape[-1].bit_length() - 1)  # as long as the rank is below that of D
    k = 2 ** torch.arange(times, device=C.device)
    like = torch.complex128 if C.dtype == torch.float64 else torch.complex64
    turns = torch.exp(system.rate[:, None] * k[:, None]).to(like)
    start = torch.stack([system.B, system.u, system.r]).to(C)
    columns, rows = _DoubledColumns.apply(turns, start)
    change = diagonal_plus(system.rate, 2**times, columns[1], rows)
    return powers_kernel(change, columns[0], C, length)


def dense(system: Dplr) -> Float[Tensor, "H M M"]:
    """Return A - I as a matrix."""
    return diagonal_plus(system.rate, 1, system.u[:, None], system.r[:, None])


def diagonal_plus(
    rate: Complex[Tensor, "H N"], power: int, left: Float[Tensor, "H k M"], right: Float[Tensor, "H k M"]
) -> Float[Tensor, "H M M"]:
    """Return D^power - I + left^T right, in the precision of the latter."""
    change = torch.view_as_real(torch.expm1(power * rate)).to(left)
    return _DiagonalPlus.apply(change, left, right)


class _DoubledColumns(torch.autograd.Function):
    """A^j B and A^j u for j < s, and r^T D^(s-1-j), from B, u and r; ``turns`` are D, D^2, D^4 and so on."""

    @staticmethod
    def forward(ctx: Any, turns: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        s = 1 << turns.shape[1]
        columns = start.new_empty(2, start.shape[1], s, start.shape[2])
        rows = torch.empty_like(columns[0])
        columns[:, :, 0] = start[:2]
        rows[:, -1] = start[2]
        for i, k in enumerate(_powers(turns)):
            turn = turns[:, i, None]
            near = rows[:, s - k :]
            added = columns[1, :, :k]
            rows[:, s - 2 * k : s - k] = _multiply(near, turn.conj())
            for part in columns:
                known = part[:, :k]
                part[:, k : 2 * k] = torch.baddbmm(_multiply(known, turn), known @ near.mT, added)
        ctx.save_for_backward(turns, columns, rows)
        return columns, rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_columns: Tensor, of_rows: Tensor) -> tuple[Tensor, Tensor]:
        turns, columns, rows = ctx.saved_tensors
        of_columns = of_columns.clone()
        of_rows = of_rows.clone()
        of_turns = torch.empty_like(turns)
        s = rows.shape[1]
        with full_precision(rows.device):
            for i, k in reversed(list(enumerate(_powers(turns)))):
                turn = turns[:, i, None]
                near = rows[:, s - k :]
                added = columns[1, :, :k]
                grad = of_rows[:, s - 2 * k : s - k]
                of_near = of_rows[:, s - k :]
                of_near += _multiply(grad, turn)
                of_turns[:, i] = _sum_products(near, grad, turn)
                for part, of_part in zip(columns, of_columns, strict=True):
                    known = part[:, :k]
                    grad = of_part[:, k : 2 * k]
                    of_inner = grad @ added.mT
                    of_part[:, :k] += torch.baddbmm(_multiply(grad, turn.conj()), of_inner, near)
                    of_columns[1, :, :k] += (near @ known.mT) @ grad
                    of_near += of_inner.mT @ known
                    of_turns[:, i] += _sum_products(grad, known, turn)
        return of_turns, torch.stack([*of_columns[:, :, 0], of_rows[:, -1]])


class _DiagonalPlus(torch.autograd.Function):
    """Multiplication by complex numbers d as a real matrix, plus left^T right."""

    @staticmethod
    def forward(ctx: Any, d: Tensor, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        matrix = left.mT @ right
        for entries, part, sign in _blocks(matrix):
            entries.add_(d[..., part], alpha=sign)
        return matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        left, right = ctx.saved_tensors
        d = grad.new_zeros(len(grad), grad.shape[-1] // 2, 2)
        for entries, part, sign in _blocks(grad):
            d[..., part].add_(entries, alpha=sign)
        with full_precision(grad.device):
            return d, right @ grad.mT, left @ grad


def _blocks(matrix: Tensor) -> list[tuple[Tensor, int, int]]:
    """Return views of the diagonal 2 x 2 blocks [[Re, -Im], [Im, Re]], with part (Re or Im) and sign."""
    pairs = matrix.unflatten(-1, (-1, 2)).unflatten(-3, (-1, 2)).diagonal(dim1=-4, dim2=-2)
    return [(pairs[:, i, j], int(i != j), -1 if i < j else 1) for i in range(2) for j in range(2)]


def _powers(turns: Tensor) -> list[int]:
    return [1 << i for i in range(turns.shape[1])]


def _multiply(x: Tensor, turn: Tensor) -> Tensor:
    return as_real(as_modes(x, turn) * turn)


def _sum_products(x: Tensor, y: Tensor, like: Tensor) -> Tensor:
    """Return sum_j x[j] y[j]* per mode."""
    return (as_modes(x, like) * as_modes(y, like).conj()).sum(1)
