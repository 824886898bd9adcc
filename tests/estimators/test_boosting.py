"""Boosted trees as simple methods: they give what scikit-learn gives, survive being saved, and see clocks."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from selfpretrain import PositionClassifier, SequenceClassifier, SequenceRegressor
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import Classes, ClassSets, Reals, SequenceSpec, Values
from selfpretrain.estimators import simple
from selfpretrain.tasks.simple import models
from selfpretrain.tasks.simple.features import FlatValues
from selfpretrain.tasks.simple.models import NEVER, BoostedTrees, fit_boosted

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(200, 6)
WEIGHTS = RANDOM.rand(200) + 0.5
SETTINGS = {"learning_rate": 0.1, "subsample": 0.5, "max_features": "sqrt", "max_depth": 3}
SETTINGS |= {"init": "zero", "random_state": 0, "min_weight_fraction_leaf": models.MIN_WEIGHT}
QUICK = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 0.1, "n_trials": 1, "exhaustive": True}


@pytest.fixture(autouse=True)
def all_trees(monkeypatch):
    """As many as users get; other tests have fewer."""
    monkeypatch.setattr(models, "MAX_TREES", 200)
    monkeypatch.setattr(models, "MIN_TREES", 50)


def names(number):
    return tuple(str(i) for i in range(number))


@pytest.mark.parametrize("number", [2, 3])
def test_logits_are_those_of_scikit_learn(number):
    y = (np.abs(X[:, 0] + X[:, 1] * X[:, 2]) * 2).astype(int).clip(max=number - 1)
    model = fit_boosted(X, y, WEIGHTS, Classes(names(number)), 3)
    theirs = GradientBoostingClassifier(n_estimators=200, **SETTINGS).fit(X, y, WEIGHTS)
    found = model.scores(X)
    expected = theirs.decision_function(X)
    assert np.allclose(found[:, 1:], expected[:, None] if number == 2 else expected[:, 1:], atol=1e-9)
    assert (found[:, 0] == 0).all() if number == 2 else np.allclose(found[:, 0], expected[:, 0])


def test_numbers_are_those_of_scikit_learn():
    y = 40 + 7 * X[:, 0] * X[:, 1]
    model = fit_boosted(X, y, WEIGHTS, Reals(centre=40.0, spread=7.0), 3)
    theirs = GradientBoostingRegressor(n_estimators=200, **SETTINGS).fit(X, (y - 40) / 7, WEIGHTS)
    assert np.allclose(model.scores(X)[:, 0], 40 + 7 * theirs.predict(X))


def test_classes_without_examples_are_never_predicted():
    y = np.where(X[:, 0] > 0, 3, 1)
    scores = fit_boosted(X, y, WEIGHTS, Classes(names(5)), 2).scores(X)
    assert (scores[:, [0, 2, 4]] == NEVER).all() and (scores.argmax(1) == y).mean() > 0.95
    alone = fit_boosted(X, np.full(200, 2), WEIGHTS, Classes(names(5)), 2).scores(X)
    assert (alone.argmax(1) == 2).all()


def test_sets_of_classes_have_a_logit_each():
    y = np.stack([X[:, 0] > 0, np.ones(200), np.zeros(200)], axis=1).astype(int)
    weights = np.repeat(WEIGHTS[:, None], 3, axis=1)
    scores = fit_boosted(X, y, weights, ClassSets(names(3)), 2).scores(X)
    assert ((scores > 0) == y).mean() > 0.98
    assert (scores[:, 1] == -NEVER).all() and (scores[:, 2] == NEVER).all()


def test_saved_trees_are_the_same_and_damaged_ones_are_refused():
    model = fit_boosted(X, (X[:, 0] > 0).astype(int), WEIGHTS, Classes(names(2)), 2)
    state = model.state()
    assert (BoostedTrees.load(state, 2).scores(X) == model.scores(X)).all()
    with pytest.raises(ValueError, match="for 3 outputs"):
        BoostedTrees.load(state, 3)
    with pytest.raises(ValueError, match="not after it"):
        BoostedTrees.load(state | {"left": torch.zeros_like(state["left"])}, 2)


def test_labels_that_follow_a_clock_are_kept_with_trees_and_saved(tmp_path):
    """Every third position is another class whatever stands there, which no window of symbols says."""
    random = np.random.RandomState(1)
    x = [list(random.randint(0, 5, random.randint(12, 24))) for _ in range(70)]
    y = [[["a", "b"][t % 3 == 0] for t in range(len(row))] if i < 30 else None for i, row in enumerate(x)]
    model = PositionClassifier(**QUICK, signal="tokens").fit(x, y)
    assert model.kept_.startswith("kept: boosted trees on a wide window and the place of a position")
    assert model.score(x[30:], [[["a", "b"][t % 3 == 0] for t in range(len(row))] for row in x[30:]]) > 0.99
    again = PositionClassifier.load(model.save(tmp_path / "model"))
    assert all((a == b).all() for a, b in zip(again.predict(x), model.predict(x), strict=True))
    assert any(row["name"].startswith("average of SPT") for row in model.leaderboard_)


def test_statistics_tell_waves_by_their_frequency(monkeypatch):
    every = simple.candidates_for

    def trees(form, labelled):
        return [each for each in every(form, labelled) if "trees on statistics" in each.name(form.target)]

    monkeypatch.setattr(simple, "candidates_for", trees)
    random = np.random.RandomState(2)
    speed = random.choice([0.3, 1.5], 120)
    waves = [np.sin(s * np.arange(random.randint(40, 60)) + random.rand() * 6) for s in speed]
    model = SequenceClassifier(**QUICK).fit(waves, np.where(speed < 1, "slow", "quick"))
    (found,) = [row for row in model.leaderboard_ if row["name"].startswith("random trees on statistics")]
    assert found["score"] > 0.97
    numbers = SequenceRegressor(**QUICK).fit(waves, speed)
    (found,) = [row for row in numbers.leaderboard_ if row["name"].startswith("boosted trees on statistics")]
    assert found["score"] > 0.9


def test_there_are_fewer_trees_for_many_classes():
    y = np.arange(200) % 40
    model = fit_boosted(X, y, WEIGHTS, Classes(names(40)), 2)
    assert len(model.root) == models.MIN_TREES * 40


def test_many_sequences_are_answered_some_at_a_time(monkeypatch):
    data = SequenceDataset.from_array(X[:, :, None].astype(np.float32), (X[:, 0] > 0).astype(int))
    features = FlatValues()
    features.fit(data)
    form = SequenceSpec(Values(1), 6, Classes(names(2)))
    model = fit_boosted(features.transform(data), data.targets.numpy(), WEIGHTS, form.target, 2)
    predictor = simple.SimplePredictor(form, features, model)
    at_once = predictor.probabilities(data)
    monkeypatch.setattr(simple, "AT_A_TIME", 7)
    sizes = []
    transform = FlatValues.transform
    monkeypatch.setattr(
        FlatValues, "transform", lambda self, some: sizes.append(len(some)) or transform(self, some)
    )
    assert (predictor.probabilities(data) == at_once).all()
    assert sum(sizes) == 200 and max(sizes) == 7
