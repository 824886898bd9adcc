"""Autocorrelation of sequences, as a network sees them."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from .dataset import Batch, SequenceDataset, sequences
from .spec import SequenceSpec, Tokens, Values

SEQUENCES = 1_000  # number of sequences, evenly spaced in their dataset, that stand for all
ITERATIONS = 100  # maximum products with R from which its largest eigenvalue is known
SETTLED = 1e-12  # relative change of the eigenvalue at which it is known earlier

PerPosition = Float[Tensor, "L"]


def largest_eigenvalue(examples: SequenceDataset, form: SequenceSpec) -> float:
    """Return the largest eigenvalue of the autocorrelation R[s, t] = E x[s] x[t], an (L, L) matrix.

    Values are standardised, and R is the mean over channels; padding is zero. With tokens, x is a random
    vector of unit variance per symbol: R[s, t] is the share of sequences with equal symbols at s and t. The
    eigenvalue is 1 for white noise, and L for constant sequences of variance 1.
    """
    whole = sequences(examples)
    batch = whole.batch(torch.arange(0, len(whole), -(-len(whole) // SEQUENCES)))
    signal = form.signal
    times_R = _tokens_product(batch) if isinstance(signal, Tokens) else _values_product(batch, signal)
    v = torch.randn(batch.inputs.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    eigenvalue = 0.0
    for _ in range(ITERATIONS):
        v = times_R(v / v.norm().clamp(min=1e-30))
        before = eigenvalue
        eigenvalue = float(v.norm())
        if abs(eigenvalue - before) <= SETTLED * eigenvalue:
            break
    return eigenvalue


def _values_product(batch: Batch, signal: Values) -> Callable[[PerPosition], PerPosition]:
    """Return the product of R and a vector; R itself would be large."""
    x = signal.standardise(batch.inputs.double()) * batch.real()[..., None]
    rows = x.mT.flatten(0, 1)  # (n C, L)
    return lambda v: rows.T @ (rows @ v) / len(rows)


def _tokens_product(batch: Batch) -> Callable[[PerPosition], PerPosition]:
    """Return the product of R and a vector, which adds up the positions of every symbol in every sequence."""
    real = batch.real()
    sequence, position = real.nonzero(as_tuple=True)
    token = batch.inputs[real].long()
    pairs, pair = torch.unique(sequence * (token.max() + 1) + token, return_inverse=True)

    def product(v: PerPosition) -> PerPosition:
        sums = v.new_zeros(len(pairs)).index_add(0, pair, v[position])
        return torch.zeros_like(v).index_add(0, position, sums[pair]) / len(real)

    return product
