"""Competing kernels: gains and counts by plain loops; weights of rare features."""

import numpy as np
import pytest
import torch

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, SequenceSpec, Values
from selfpretrain.tasks.simple import hydra, methods
from selfpretrain.tasks.simple.hydra import CompetingKernels, count_answers
from selfpretrain.tasks.simple.methods import simple_methods

RANDOM = np.random.RandomState(0)


def sequences(lengths, channels=1):
    rows = [RANDOM.randn(length, channels).astype(np.float32) for length in lengths]
    return SequenceDataset.from_sequences(rows, np.arange(len(rows)) % 2)


def measured(examples):
    found = CompetingKernels()
    found.measure(examples)
    found.fit(examples)
    return found


def plain(x, weights, channels, dilation):
    """Gains and counts of one group, position by position."""
    x = x[:, channels > 0].sum(1)
    gains, counts = np.zeros(len(weights)), np.zeros(len(weights))
    for t in range(len(x)):
        places = t + (np.arange(9) - 4) * dilation
        read = [x[at] if 0 <= at < len(x) else 0.0 for at in places]
        answers = weights @ np.array(read)
        gains[answers.argmax()] += answers.max()
        counts[answers.argmin()] += 1
    return np.maximum(gains, 0), counts


@pytest.mark.parametrize("channels", [1, 4])
def test_features_are_those_of_plain_loops(channels):
    examples = sequences([41, 30, 12, 3], channels)
    examples.flat[5] = np.nan
    found = measured(examples)
    weights, chosen = hydra._weights(41), hydra._chosen(channels)
    assert weights.shape == (3, 2, 32, 8, 9) and np.abs(weights.sum(-1)).max() < 1e-6
    assert np.abs(weights).sum(-1) == pytest.approx(1) and (chosen.sum(-1) == (channels + 1) // 2).all()
    for row, each in enumerate(found.compute(examples).reshape(4, 3, 2, 2, 32, 8)):
        x = np.nan_to_num(examples.sequence(row))
        x = x / found.scale
        x = x - x.mean(0)
        for dilation, half, group in ((0, 0, 5), (1, 1, 0), (2, 0, 31)):
            series = np.diff(x, axis=0) if half else x
            expected = plain(series, weights[dilation, half, group], chosen[half, group], 2**dilation)
            whole = np.sqrt(np.array(expected) * 41 / len(x))
            np.testing.assert_allclose(each[dilation, half, :, group], whole, atol=1e-3)


def test_a_rare_feature_weighs_less_and_what_is_none_is_zero():
    examples = sequences([30] * 8)
    found = measured(examples)
    features = found.compute(examples)
    rare = (features == 0).mean(0)
    assert 0 < rare.max() <= 1
    spread = features.std(0)
    spread[spread < 1e-9] = 1
    assert found.spread == pytest.approx(spread + rare**4, rel=1e-4)
    assert (found.transform(examples)[features == 0] == 0).all()


def test_states_of_other_features_are_refused():
    found, again = measured(sequences([30, 41, 12], 2)), CompetingKernels()
    for length in (400, 0, -41):
        with pytest.raises(ValueError, match=f"features of {length} positions"):
            again.load(found.state() | {"length": torch.tensor([length])})
    with pytest.raises(ValueError, match="not positive"):
        again.load(found.state() | {"scale": torch.tensor([1.0, 0.0]).double()})


def test_values_that_nobody_measures_give_finite_features():
    found = measured(sequences([30, 41, 12]))
    most = np.finfo(np.float32).max
    rows = [np.float32([[most], [-most]] * 20), np.float32([[np.inf], [np.nan], [-np.inf]] * 9)]
    strange = SequenceDataset.from_sequences(rows, np.array([0, 1]))
    assert np.isfinite(found.transform(strange)).all()


def test_a_channel_of_zeros_hides_no_other():
    examples = sequences([30, 41, 12], 4)
    examples.flat[:, 1] = 0
    found, again = measured(examples), CompetingKernels()
    again.load(found.state())
    assert (found.compute(examples) > 0).any(0).mean() > 0.9
    np.testing.assert_array_equal(again.transform(examples), found.transform(examples))


def test_data_that_would_take_longer_have_other_candidates(monkeypatch):
    form = SequenceSpec(Values(), 100, Classes(("a", "b")))
    lengths = torch.tensor([[100] * 50])
    named = lambda: [m.features().name for m in simple_methods(form, 50, lengths) if m.candidate]  # noqa: E731
    assert count_answers(5_000, 100) == 5_000 * 512 * 4 and CompetingKernels.name in named()
    monkeypatch.setattr(methods, "MAX_ANSWERS", count_answers(5_000, 100) - 1)
    assert CompetingKernels.name not in named() and "kernels (MiniRocket)" in named()
