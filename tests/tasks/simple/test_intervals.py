"""Quantiles of intervals and random trees: as defined, as scikit-learn has them, and what they tell apart."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, Reals
from selfpretrain.tasks.simple import models
from selfpretrain.tasks.simple.intervals import IntervalQuantiles, intervals, quantiles
from selfpretrain.tasks.simple.models import LEAST, RandomTrees, fit_random

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(150, 8)
WEIGHTS = RANDOM.rand(150) + 0.5
TREES = {"n_estimators": 200, "max_features": 0.5, "random_state": 0}


@pytest.fixture(autouse=True)
def all_trees(monkeypatch):
    """As many as users get; other tests have fewer."""
    monkeypatch.setattr(models, "RANDOM_TREES", 200)


def test_parts_halve_and_lie_between_each_other():
    found = intervals(8)
    assert found[:4] == [(0, 8, 2), (0, 4, 1), (4, 8, 1), (2, 6, 1)]
    assert found[4:11] == [(0, 2, 1), (2, 4, 1), (4, 6, 1), (6, 8, 1), (1, 3, 1), (3, 5, 1), (5, 7, 1)]
    assert found[11:] == [(place, place + 1, 1) for place in range(8)]
    assert intervals(1) == [(0, 1, 1)]
    assert all(0 <= begin < end <= 100 for begin, end, _ in intervals(100))


@pytest.mark.parametrize("number", [1, 2, 5])
def test_quantiles_are_those_of_numpy_every_other_less_the_mean(number):
    expected = np.quantile(X, np.linspace(0, 1, number) if number > 1 else [0.5], axis=1).T
    expected[:, 1::2] -= X.mean(1, keepdims=True)
    np.testing.assert_allclose(quantiles(X, number), expected, atol=1e-12)


def test_answers_are_those_of_scikit_learn():
    y = np.where(X[:, 0] * X[:, 1] > 0, 2, 0)
    model = fit_random(X, y, WEIGHTS, Classes(("a", "b", "c")), 0.5)
    theirs = ExtraTreesClassifier(criterion="entropy", **TREES).fit(X, y, WEIGHTS).predict_proba(X[:, :])
    assert np.allclose(np.exp(model.scores(X)[:, [0, 2]]), np.maximum(theirs, LEAST))
    assert np.allclose(np.exp(model.scores(X)[:, 1]), LEAST)
    numbers = fit_random(X, X[:, 0] + 40, WEIGHTS, Reals(centre=40.0, spread=1.0), 0.5)
    theirs = ExtraTreesRegressor(**TREES).fit(X, X[:, 0] + 40, WEIGHTS)
    assert np.allclose(numbers.scores(X)[:, 0], theirs.predict(X))


def test_only_leaves_have_answers():
    y = np.arange(len(X)) % 24
    model = fit_random(X, y, WEIGHTS, Classes(tuple(map(str, range(24)))), 0.5)
    assert len(model.answers) == (model.feature < 0).sum() and model.answers.dtype == np.float32
    assert (model.scores(X).argmax(1) == y).all()


def test_trees_of_other_outputs_are_refused():
    state = fit_random(X, (X[:, 0] > 0).astype(int), WEIGHTS, Classes(("a", "b")), 0.5).state()
    RandomTrees.load(state, 2)
    with pytest.raises(ValueError, match="for 3 outputs"):
        RandomTrees.load(state, 3)
    with pytest.raises(ValueError, match="not after it"):
        RandomTrees.load(state | {"left": torch.zeros_like(state["left"])}, 2)


def test_a_bump_somewhere_in_a_part_of_the_sequence_is_seen():
    rows, y = [], np.arange(120) % 2
    for label in y:
        row = 0.3 * RANDOM.randn(RANDOM.randint(90, 110))
        begin = (55 if label else 5) + RANDOM.randint(30)
        row[begin : begin + 5] += 2
        rows.append(row[:, None].astype(np.float32))
    data = SequenceDataset.from_sequences(rows, y)
    train, test = data.take(torch.arange(80)), data.take(torch.arange(80, 120))
    features = IntervalQuantiles()
    features.measure(train)
    features.fit(train)
    model = fit_random(features.transform(train), y[:80], np.ones(80), Classes(("early", "late")), 0.1)
    assert (model.scores(features.transform(test)).argmax(1) == y[80:]).mean() > 0.9
