"""Linear recurrence whose factors depend on the input, at every position and for every feature."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

Steps = Float[Tensor, "B L ..."]


def gated_scan(a: Steps, b: Steps) -> Steps:
    """Return h[t] = a[t] h[t-1] + b[t] with h[-1] = 0, for factors of at most one.

    The square root of L positions make a chunk: all chunks are computed together, position by position, and
    then what one chunk hands on to the next. The gradient is the same recurrence from the end; autograd of
    the plain loop would keep a tensor per position.
    """
    return _Scan.apply(a, b)


class _Scan(torch.autograd.Function):
    """``gated_scan``, which keeps its factors and its result for the backward pass."""

    @staticmethod
    def forward(ctx: Any, a: Steps, b: Steps) -> Steps:
        h = _scan(a, b)
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Steps) -> tuple[Steps, Steps]:
        a, h = ctx.saved_tensors
        nothing = torch.zeros_like(a[:, :1])
        later = torch.cat([a[:, 1:], nothing], dim=1)
        of_b = _scan(later.flip(1), grad.flip(1)).flip(1)
        of_a = of_b * torch.cat([nothing, h[:, :-1]], dim=1)
        return of_a, of_b


def _scan(a: Steps, b: Steps) -> Steps:
    L = b.shape[1]
    size = math.isqrt(L - 1) + 1
    factor, h = (_chunks(x, size) for x in (a, b))
    for t in range(1, size):
        h[:, :, t].addcmul_(factor[:, :, t], h[:, :, t - 1])
        factor[:, :, t].mul_(factor[:, :, t - 1])  # product of all factors of its chunk so far
    for i in range(1, h.shape[1]):
        h[:, i].addcmul_(factor[:, i], h[:, i - 1, -1:])
    return h.flatten(1, 2)[:, :L]


def _chunks(x: Tensor, size: int) -> Tensor:
    """Return a copy whose positions are split into chunks, with zeros at the end."""
    L = x.shape[1]
    padded = x.new_zeros(x.shape[0], L + -L % size, *x.shape[2:])
    padded[:, :L] = x
    return padded.unflatten(1, (-1, size))
