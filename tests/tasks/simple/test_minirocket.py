"""MiniRocket as published: features by plain loops, thresholds, dilations."""

import numpy as np
import pytest
import torch

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, SequenceSpec, Values
from selfpretrain.tasks.simple import minirocket
from selfpretrain.tasks.simple.kernels import PLACES, channel_masks
from selfpretrain.tasks.simple.methods import simple_methods
from selfpretrain.tasks.simple.minirocket import STATISTICS, SharedKernels, dilations

RANDOM = np.random.RandomState(0)


def sequences(lengths, channels=1):
    rows = [RANDOM.randn(length, channels).astype(np.float32) for length in lengths]
    return SequenceDataset.from_sequences(rows, np.arange(len(rows)) % 2)


def measured(examples, number=1_000, statistics=1):
    found = SharedKernels(number, statistics)
    found.measure(examples)
    found.fit(examples)
    return found


def plain_outputs(x, channels, places, dilation):
    """Outputs of one kernel, position by position, weight by weight."""
    x = np.nan_to_num(x.astype(np.float64))
    x = (x - x.mean(0))[:, channels > 0]
    outputs = np.zeros(len(x))
    for t in range(len(x)):
        for tap in range(9):
            at = t + (tap - 4) * dilation
            if 0 <= at < len(x):
                outputs[t] += (2 if tap in places else -1) * x[at].sum()
    return outputs


def plain_shares(features, x, masks, statistic=np.mean):
    """A statistic of whether outputs exceed each threshold, by default the share."""
    shares = []
    for index, (dilation, levels) in enumerate(features.thresholds):
        for kernel, places in enumerate(PLACES):
            outputs = plain_outputs(x, masks[kernel], places, dilation)
            inner = outputs[4 * dilation : len(x) - 4 * dilation]
            if (kernel + index) % 2 == 1 and len(inner):
                outputs = inner
            shares += [statistic(outputs > level) for level in levels[kernel].tolist()]
    return np.array(shares)


def mean_place(above):
    return (np.flatnonzero(above).mean() if above.any() else -1) / len(above)


def longest_stretch(above):
    return max(len(stretch) for stretch in "".join("01"[int(one)] for one in above).split("0")) / len(above)


@pytest.mark.parametrize("channels", [1, 4])
def test_shares_are_those_of_plain_loops(channels):
    examples = sequences([30, 41, 12, 9, 3], channels)
    examples.flat[5] = np.nan
    found = measured(examples, 300)
    masks = channel_masks(examples).numpy()
    assert (
        len(found.thresholds) > 1 and masks.sum(1).min() == 1 and (masks.sum(1).max() > 1) == (channels > 1)
    )
    shares = found.compute(examples)
    for row, each in enumerate(shares):
        np.testing.assert_allclose(each, plain_shares(found, examples.sequence(row), masks), rtol=1e-12)
    assert (found.mean == pytest.approx(shares.mean(0))) and len(found.mean) == 252


@pytest.mark.parametrize("channels", [1, 4])
def test_further_statistics_are_those_of_plain_loops(channels):
    examples = sequences([30, 41, 12, 9, 3], channels)
    found = measured(examples, 300, STATISTICS)
    masks = channel_masks(examples).numpy()
    for row, each in enumerate(found.compute(examples)):
        for at, statistic in enumerate((np.mean, mean_place, longest_stretch)):
            expected = plain_shares(found, examples.sequence(row), masks, statistic)
            np.testing.assert_allclose(each[at::STATISTICS], expected, rtol=1e-12)
    again = SharedKernels()
    again.load(found.state())
    assert again.statistics == STATISTICS and (again.transform(examples) == found.transform(examples)).all()
    with pytest.raises(ValueError, match="250 features of 252 thresholds"):
        again.load(found.state() | {name: found.state()[name][:250] for name in ("mean", "spread")})


@pytest.mark.parametrize(
    ("labelled", "statistics"), [(299, 1), (300, STATISTICS), (2_000, STATISTICS), (2_001, 1)]
)
def test_kernels_have_further_statistics_where_labels_are_enough(labelled, statistics):
    form = SequenceSpec(Values(1), 50, Classes(("a", "b")))
    methods = simple_methods(form, labelled, torch.tensor([50]))
    (kernels,) = [made for each in methods if isinstance(made := each.features(), SharedKernels)]
    assert kernels.statistics == statistics


def test_thresholds_are_golden_quantiles_on_one_sequence():
    examples = sequences([20, 17, 20])
    used = 0
    rows = set()
    for dilation, levels in measured(examples, 300).thresholds:
        for places, level in zip(PLACES, levels.numpy(), strict=True):
            orders = (np.arange(used + 1, used + 1 + len(level)) * (1 + 5**0.5) / 2) % 1
            used += len(level)
            each = [
                np.quantile(plain_outputs(examples.sequence(row), np.ones(1), places, dilation), orders)
                for row in range(3)
            ]
            (row,) = [row for row, expected in enumerate(each) if np.allclose(level, expected, atol=1e-8)]
            rows.add(row)
            assert (level > each[row]).all()  # no output is a threshold
    assert used == 252 and rows == {0, 1, 2}


def test_outputs_of_a_long_sequence_are_thinned_for_thresholds(monkeypatch):
    examples = sequences([400])
    whole = measured(examples).thresholds
    monkeypatch.setattr(minirocket, "LEVELS", 100)
    for (_, levels), (_, expected) in zip(measured(examples).thresholds, whole, strict=True):
        assert not torch.equal(levels, expected)
        assert (levels - expected).abs().median() < 1


PUBLISHED = {  # by length: dilations, and features of a kernel at each
    9: ([1], [119]),
    24: ([1, 2], [79, 40]),
    150: (
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 18],
        [30, 15, 12, 12, 4, 8, 8, 4, 4, 4, 3, 3, 3, 3, 3, 3],
    ),
}


@pytest.mark.parametrize("length", PUBLISHED)
def test_dilations_are_those_published(length):
    assert dilations(length, 119, 32) == list(zip(*PUBLISHED[length], strict=True))


@pytest.mark.parametrize(("number", "most"), [(119, 32), (11, 11), (119, 3), (1, 1)])
@pytest.mark.parametrize("length", [3, 9, 10, 17, 100, 5_000])
def test_dilations_fit_into_the_longest_sequence(length, number, most):
    found, counts = zip(*dilations(length, number, most), strict=True)
    assert found[0] == 1 and list(found) == sorted(set(found)) and len(found) <= most
    assert sum(counts) == number and min(counts) >= 1
    assert 8 * found[-1] < max(length, 9)


def test_many_positions_have_few_dilations(monkeypatch):
    examples = sequences([100] * 4)
    assert len(measured(examples).thresholds) > 3
    monkeypatch.setattr(minirocket, "WORK", 3 * 400 * len(PLACES))
    found = measured(examples)
    assert len(found.thresholds) == 3 and len(found.mean) == 924


def test_states_of_other_kernels_are_refused():
    found, again = measured(sequences([30, 41, 12], 2)), SharedKernels()
    for harm in (lambda x: x[:50], lambda x: x[0], lambda x: x[None]):
        with pytest.raises(ValueError, match="thresholds of other kernels"):
            again.load(found.state() | {"dilation 2": harm(found.thresholds[1][1])})
