"""Linear attention: weights are products of features, so that sums over keys are computed once, in O(L).

Features and sums stay in fp32 under autocast, as the denominator is a sum over all positions.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._exact import full_precision
from .decayed_attention import decayed_attention

CHUNK = 128
"""Chunk size of the causal form; pairs within a chunk are computed explicitly."""
SMALLEST = 1e-30
"""Lower bound of the denominator, for queries without any key of positive weight."""

Features = Float[Tensor, "B H L M"]
Values = Float[Tensor, "B H L E"]


def linear_attention(q: Features, k: Features, v: Values) -> Values:
    """Return y[t] = sum_s (q[t].k[s]) v[s] / sum_s q[t].k[s], for non-negative features.

    Source: Katharopoulos et al. (2020), Transformers are RNNs, eq. 6.
    """
    with full_precision(q.device):
        return _DivideByLast.apply(q @ (k.transpose(-1, -2) @ _append_ones(v)))


def causal_linear_attention(q: Features, k: Features, v: Values, chunk: int = CHUNK) -> Values:
    """Return the same with s <= t: sums over earlier chunks, and explicit pairs within a chunk.

    Source: Katharopoulos et al. (2020), eq. 9; in chunks: Hua et al. (2022), FLASH, section 3.2.
    """
    with full_precision(q.device):
        return _DivideByLast.apply(causal_sums(q, k, _append_ones(v), chunk))


def rescaled_linear_attention(q: Features, k: Features, v: Values, rise: Float[Tensor, "B H L 1"]) -> Values:
    """Return the same for key features exp(rise[s]) k[s] with non-decreasing ``rise``.

    The factors may overflow: past sums are scaled down instead when ``rise`` increases.
    """
    fall = F.pad(rise[:, :, :-1] - rise[:, :, 1:], (0, 0, 1, 0))
    v = _append_ones(v)
    y, _ = decayed_attention(q, k, v, fall, v.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]))
    return _DivideByLast.apply(y)


def causal_sums(q: Features, k: Features, v: Values, chunk: int = CHUNK) -> Values:
    """Return y[t] = sum_s (q[t].k[s]) v[s] over s <= t."""
    L = q.shape[2]
    with full_precision(q.device):
        q, k, v = (_chunks(x, min(chunk, L)) for x in (q, k, v))
        # Sums over past chunks, not the total minus later ones: rounding errors would leak the future.
        before = F.pad((k.mT @ v)[:, :, :-1].cumsum(2), (0, 0, 0, 0, 1, 0))
        y = q @ before + (q @ k.mT).tril() @ v
        return y.flatten(2, 3)[:, :, :L]


def _append_ones(v: Values) -> Float[Tensor, "B H L E1"]:
    """Return values with a one appended, whose weighted sum is the sum of the weights."""
    return F.pad(v, (0, 1), value=1.0)


class _DivideByLast(torch.autograd.Function):
    """All entries but the last, divided by the last; the gradient is written into one tensor."""

    @staticmethod
    def forward(ctx: Any, y: Float[Tensor, "B H L E1"]) -> Values:
        reciprocal = y[..., -1:].clamp(min=SMALLEST).reciprocal_()
        y_divided = y[..., :-1] * reciprocal
        ctx.save_for_backward(y_divided, reciprocal)
        return y_divided

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Values) -> Float[Tensor, "B H L E1"]:
        y_divided, reciprocal = ctx.saved_tensors
        of_y = grad.new_empty(*grad.shape[:-1], grad.shape[-1] + 1)
        torch.mul(grad, reciprocal, out=of_y[..., :-1])
        of_sum = -(of_y[..., :-1] * y_divided).sum(-1, keepdim=True)
        of_y[..., -1:] = of_sum.masked_fill_(reciprocal >= 1 / SMALLEST, 0)
        return of_y


def _chunks(x: Float[Tensor, "B H L M"], size: int) -> Float[Tensor, "B H n T M"]:
    return F.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))
