"""HiPPO-LegS: the state matrix that compresses a signal into Legendre coefficients, and its normal part.

A[i, j] = -sqrt((2i+1)(2j+1)) below the diagonal, -(i+1) on it;  B[i] = sqrt(2i+1);  P[i] = sqrt(i + 1/2).
A + P P^T is -1/2 on the diagonal and skew elsewhere, so unitary V diagonalise it: V* A V = diag(w) - p p*.

Source: Gu et al. (2022), Efficiently Modeling Long Sequences with Structured State Spaces, appendix C.1.
"""

import functools

import torch
from jaxtyping import Float
from torch import Tensor

Pairs = Float[Tensor, "N 2"]


def legs_matrix(states: int) -> tuple[Float[Tensor, "N N"], Float[Tensor, "N"]]:
    """Return A and B of the module docstring, in double precision."""
    i = torch.arange(states, dtype=torch.float64)
    root = torch.sqrt(2 * i + 1)
    return -(torch.outer(root, root).tril(-1) + torch.diag(i + 1)), root


@functools.cache
def legs(states: int) -> tuple[Pairs, Pairs, Pairs]:
    """Return w, p = V* P and b = V* B for one of each conjugate pair, in double precision.

    An eigenvector's phase is free; here b is real and positive.
    """
    with torch.device("cpu"):  # cached, so independent of the device of the first network
        A, B = legs_matrix(states)
        P = torch.sqrt(torch.arange(states, dtype=torch.float64) + 0.5)
        normal = A + torch.outer(P, P)
        frequency, V = torch.linalg.eigh(-1j * normal)  # Hermitian, so these are real, and ascending
        frequency = frequency[: states // 2]
        V = V[:, : states // 2]
        w = torch.stack([normal.diagonal().mean().expand_as(frequency), frequency], dim=-1)
        b = V.mH @ B.to(V)
        p = (V.mH @ P.to(V)) * b.conj() / b.abs()
        return w, torch.view_as_real(p), torch.stack([b.abs(), torch.zeros_like(frequency)], dim=-1)
