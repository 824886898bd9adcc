"""From continuous to discrete time, by the bilinear rule.

x'(t) = A x(t) + B u(t) becomes x[t] = Abar x[t-1] + Bbar u[t] with
Abar = (I - dt/2 A)^-1 (I + dt/2 A),  Bbar = (I - dt/2 A)^-1 dt B.

Everything is returned as ``change`` = Abar - I, for that is what survives single precision.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

Pair = Float[Tensor, "H N 2"]
Discrete = tuple[Float[Tensor, "H M M"], Float[Tensor, "H M"]]
"""Abar - I and Bbar in the real basis: M = 2N real and imaginary parts, real parts first."""


def bilinear_dplr(
    A: Pair, P: Pair, B: Pair, dt: Float[Tensor, "H"], like: torch.dtype = torch.float64
) -> Discrete:
    """The bilinear rule for a diagonal matrix minus one of rank one, diag(A) - P P*, in closed form.

    Complex states stand for conjugate pairs, so P P* x is P Re(P* x) twice: the matrix is real in the basis
    of real and imaginary parts, its spectrum closed under conjugation whatever the parameters. As its
    symmetric part is negative for Re A < 0, no singular value of Abar exceeds one.

    With D = 1/(2/dt - A), u = D P and v = D* P, both as real vectors, s = 2/(1 + 2 sum |P|^2 Re D):
    Bbar = 2 (D B - s u v.B),  Abar - I = 2 (diag(D A) + u r^T),
    r = -2 P - s (A* v) + 2 s (v.P) P,  by the Woodbury identity.

    Args:
        A: eigenvalues with Re A < 0, real and imaginary part.
        dt: step, above zero.
        like: precision of the result; the formula is worth double precision, which costs nothing here.
    """
    a, b = A.unbind(-1)
    gap = 2 / dt[:, None] - a
    size = gap.square() + b.square()
    D = torch.stack([gap / size, b / size], dim=-1)
    u, v = _times(D, P), _times(_conj(D), P)
    s = 2 / (1 + 2 * (P.square().sum(-1) * D[..., 0]).sum(-1, keepdim=True))
    p, v_flat = _flat(P), _flat(v)
    r = -2 * p - s * _flat(_times(_conj(A), v)) + 2 * s * (v_flat * p).sum(-1, keepdim=True) * p
    B_bar = 2 * (_flat(_times(D, B)) - s * _flat(u) * (v_flat * _flat(B)).sum(-1, keepdim=True))
    change = _DiagonalPlusOuter.apply(*(x.to(like) for x in (2 * _times(D, A), 2 * _flat(u), r)))
    return change, B_bar.to(like)


class _DiagonalPlusOuter(torch.autograd.Function):
    """Multiplication by complex numbers d as a real matrix, plus u r^T; its gradient without matrices."""

    @staticmethod
    def forward(ctx: Any, d: Pair, u: Tensor, r: Tensor) -> Tensor:
        ctx.save_for_backward(u, r)
        matrix = u[..., :, None] * r[..., None, :]
        for block, part, sign in _quarters(matrix):
            block.diagonal(dim1=-2, dim2=-1).add_(d[..., part], alpha=sign)
        return matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, r = ctx.saved_tensors
        d = grad.new_zeros(*u.shape[:-1], u.shape[-1] // 2, 2)
        for block, part, sign in _quarters(grad):
            d[..., part].add_(block.diagonal(dim1=-2, dim2=-1), alpha=sign)
        return d, (grad @ r[..., None])[..., 0], (u[..., None, :] @ grad)[..., 0, :]


def _quarters(matrix: Tensor) -> list[tuple[Tensor, int, int]]:
    """The blocks [[Re, -Im], [Im, Re]], with which part stands there and its sign."""
    (a, b), (c, d) = (rows.chunk(2, dim=-1) for rows in matrix.chunk(2, dim=-2))
    return [(a, 0, 1), (b, 1, -1), (c, 1, 1), (d, 0, 1)]


def bilinear_dense(A: Float[Tensor, "N N"], B: Float[Tensor, "N"], dt: Float[Tensor, "H"]) -> Discrete:
    """The bilinear rule for one matrix that all channels share, each with its own step."""
    eye = torch.eye(len(B), dtype=A.dtype, device=A.device)
    right = torch.cat([A, B[:, None]], dim=-1) * dt[:, None, None]
    solved = torch.linalg.solve(eye - 0.5 * dt[:, None, None] * A, right)
    return solved[..., :-1], solved[..., -1]


def bilinear_modes(A: Pair, dt: Float[Tensor, "H"]) -> tuple[Pair, Pair]:
    """The bilinear rule for single modes: log of Abar and, for B = 1, Bbar.

    With z = dt A/2:  Re log Abar = log(|1 + z|^2 / |1 - z|^2) / 2,  Im log Abar = arg((1 + z)(1 - z*)).
    """
    x, y = (0.5 * dt[:, None, None] * A).unbind(-1)
    size = (1 - x).square() + y.square()
    rate = torch.stack([0.5 * torch.log1p(4 * x / size), torch.atan2(2 * y, 1 - x.square() - y.square())], -1)
    return rate, dt[:, None, None] * torch.stack([1 - x, y], dim=-1) / size[..., None]


def held_modes(A: Pair, dt: Float[Tensor, "H"]) -> tuple[Pair, Pair]:
    """The same for an input that is held over the step: log Abar = dt A, Bbar = (exp(dt A) - 1) / A."""
    rate = dt[:, None, None] * A
    a, b = rate.unbind(-1)
    # exp(a) cos(b) - 1 without the difference of two numbers near one
    risen = torch.expm1(a) * torch.cos(b) - 2 * torch.sin(b / 2).square()
    less = torch.stack([risen, torch.exp(a) * torch.sin(b)], dim=-1)
    return rate, _times(less, _conj(A)) / A.square().sum(-1, keepdim=True)


def _times(x: Tensor, y: Tensor) -> Tensor:
    (a, b), (c, d) = x.unbind(-1), y.unbind(-1)
    return torch.stack([a * c - b * d, a * d + b * c], dim=-1)


def _conj(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    return torch.stack([a, -b], dim=-1)


def _flat(x: Tensor) -> Tensor:
    return torch.cat(x.unbind(-1), dim=-1)
