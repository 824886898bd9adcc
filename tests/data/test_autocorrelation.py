"""The largest eigenvalue of the autocorrelation of sequences."""

import numpy as np
import pytest
import torch

from selfpretrain.data.autocorrelation import largest_eigenvalue
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens, Values

CLASSES = Classes(("a", "b"))
L = 24


def form_of(signal):
    return SequenceSpec(signal, L, CLASSES)


def dataset(rows):
    return SequenceDataset.from_sequences(rows, np.zeros(len(rows), dtype=np.int64))


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (lambda random: random.standard_normal((50_000, L, 1)), 1),
        (lambda random: np.repeat(random.standard_normal((50_000, 1, 1)), L, 1), L),
        (lambda random: random.choice([-1.0, 1.0], (50_000, 1, 1)) * (-1.0) ** np.arange(L)[:, None], L),
    ],
    ids=["noise", "constant", "alternating"],
)
def test_noise_has_one_and_a_sequence_that_any_position_tells_its_length(x, value, monkeypatch):
    monkeypatch.setattr("selfpretrain.data.autocorrelation.SEQUENCES", 50_000)
    x = x(np.random.default_rng(0)).astype(np.float32)
    found = largest_eigenvalue(dataset(list(x)), form_of(Values()))
    assert found == pytest.approx(value, rel=0.06)


def test_is_that_of_the_matrix_of_standardised_values_with_zeros_as_padding():
    random = np.random.default_rng(1)
    rows = [random.standard_normal((n, 2)).astype(np.float32) for n in random.integers(5, L + 1, 40)]
    rows[0] = random.standard_normal((L, 2)).astype(np.float32)
    signal = Values(2, centre=(0.5, -1.0), spread=(2.0, 0.5))
    padded = np.zeros((40, L, 2))
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = (values - signal.centre) / signal.spread
    R = np.einsum("isc,itc->st", padded, padded) / 80
    assert largest_eigenvalue(dataset(rows), form_of(signal)) == pytest.approx(np.linalg.eigvalsh(R)[-1])


def test_symbols_agree_with_random_vectors_of_unit_variance():
    random = np.random.default_rng(2)
    tokens = random.integers(0, 3, (60, L))
    tokens[:, 1::2] = tokens[:, ::2]
    equal = (tokens[:, :, None] == tokens[:, None]).mean(0)
    found = largest_eigenvalue(dataset(list(tokens)), form_of(Tokens(3)))
    assert found == pytest.approx(np.linalg.eigvalsh(equal)[-1])
    vectors = random.standard_normal((3, 20_000))[tokens]
    R = np.einsum("isc,itc->st", vectors, vectors) / (60 * 20_000)
    assert found == pytest.approx(np.linalg.eigvalsh(R)[-1], rel=0.05)


def test_sequences_without_values_have_none():
    assert largest_eigenvalue(dataset([np.zeros((L, 1), np.float32)] * 3), form_of(Values())) == 0


def test_both_views_of_an_example_count():
    random = np.random.default_rng(3)
    tokens = random.integers(0, 4, (20, L))
    one = dataset(list(tokens))
    pairs = SequenceDataset(one.flat, one.starts.view(2, 10), one.lengths.view(2, 10), torch.zeros(10))
    assert largest_eigenvalue(pairs, form_of(Tokens(4))) == pytest.approx(
        largest_eigenvalue(one, form_of(Tokens(4)))
    )
