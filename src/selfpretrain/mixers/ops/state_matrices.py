"""State matrices of state space models: HiPPO-LegS, and discretisation.

Discretisation is by the bilinear rule or by zero-order hold. By the bilinear rule,
x'(t) = A x(t) + B u(t) becomes x[t] = Abar x[t-1] + Bbar u[t] with
Abar = (I - dt/2 A)^-1 (I + dt/2 A),  Bbar = (I - dt/2 A)^-1 dt B.

Dense matrices are returned as Abar - I, which keeps its digits in single precision.

HiPPO-LegS compresses a signal into Legendre coefficients:
A[i, j] = -sqrt((2i+1)(2j+1)) below the diagonal, -(i+1) on it;  B[i] = sqrt(2i+1);  P[i] = sqrt(i + 1/2).
A + P P^T is -1/2 on the diagonal and skew elsewhere, so unitary V diagonalise it: V* A V = diag(w) - p p*.

Source: Gu et al. (2022), Efficiently Modeling Long Sequences with Structured State Spaces, appendix C.1.
"""

import functools
from typing import NamedTuple

import torch
from jaxtyping import Complex, Float
from torch import Tensor

Pair = Float[Tensor, "H N 2"]
Pairs = Float[Tensor, "N 2"]


class Dplr(NamedTuple):
    """A discrete system with Abar = diag(exp rate) + u r^T, in double precision.

    The real basis is that of ``as_real``: M = 2N, real and imaginary part next to each other.
    """

    rate: Complex[Tensor, "H N"]
    u: Float[Tensor, "H M"]
    r: Float[Tensor, "H M"]
    B: Float[Tensor, "H M"]


def bilinear_dplr(A: Pair, P: Pair, B: Pair, dt: Float[Tensor, "H"]) -> Dplr:
    """Apply the bilinear rule to a diagonal matrix minus one of rank one, diag(A) - P P*, in closed form.

    Complex states represent conjugate pairs, so P P* x is P Re(P* x) twice: the matrix is real in the basis
    of real and imaginary parts, its spectrum closed under conjugation whatever the parameters. As its
    symmetric part is negative for Re A < 0, no singular value of Abar exceeds one.

    With D = 1/(2/dt - A), v = D* P and s = 2/(1 + 2 sum |P|^2 Re D):
    Bbar = 2 (D B - s D P (v.B)),  Abar = diag((1 + dt/2 A) / (1 - dt/2 A)) + 2 D P r^T,
    r = -2 P - s (A* v) + 2 s (v.P) P,  by the Woodbury identity; products v.B are of real vectors.

    Args:
        A: eigenvalues with Re A < 0, real and imaginary part.
        dt: step, above zero.
    """
    a, b = A.unbind(-1)
    gap = 2 / dt[:, None] - a
    D = torch.stack([gap, b], dim=-1) / (gap.square() + b.square())[..., None]
    u = 2 * _multiply(D, P)
    v = _multiply(_conj(D), P)
    s = 2 / (1 + 2 * (P.square().sum(-1) * D[..., 0]).sum(-1))[:, None, None]
    r = -2 * P - s * _multiply(_conj(A), v) + 2 * s * _dot(v, P) * P
    B_bar = 2 * _multiply(D, B) - s * u * _dot(v, B)
    rate, _ = bilinear_modes(A, dt)
    return Dplr(torch.view_as_complex(rate), u.flatten(-2), r.flatten(-2), B_bar.flatten(-2))


def bilinear_dense(
    A: Float[Tensor, "n N N"], B: Float[Tensor, "n N"], dt: Float[Tensor, "n H"]
) -> tuple[Float[Tensor, "nH N N"], Float[Tensor, "nH N"]]:
    """Apply the bilinear rule to matrices shared by channels with their own steps; return Abar - I, Bbar."""
    eye = torch.eye(B.shape[1], dtype=A.dtype, device=A.device)
    step = dt[..., None, None]
    right = torch.cat([A, B[..., None]], dim=-1)[:, None] * step
    # Unlike solve, this asks the device for no error code: a singular matrix gives inf or nan.
    solved = torch.linalg.solve_ex(eye - 0.5 * step * A[:, None], right).result.flatten(0, 1)
    return solved[..., :-1], solved[..., -1]


def bilinear_modes(A: Pair, dt: Float[Tensor, "H"]) -> tuple[Pair, Pair]:
    """Apply the bilinear rule to single modes; return log Abar and, for B = 1, Bbar.

    With z = dt A/2:  Re log Abar = log(|1 + z|^2 / |1 - z|^2) / 2,  Im log Abar = arg((1 + z)(1 - z*)).
    """
    x, y = (0.5 * dt[:, None, None] * A).unbind(-1)
    size = (1 - x).square() + y.square()
    rate = torch.stack([0.5 * torch.log1p(4 * x / size), torch.atan2(2 * y, 1 - x.square() - y.square())], -1)
    return rate, dt[:, None, None] * torch.stack([1 - x, y], dim=-1) / size[..., None]


def zoh_modes(A: Pair, dt: Float[Tensor, "H"]) -> tuple[Pair, Pair]:
    """Apply zero-order hold to single modes; return log Abar = dt A and Bbar = (exp(dt A) - 1) / A."""
    rate = dt[:, None, None] * A
    a, b = rate.unbind(-1)
    # exp(a) cos(b) - 1 without cancellation of two numbers near one
    cosine_part = torch.expm1(a) * torch.cos(b) - 2 * torch.sin(b / 2).square()
    exp_minus_one = torch.stack([cosine_part, torch.exp(a) * torch.sin(b)], dim=-1)
    return rate, _multiply(exp_minus_one, _conj(A)) / A.square().sum(-1, keepdim=True)


def _multiply(x: Tensor, y: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    c, d = y.unbind(-1)
    return torch.stack([a * c - b * d, a * d + b * c], dim=-1)


def _conj(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    return torch.stack([a, -b], dim=-1)


def _dot(x: Pair, y: Pair) -> Float[Tensor, "H 1 1"]:
    return (x * y).sum((-2, -1), keepdim=True)


def legs_matrix(states: int) -> tuple[Float[Tensor, "N N"], Float[Tensor, "N"]]:
    """Return A and B of HiPPO-LegS, in double precision."""
    i = torch.arange(states, dtype=torch.float64)
    root = torch.sqrt(2 * i + 1)
    return -(torch.outer(root, root).tril(-1) + torch.diag(i + 1)), root


def legs_modes(states: int) -> tuple[Float[Tensor, "M"], Complex[Tensor, "N M"]]:
    """Return frequencies and eigenvectors of one of each conjugate pair of A + P P^T, in double precision."""
    A, _ = legs_matrix(states)
    P = torch.sqrt(torch.arange(states, dtype=torch.float64) + 0.5)
    # Hermitian, so frequencies are real, and ascending.
    frequency, V = torch.linalg.eigh(-1j * (A + torch.outer(P, P)))
    return frequency[: states // 2], V[:, : states // 2]


@functools.cache
def legs(states: int) -> tuple[Pairs, Pairs, Pairs]:
    """Return w, p = V* P and b = V* B for one of each conjugate pair, in double precision.

    An eigenvector's phase is free; here b is real and positive.
    """
    with torch.device("cpu"):  # cached, so independent of the device of the first network
        A, B = legs_matrix(states)
        P = torch.sqrt(torch.arange(states, dtype=torch.float64) + 0.5)
        frequency, V = legs_modes(states)
        decay = (A + torch.outer(P, P)).diagonal().mean()
        w = torch.stack([decay.expand_as(frequency), frequency], dim=-1)
        b = V.mH @ B.to(V)
        p = (V.mH @ P.to(V)) * b.conj() / b.abs()
        return w, torch.view_as_real(p), torch.stack([b.abs(), torch.zeros_like(frequency)], dim=-1)
