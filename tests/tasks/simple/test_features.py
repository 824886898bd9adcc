"""Features of sequences of other lengths, in other units, and of many positions."""

import tracemalloc

import numpy as np
import pytest
import torch

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, PositionClasses, SequenceSpec, Tokens, Values
from selfpretrain.tasks.simple import features, methods, symbols
from selfpretrain.tasks.simple.features import FlatValues, Rhythm, Statistics, Summary, Symbols, ValueWindows
from selfpretrain.tasks.simple.methods import BOOSTED, LINEAR, LOGISTIC, Method, features_named
from selfpretrain.tasks.simple.symbols import Windows

NAMES = ("a", "b")
RANDOM = np.random.RandomState(0)
VALUES = RANDOM.randn(40, 12, 2).astype(np.float32).cumsum(1)
LONGER = RANDOM.randn(40, 32, 2).astype(np.float32).cumsum(1)
SYMBOLS = RANDOM.randint(0, 5, (40, 12)).astype(np.uint8)
OF_VALUES = (FlatValues, Summary, Statistics, ValueWindows, Rhythm)


def dataset(rows):
    return SequenceDataset.from_sequences(list(rows), np.arange(len(rows)) % 2)


def fitted(kind, rows):
    found = kind()
    found.fit(dataset(rows))
    return found


def columns(kind, rows):
    return fitted(kind, rows).transform(dataset(rows))


@pytest.mark.parametrize("places", [7, 1])
def test_a_shorter_sequence_has_the_mean_of_values_where_it_has_ended(places):
    found = fitted(FlatValues, VALUES)
    whole, cut = (found.transform(dataset(rows)) for rows in (VALUES[:1], VALUES[:1, :places]))
    np.testing.assert_array_equal(cut[:, : 2 * places], whole[:, : 2 * places])
    assert cut.shape == whole.shape and (cut[:, 2 * places :] == 0).all()


@pytest.mark.parametrize("places", [7, 1])
def test_a_shorter_sequence_has_no_symbol_where_it_has_ended(places):
    found = fitted(Symbols, SYMBOLS)
    x = found.transform(dataset([SYMBOLS[0, :places]])) * found.spread + found.mean
    np.testing.assert_allclose(x[0], [*SYMBOLS[0, :places], *[-1] * (12 - places)], atol=1e-12)


@pytest.mark.parametrize(("kind", "rows"), [(FlatValues, VALUES), (Symbols, SYMBOLS)])
def test_a_longer_sequence_is_cut_to_the_length_of_training(kind, rows):
    found = fitted(kind, rows[:, :9])
    np.testing.assert_array_equal(found.transform(dataset(rows)), found.transform(dataset(rows[:, :9])))


@pytest.mark.parametrize(("kind", "rows"), [(FlatValues, VALUES), (Symbols, SYMBOLS)])
def test_the_length_of_training_is_known_after_loading(kind, rows):
    found = fitted(kind, rows[:, :9])
    assert set(found.state()) == {"mean", "spread"}
    again = kind()
    again.load(found.state())
    other = dataset([rows[0], rows[1, :9], rows[2, :4]])
    np.testing.assert_array_equal(again.transform(other), found.transform(other))


def test_pairs_of_other_lengths_have_the_columns_of_training():
    pairs = SequenceDataset.from_array(VALUES.reshape(40, 12, 2), np.zeros(40, dtype=np.int64))
    halves = SequenceDataset(
        pairs.flat, pairs.starts.view(2, 20), pairs.lengths.view(2, 20), torch.zeros(20, dtype=torch.int64)
    )
    found = FlatValues()
    found.fit(halves)
    whole = found.transform(halves)
    lengths = torch.stack([torch.full((20,), 12), torch.full((20,), 5)])
    x = found.transform(SequenceDataset(pairs.flat, halves.starts, lengths, halves.targets))
    np.testing.assert_array_equal(x[:, :34], whole[:, :34])
    assert x.shape == whole.shape and (x[:, 34:] == 0).all()


@pytest.mark.parametrize("kind", OF_VALUES)
def test_features_tell_as_much_of_small_values_as_of_large_ones(kind):
    """A field of picotesla is not a constant."""
    ordinary, small, smaller = (columns(kind, LONGER * np.float32(unit)) for unit in (1, 2**-30, 2**-40))
    np.testing.assert_array_equal(small, smaller)
    assert ((small.std(0) > 0.5) == (ordinary.std(0) > 0.5)).all() and (ordinary.std(0) > 0.5).mean() > 0.9
    if kind in (FlatValues, Summary, ValueWindows):
        np.testing.assert_array_equal(small, ordinary)
    if kind is Statistics:
        np.testing.assert_array_equal(small.argsort(0, kind="stable"), ordinary.argsort(0, kind="stable"))


@pytest.mark.parametrize("kind", [FlatValues, Summary, Statistics, ValueWindows])
def test_a_channel_of_ordinary_values_does_not_change_beside_one_of_small_values(kind):
    mixed = LONGER * np.array([1, 1e-12], dtype=np.float32)
    first = int(kind is Statistics)  # there is the length
    beside, before = (columns(kind, rows)[:, first:] for rows in (mixed, LONGER))
    np.testing.assert_array_equal(beside[:, ::2], before[:, ::2])
    assert beside[:, 1::2].std(0).min() > 0.5


@pytest.mark.parametrize("kind", OF_VALUES)
def test_units_are_saved_where_values_are_small(kind):
    for rows, names in ((VALUES, {"mean", "spread"}), (VALUES * 1e-12, {"mean", "spread", "unit"})):
        found = fitted(kind, rows)
        assert set(found.state()) == names
        again = features_named(SequenceSpec(Values(2), 12, target_of(kind)), kind.name)
        again.load(found.state())
        np.testing.assert_array_equal(again.transform(dataset(rows)), found.transform(dataset(rows)))


@pytest.mark.parametrize("level", [1.0, 1e-12, 5e6])
def test_a_constant_channel_is_not_scaled_up(level):
    rows = np.full((8, 12, 1), level, dtype=np.float32)
    assert abs(columns(FlatValues, rows)).max() < 1e-6
    around = np.concatenate([VALUES, -VALUES], axis=1) * 1e-12  # whose means are rounding errors
    assert abs(columns(Summary, around)[:, :2]).max() < 1e-3


@pytest.mark.parametrize("method", [Method(Summary, LINEAR, LOGISTIC), Method(Statistics, BOOSTED, (2,))])
def test_a_law_of_small_values_is_learned(method):
    """Only the size of steps tells the classes apart, and nothing is larger than a picovolt."""
    rows = RANDOM.randn(80, 30, 1) * (1 + 2 * (np.arange(80) % 2))[:, None, None] * 1e-13
    examples = dataset(rows.astype(np.float32))
    form = SequenceSpec(Values(), 30, Classes(NAMES))
    found = method.features()
    found.fit(examples)
    model = method.fitted(form, found.transform(examples), examples, method.grid[0])
    assert (model.scores(found.transform(examples)).argmax(1) == np.arange(80) % 2).mean() > 0.95


def target_of(kind):
    return PositionClasses(NAMES) if kind.of_positions else Classes(NAMES)


POSITIONS = [(ValueWindows, LINEAR, 1.0), (Rhythm, BOOSTED, 1), (Windows, LINEAR, 1.0)]


def of_positions(kind, n, longest):
    """Sequences of unequal lengths with some labels, and their form."""
    lengths = RANDOM.randint(longest // 2, longest + 1, n)
    tokens = issubclass(kind, Windows)
    rows = [RANDOM.randint(0, 5, k).astype(np.uint8) if tokens else RANDOM.randn(k, 2) for k in lengths]
    y = RANDOM.randint(-1, 2, (n, longest))
    y[np.arange(longest) >= lengths[:, None]] = -1
    signal = Tokens(5) if tokens else Values(2)
    examples = SequenceDataset.from_sequences(rows, y)
    return examples, SequenceSpec(signal, longest, PositionClasses(NAMES))


@pytest.mark.parametrize(("kind", "model", "setting"), POSITIONS)
@pytest.mark.parametrize("most", [2, 60, 90])
def test_models_of_many_positions_are_those_of_all_at_a_time(kind, model, setting, most, monkeypatch):
    """However few positions are in memory, the same rows are drawn, and the same answers are given."""
    monkeypatch.setattr(methods, "POSITIONS", 200)
    monkeypatch.setattr(methods, "MAX_BOOSTED", 400)
    examples, form = of_positions(kind, 24, 30)
    method = Method(kind, model, (setting,))
    drawn = []

    def fit():
        found = method.measured(examples).fitted(examples)
        x = found.transform(examples)
        some = np.sort(RANDOM.permutation(int(examples.lengths.sum()))[:200])
        drawn.append((x, some))
        return method.fitted(form, x, examples, setting).scores(x)

    whole = fit()
    monkeypatch.setattr(symbols, "CHUNK", most)
    monkeypatch.setattr(features, "MANY", most * (2 if isinstance(form.signal, Values) else 1), raising=False)
    np.testing.assert_allclose(fit(), whole, rtol=1e-6, atol=1e-9)
    (x, some), (again, _) = drawn
    dense = [each[some].toarray() if issubclass(kind, Windows) else each[some] for each in (x, again)]
    np.testing.assert_allclose(*dense, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "model", "setting"), POSITIONS[:2])
def test_memory_does_not_grow_with_the_positions_of_all_sequences(kind, model, setting, monkeypatch):
    monkeypatch.setattr(features, "MANY", 4_000, raising=False)
    monkeypatch.setattr(methods, "POSITIONS", 500)
    monkeypatch.setattr(methods, "MAX_BOOSTED", 1000)
    method = Method(kind, model, (setting,))
    peaks = []
    for n in (20, 100):
        examples, form = of_positions(kind, n, 400)
        tracemalloc.start()
        found = method.measured(examples).fitted(examples)
        x = found.transform(examples)
        method.fitted(form, x, examples, setting).scores(x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Five times as many positions: their labels, weights and scores are some 60 bytes each.
    assert peaks[1] - peaks[0] < 100 * 80 * 300 < 8 * 80 * 300 * found.mean.size


@pytest.mark.parametrize("signal", [Tokens(5), Values(2, centre=(0.0, 0.0), spread=(1.0, 1.0))])
def test_positions_have_the_same_features_whatever_sequences_stand_beside_them(signal):
    every = SYMBOLS if isinstance(signal, Tokens) else VALUES
    rows = [row[: 1 + i % 12] for i, row in enumerate(every)]
    labelled = dataset(rows)
    form = SequenceSpec(signal, 12, PositionClasses(NAMES))
    found = [each for each in methods.simple_methods(form, len(rows), labelled.lengths) if each.candidate]
    assert len(found) >= 2
    for method in found:
        kind = method.measured(labelled).fitted(labelled)
        together = kind.transform(labelled)
        alone = [kind.transform(dataset([row])) for row in rows]
        dense = [x.toarray() if hasattr(x, "toarray") else x for x in (together, *alone)]
        np.testing.assert_allclose(np.concatenate(dense[1:]), dense[0], atol=1e-9, err_msg=kind.name)
