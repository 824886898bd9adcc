"""Laws of kernels: what is in memory at a time, and what features do not depend on."""

import numpy as np
import pytest
import torch

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.system.time_limit import TimeIsUp, until
from selfpretrain.tasks.simple import features, kernels
from selfpretrain.tasks.simple.features import Statistics, Summary
from selfpretrain.tasks.simple.hydra import CompetingKernels
from selfpretrain.tasks.simple.intervals import IntervalQuantiles
from selfpretrain.tasks.simple.kernels import KernelShares
from selfpretrain.tasks.simple.minirocket import SharedKernels

RANDOM = np.random.RandomState(0)


def sequences(lengths, scale=1.0):
    random = np.random.RandomState(1)
    rows = [(scale * random.randn(length, 2)).astype(np.float32) for length in lengths]
    return SequenceDataset.from_sequences(rows, np.arange(len(rows)) % 2)


def thresholds_of_all(sample, weights, dilation, quantiles):
    """Quantiles of the outputs of all sequences, of which some are chosen when all are there."""
    outputs = [
        kernels._kernel_outputs(sample.batch(rows), weights, dilation).transpose(0, 1)[
            :, sample.batch(rows).real()
        ]
        for rows in torch.arange(len(sample)).split(kernels.BATCH)
    ]
    found = torch.cat(outputs, dim=1)
    n = found.shape[1]
    found = found[:, torch.linspace(0, n - 1, min(n, kernels.LEVELS)).long()]
    return found.quantile((torch.arange(quantiles, dtype=found.dtype) + 0.5) / quantiles, dim=1).T


@pytest.mark.parametrize("levels", [10_000, 1_000, 7])
@pytest.mark.parametrize("lengths", [np.full(20, 60), RANDOM.randint(20, 60, 33), [50]])
def test_thresholds_are_those_of_all_outputs_together(levels, lengths, monkeypatch):
    monkeypatch.setattr(kernels, "LEVELS", levels)
    sample = sequences(lengths)
    weights = kernels._kernels(sample)
    for dilation in (1, 4):
        found = kernels._thresholds(sample, weights, dilation, 3)
        expected = thresholds_of_all(sample, weights, dilation, 3)
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
        assert (found > expected).all()  # no output is a threshold


@pytest.mark.parametrize("most", [1, 100, 300])
def test_long_sequences_are_computed_few_at_a_time(most, monkeypatch):
    examples = sequences([40, 60, 30, *[20] * 30, 150])
    whole = KernelShares()
    whole.fit(examples)
    x = whole.compute(examples)
    inner, seen = kernels._kernel_outputs, []

    def watched(batch, weights, dilation):
        seen.append(batch.inputs.shape[:2])
        return inner(batch, weights, dilation)

    monkeypatch.setattr(kernels, "POSITIONS", most, raising=False)
    monkeypatch.setattr(kernels, "_kernel_outputs", watched)
    found = KernelShares()
    found.fit(examples)
    assert all(n == 1 or n * length <= most for n, length in seen)
    for (_, levels), (_, expected) in zip(found.thresholds, whole.thresholds, strict=True):
        torch.testing.assert_close(levels, expected, atol=1e-12, rtol=0)
    assert (whole.compute(examples) == x).all()


@pytest.mark.parametrize("kind", [KernelShares, SharedKernels, CompetingKernels])
def test_features_do_not_depend_on_units(kind):
    found, small = kind(), kind()
    for each, scale in ((found, 1.0), (small, 2.0**-40)):
        each.measure(sequences([60] * 12, scale))
        each.fit(sequences([60] * 12, scale))
    x, y = found.transform(sequences([60] * 12)), small.transform(sequences([60] * 12, 2.0**-40))
    np.testing.assert_array_equal(x, y)
    assert x.std(0).max() > 0.5


@pytest.mark.parametrize("kind", [SharedKernels, CompetingKernels])
def test_no_sequence_depends_on_others(kind):
    examples = sequences([30, 41, 12, 30, 9, 1, 60])
    found = kind()
    found.measure(examples)
    together = found.compute(examples)
    order = torch.tensor([5, 2, 0, 6, 4, 1, 3])
    assert (found.compute(examples.take(order)) == together[order]).all()
    for row in range(len(examples)):
        assert (found.compute(examples.take(torch.tensor([row]))) == together[row]).all()


@pytest.mark.parametrize(
    ("kind", "work"),
    [(SharedKernels, "measure"), (SharedKernels, "compute"), (CompetingKernels, "compute")],
)
def test_time_limits_are_kept(kind, work):
    examples, found = sequences([30] * 3), kind()
    found.measure(examples)
    with until(-1.0), pytest.raises(TimeIsUp):
        getattr(found, work)(examples)


@pytest.mark.parametrize("most", [1, 10**9])
@pytest.mark.parametrize("kind", [SharedKernels, CompetingKernels, IntervalQuantiles, Statistics, Summary])
def test_folds_share_what_was_computed_and_get_the_same(kind, most, monkeypatch):
    monkeypatch.setattr(features, "MAX_REMEMBERED", most)
    examples = sequences([40, 60, 30, *[20] * 17])
    shared = kind()
    shared.measure(examples)
    for fold in range(4):
        of_val = torch.arange(20) % 4 == fold
        of_fold = shared.fitted(examples.take((~of_val).nonzero()[:, 0]))
        alone = of_fold.forgetful()
        assert alone.computed is None and of_fold.computed is shared.computed
        for part in (examples, examples.take(of_val.nonzero()[:, 0])):
            np.testing.assert_allclose(of_fold.transform(part), alone.transform(part), rtol=1e-9, atol=1e-9)
    assert len(shared.computed.rows) == (20 if most > 1 else 0)
