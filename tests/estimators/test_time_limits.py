"""A fit ends near its time limit: what does not fit is left out, and it says so."""

import re

import numpy as np
import pytest
import torch

from selfpretrain import PositionClassifier, SequenceClassifier, SequencePretrainer, SequenceRegressor
from selfpretrain.errors import Interrupted, SpecError, StageFailed
from selfpretrain.estimators import fitting, stopping
from selfpretrain.estimators.simple import candidates_for
from selfpretrain.estimators.training import Trainings
from selfpretrain.system.time_limit import TimeIsUp, check_time, until
from selfpretrain.training import cost

QUICK = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 1, "device": "cpu"}
X = [np.random.default_rng(i).normal(size=12).astype(np.float32) + i % 2 for i in range(40)]
y = [i % 2 for i in range(40)]
TEXTS = [
    "".join("aeiou"[(i * j + j) % 5] for j in range(5)) + "pqrstvwx"[i // 5] + "ab"[i % 2] for i in range(40)
]


@pytest.fixture
def slow(monkeypatch):
    """One step of any network takes half a minute, by its measurement."""
    monkeypatch.setattr(cost, "seconds_per_step", lambda *asked: 30.0)


def test_where_no_step_fits_the_best_simple_method_is_kept_and_the_network_says_why(slow, tmp_path):
    model = SequenceClassifier(**QUICK, minutes=1 / 3)
    with pytest.warns(UserWarning, match="network was not trained: one step takes at least 30 s of the 20 s"):
        model.fit(X, y)
    assert "the network was not trained" in model.kept_ and "\n" not in model.kept_
    assert model.trials_ == [] and not any("SPT" in row["name"] for row in model.leaderboard_)
    again = SequenceClassifier.load(model.save(tmp_path / "model"), device="cpu")
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    for each in (model, again):
        with pytest.raises(SpecError, match="the network of this model was not trained"):
            each.transform(X)


def test_simple_methods_that_the_time_does_not_allow_are_counted(monkeypatch, capsys):
    monkeypatch.setattr(fitting, "SIMPLE", -1.0)
    model = SequenceClassifier(**QUICK, minutes=1 / 3, verbose=True).fit(X, y)
    said = capsys.readouterr().err
    number = re.search(r"not tried: (\d+) of \1 simple methods", said)
    assert number and len(model.leaderboard_) == 1


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (SequenceClassifier, {"model": "network"}),
        (SequenceClassifier, {"model": "network", "n_trials": 1}),
        (SequenceRegressor, {"model": "network"}),
        (SequencePretrainer, {}),
    ],
)
def test_where_no_step_fits_and_nothing_else_can_be_kept_it_is_one_line(slow, kind, settings):
    with pytest.raises(
        StageFailed, match=r"one step takes at least 30 s of the 20 s, .*no other model"
    ) as it:
        kind(**QUICK, **settings, minutes=1 / 3).fit(X, y)
    assert "\n" not in str(it.value)


def test_settings_that_the_time_does_not_allow_are_left_out(monkeypatch, capsys):
    """Finetunings of one step and validations, on five folds: four settings, or the first alone."""
    tried = []
    quick = {**QUICK, "model": "network", "pooling": "mean"}
    for seconds in (0.01, 1.8):
        monkeypatch.setattr(cost, "seconds_per_step", lambda *asked, s=seconds: s)
        model = SequenceClassifier(**quick, minutes=1 / 3, verbose=True).fit(TEXTS, y)
        tried.append(len({(row["objective"], row["rate"]) for row in model.trials_}))
        left_out = r"not trained: 3 settings of .*, about .*; they do not fit into 20 s; minutes=2 "
        assert re.match(left_out if tried[-1] == 1 else "$", model.left_out_)
        assert any("SPT" in row["name"] for row in model.leaderboard_)
    said = capsys.readouterr()
    assert tried == [4, 1]
    assert "at most 0.0" not in said.out + said.err and "1 settings, 5 validation" in said.out + said.err
    assert re.search(r"SPT \(masked\), attention, mean, lr .*: 2 of 5 folds\n", said.err)


@pytest.mark.parametrize("settings", [{}, {"n_trials": 1}])
def test_training_that_takes_longer_than_planned_is_stopped(monkeypatch, settings):
    monkeypatch.setattr(stopping, "GRACE", -1e9)
    monkeypatch.setattr(stopping, "GRACE_SHARE", -1.0)
    with pytest.warns(UserWarning, match="the network was not trained"):
        model = SequenceClassifier(**QUICK, **settings).fit(X, y)
    assert model.simple_ and np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(("done", "networks"), [(2, 2), (5, 3), (7, 5)])
def test_a_network_is_made_of_the_folds_that_were_trained_in_time(monkeypatch, done, networks):
    """Of 2 settings on 2 folds each, then the rest: after so many trainings the time is up."""
    left, run = iter(range(done)), Trainings.run

    def limited(self, recipes):
        if next(left, None) is None:
            raise Interrupted("stopped")
        return run(self, recipes)

    monkeypatch.setattr(Trainings, "run", limited)
    model = SequenceClassifier(**QUICK, model="network", pooling="mean", n_trials=2, objective="masked")
    if done < 7:
        with pytest.warns(UserWarning, match="not trained on all folds: the time limit of 10 min"):
            model.fit(X, y)
    else:
        model.fit(X, y)
    assert len(model.predictor_.networks) == networks == len(model.validation_scores_)
    assert np.isfinite(model.predict_proba(X)).all() and model.trained_


@pytest.mark.parametrize(
    ("kind", "x", "labels"),
    [
        (SequenceClassifier, np.stack(X), y),
        (SequenceClassifier, TEXTS, y),
        (PositionClassifier, TEXTS, [list("abcdefg")] * 40),
        (PositionClassifier, np.stack(X), [[i % 2] * 12 for i in y]),
    ],
)
def test_every_simple_method_stops_where_the_time_is_up(kind, x, labels):
    estimator = kind()  # holds the data of the task
    task = estimator._as_task(x, labels)
    form, examples = task.form, task.load("train")
    methods = candidates_for(form, examples)
    assert methods
    for method in methods:
        features = method.measured(examples).fitted(examples)
        matrix = features.transform(examples)
        with until(-1.0):
            with pytest.raises(TimeIsUp):
                features.transform(examples)
            with pytest.raises(TimeIsUp):
                method.fitted(form, matrix, examples, method.settings(form.target)[0])


def test_measuring_a_step_ends_with_the_time_and_is_done_again_with_more():
    model = SequenceClassifier(**QUICK, dropout=0.123)  # measured by no other test
    recipe = model.recipe(model._as_task(X, y))
    backward = []
    handle = torch.nn.modules.module.register_module_full_backward_hook(lambda *call: backward.append(call))
    try:
        with until(-1.0):
            assert cost.seconds_per_step(recipe) > 0 and not backward
        assert cost.seconds_per_step(recipe) > 0 and backward
    finally:
        handle.remove()


def test_the_earlier_of_two_limits_counts():
    with until(-1.0), until(1e18), pytest.raises(TimeIsUp):
        check_time()
    check_time()


def test_a_limit_that_is_not_reached_changes_nothing():
    first, second = (SequenceClassifier(**QUICK, n_trials=1, model="network", minutes=t) for t in (None, 30))
    answers = [model.fit(X, y).predict_proba(X) for model in (first, second)]
    assert torch.equal(*map(torch.from_numpy, answers))
