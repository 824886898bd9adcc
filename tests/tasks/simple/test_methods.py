"""The list of simple methods: what suits which data, and features that are saved."""

from itertools import product

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Tokens, Values
from selfpretrain.tasks.simple.features import ALL
from selfpretrain.tasks.simple.methods import features_named, simple_methods
from selfpretrain.tasks.simple.models import fit_linear

NAMES = ("a", "b")
SIGNALS = (Tokens(5), Values(channels=2))
TARGETS = (Classes(NAMES), Reals(), ClassSets(NAMES), PositionClasses(NAMES))


def data_of(signal, n=12):
    random = np.random.RandomState(0)
    if isinstance(signal, Tokens):
        return SequenceDataset.from_array(random.randint(0, 5, (n, 20)).astype(np.uint8), np.arange(n) % 2)
    return SequenceDataset.from_array(random.randn(n, 20, 2).astype(np.float32), np.arange(n) % 2)


@pytest.mark.parametrize(
    ("signal", "target", "lengths", "unlabelled"),
    [*product(SIGNALS, TARGETS, ([20, 20], [20, 9]), (False, True))],
)
def test_all_data_have_methods_and_no_two_have_one_name(signal, target, lengths, unlabelled):
    form = SequenceSpec(signal, 20, target)
    every = simple_methods(form, 100, torch.tensor(lengths), unlabelled)
    for use in ("candidate", "baseline"):
        found = [each.name(target) for each in every if getattr(each, use)]
        assert found and len(set(found)) == len(found)
        assert not isinstance(target, Reals) or not any("logistic" in name for name in found)
    of_all = [name for name in found if name.endswith(ALL)]
    none = isinstance(target, Reals | ClassSets) or (target, signal) == (TARGETS[3], SIGNALS[1])
    assert bool(of_all) == (unlabelled and not none)


@pytest.mark.parametrize(("labelled", "classes"), [(7_000, 24), (100_000, 5), (1_800, 42)])
def test_many_rows_or_classes_have_trees_on_intervals(labelled, classes):
    form = SequenceSpec(Values(), 46, Classes(tuple(map(str, range(classes)))))
    every = simple_methods(form, labelled, torch.full((labelled,), 46))
    assert {"quantiles of intervals (QUANT)", "statistics of values"} <= {
        each.features().name for each in every if each.candidate
    }


FORMS = [SequenceSpec(signal, 20, target) for signal, target in product(SIGNALS, TARGETS)]
LISTED = {
    each.features().name: form
    for form in FORMS
    for each in simple_methods(form, 8, torch.tensor([20]))
    if each.candidate
}


@pytest.mark.parametrize("name", LISTED)
def test_features_are_the_same_after_they_are_saved(name):
    form = LISTED[name]
    examples = data_of(form.signal)
    found = features_named(form, name)
    found.measure(examples)
    found.fit(examples.take(torch.arange(8)))
    again = features_named(form, name)
    again.load(found.state())
    x, y = (np.asarray(each.transform(examples).sum(0)).ravel() for each in (found, again))
    assert x.std() > 0
    np.testing.assert_array_equal(x, y)


def test_features_of_baselines_alone_are_not_loaded():
    with pytest.raises(KeyError):
        features_named(FORMS[0], f"directions of 1-4-grams, {ALL}")


@pytest.mark.parametrize("kind", ["1-4-grams", "symbols at their places", "values", "mean, sd, min, max"])
def test_pairs_of_sequences_have_features_of_both(kind):
    tokens = kind in ("1-4-grams", "symbols at their places")
    examples = data_of(SIGNALS[0] if tokens else SIGNALS[1])
    starts = examples.starts[0]
    pairs = SequenceDataset(
        examples.flat,
        torch.stack([starts, starts.flip(0)]),
        examples.lengths.repeat(2, 1),
        examples.targets,
    )
    found = features_named(LISTED[kind], kind)
    found.fit(pairs)
    x = found.transform(pairs)
    x = x.toarray() if tokens else x
    half = x.shape[1] // 2
    if kind == "1-4-grams":  # product and difference do not depend on the order
        np.testing.assert_allclose(x, x[::-1])
    else:
        np.testing.assert_allclose(x[:, :half], x[::-1, half:])
    assert x.std(0).max() > 0


def ragged(kind, n=24):
    """Sequences of 5 to 19 positions: whole numbers in two channels, values far from zero, or symbols."""
    random = np.random.RandomState(0)
    draw = {
        "whole": lambda length: random.randint(0, 4, (length, 2)).astype(np.float32),
        "constant": lambda length: np.full((length, 1), random.randint(3) / 3, dtype=np.float32),
        "far": lambda length: (1e4 + random.randn(length, 3)).astype(np.float32),
        "long": lambda length: random.randn(10 * length, 1).astype(np.float32),
        "symbols": lambda length: random.randint(0, 5, length).astype(np.uint8),
    }[kind]
    rows = [draw(random.randint(5, 20)) for _ in range(n)]
    signal = Tokens(5) if kind == "symbols" else Values(channels=rows[0][:1].size)
    return rows, signal


def mean_scores(model, features, rows, target):
    """The scores of every sequence; of positions, their mean."""
    data = SequenceDataset.from_sequences(rows, np.zeros(len(rows), dtype=np.int64))
    scores = model.scores(features.transform(data))
    lengths = [len(row) for row in rows] if isinstance(target, PositionClasses) else [1] * len(rows)
    return np.stack([part.mean(0) for part in np.split(scores, np.cumsum(lengths)[:-1])])


@pytest.mark.parametrize("target", [Classes(NAMES), PositionClasses(NAMES)], ids=["classes", "positions"])
@pytest.mark.parametrize("kind", ["whole", "constant", "far", "long", "symbols"])
def test_a_prediction_does_not_depend_on_the_sequences_beside_it(kind, target):
    rows, signal = ragged(kind)
    form = SequenceSpec(signal, max(map(len, rows)), target)
    labels = np.arange(len(rows)) % 2
    if isinstance(target, PositionClasses):
        labels = np.where(
            np.arange(form.length) < np.array([[len(row)] for row in rows]), labels[:, None], -1
        )
    data = SequenceDataset.from_sequences(rows, labels)
    for method in simple_methods(form, len(rows), data.lengths):
        if not method.candidate:
            continue
        features = method.measured(data).fitted(data)
        setting = method.settings(target)[0]
        model = method.fitted(form, features.transform(data), data, setting)
        together = mean_scores(model, features, rows, target)
        alone = [mean_scores(model, features, [row], target)[0] for row in rows]
        backwards = mean_scores(model, features, rows[::-1], target)[::-1]
        np.testing.assert_allclose(alone, together, atol=1e-10, err_msg=method.name(target))
        np.testing.assert_allclose(backwards, together, atol=1e-10, err_msg=method.name(target))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_model_of_few_rows_is_that_of_all_features(classes):
    """It is solved in the span of the rows."""
    random = np.random.RandomState(0)
    x, new = random.randn(15, 400), random.randn(50, 400)
    y = np.arange(15) % classes
    found = fit_linear(x, y, np.ones(15), Classes(tuple("abc"[:classes])), 0.1).scores(new)
    expected = LogisticRegression(C=0.1, tol=1e-8, max_iter=5_000).fit(x, y).decision_function(new)
    found = found[:, 1] if classes == 2 else found - found.mean(1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-3)
