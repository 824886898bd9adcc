"""A fit may end before its time: where validation can show no gain, and at Ctrl-C, with the best so far."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from selfpretrain import SequenceClassifier, SequencePretrainer
from selfpretrain.errors import SpecError
from selfpretrain.estimators import search, stopping, training
from selfpretrain.estimators.search import Search
from selfpretrain.estimators.simple import AVERAGED, SimpleMethods
from selfpretrain.estimators.training import Trainings
from selfpretrain.runner import stage
from selfpretrain.system.startup import others_interrupt
from selfpretrain.system.time_limit import TimeIsUp
from selfpretrain.training.train import train

pytestmark = pytest.mark.usefixtures("rough_flops")
SMALL = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 1, "objective": "masked", "device": "cpu"}
RANDOM = np.random.default_rng(0)
TEXTS = ["".join(RANDOM.choice(list("abcd"), 6)) + "xy"[i % 2] for i in range(60)]
CLASSES = ["left", "right"] * 30


def interrupt():
    """Send what Ctrl-C sends."""
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(Trainings, "run", lambda *_: pytest.fail("a network is trained"))


def test_where_a_simple_method_is_right_on_all_of_validation_no_network_is_trained(
    no_training, capsys, tmp_path
):
    model = SequenceClassifier(**SMALL, verbose=True).fit(TEXTS, CLASSES)
    assert not model.trained_ and model.trials_ == [] and not model.interrupted_
    assert model.score(TEXTS, CLASSES) == 1
    said = "not trained: 5 settings of the network, about .*; .* is right on all 60 examples of validation"
    assert re.match(f"{said}, so no network can score higher; exhaustive=True .* trains", model.left_out_)
    lines = capsys.readouterr().err.splitlines()
    assert model.left_out_ == lines[-1]
    growing = lines[: next(i for i, line in enumerate(lines) if "is kept" in line)]
    simple = [row["name"] for row in model.leaderboard_ if "average" not in row["name"]]
    assert sum(line.endswith(name) for line in growing for name in simple) == len(simple)
    with pytest.raises(SpecError, match="exhaustive=True"):
        SequenceClassifier.load(model.save(tmp_path / "model")).transform(TEXTS)


def test_networks_far_behind_a_simple_method_are_given_up_after_the_first_round(capsys):
    noisy = [*TEXTS[:50], *(text[:-1] + "xy"[text[-1] == "x"] for text in TEXTS[50:])]
    model = SequenceClassifier(**SMALL, verbose=True, minutes=5).fit(noisy, CLASSES)
    assert {row["round"] for row in model.trials_} == {"first"} and model.shares_[0] in (0, 1)
    assert re.search("not trained: . settings? .*; .* is more than 2 standard errors better", model.left_out_)
    assert all("SPT" not in row["name"] for row in model.leaderboard_)
    assert model.transform(noisy).shape == (60, 8)
    again = SequenceClassifier(**SMALL, exhaustive=True).fit(noisy, CLASSES)
    assert {row["round"] for row in again.trials_} == {"first", "second"}


def test_of_labels_too_few_to_hold_any_out_the_usual_simple_method_learns(no_training, tmp_path):
    ten = [*CLASSES[:10], *[None] * 50]
    model = SequenceClassifier(**SMALL).fit(TEXTS, ten)
    assert not model.trained_ and model.leaderboard_ == [] and model.kept_score_ is None
    assert (
        model.kept_.startswith("kept: average of logistic regression on 1-")
        and "fewer than 20 labelled examples" in model.kept_
    )
    assert "exhaustive=True" in model.left_out_
    again = SequenceClassifier.load(model.save(tmp_path / "model"))
    assert (again.predict(TEXTS) == model.predict(TEXTS)).all()
    card = (tmp_path / "model" / "README.md").read_text()
    assert model.kept_ in card and "The network was not trained" in card
    assert "of at most 7 positions" in card  # without signs


def test_of_few_values_the_kept_features_remember_no_sequence(no_training):
    x = RANDOM.normal(size=(10, 40)).astype(np.float32)
    model = SequenceClassifier(**SMALL).fit(x, CLASSES[:10])
    kept = {each.features.name: each.features for each in model.simple_}
    assert list(kept) == [
        "kernels (MiniRocket)",
        "quantiles of intervals (QUANT)",
        "competing kernels (Hydra)",
    ]
    assert kept["kernels (MiniRocket)"].computed is None
    answers = [each.probabilities(model._to_dataset(x)) for each in model.simple_]
    assert np.allclose(model.predict_proba(x), np.mean(answers, axis=0))


@pytest.mark.parametrize("settings", [{"exhaustive": True}, {"model": "network"}])
def test_of_few_labels_a_network_learns_where_it_is_asked_for(settings):
    model = SequenceClassifier(**SMALL, **settings).fit(TEXTS[:10], CLASSES[:10])
    assert model.trained_ and bool(model.simple_) == ("exhaustive" in settings)
    assert model.transform(TEXTS).shape == (60, 8)


@pytest.mark.parametrize(
    ("settings", "rows", "groups"),
    [
        ({"exhaustive": True}, 60, None),
        ({"model": "network"}, 60, None),
        ({}, 60, np.arange(60) // 4),  # fifteen patients say little of others
    ],
)
def test_networks_are_trained_if_that_is_asked_for_or_validation_is_small(
    monkeypatch, settings, rows, groups
):
    monkeypatch.setattr(Search, "best", lambda search: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SequenceClassifier(**SMALL | settings).fit(TEXTS[:rows], CLASSES[:rows], groups=groups)


def test_an_error_or_copies_alone_do_not_end_a_fit():
    model = SequenceClassifier(**SMALL, exhaustive=True)
    for X, y, ends in (
        (TEXTS, CLASSES, True),
        (TEXTS[:6] * 10, CLASSES[:6] * 10, False),
        (TEXTS, [*CLASSES[:59], "left"], False),
    ):
        task = model._as_task(X, y)
        folds = model._folds(task)
        simple = model._simple_candidates(task, folds, stopping.TimeLimit.of(10))
        assert bool(stopping.all_right(simple, folds)) is ends


def test_ctrl_c_while_simple_methods_are_fitted_keeps_those_that_are(monkeypatch, no_training):
    validated = SimpleMethods.validated

    def interrupted(self, *arguments):
        found = validated(self, *arguments)
        interrupt()
        return found

    monkeypatch.setattr(SimpleMethods, "validated", interrupted)
    with pytest.warns(UserWarning, match="not trained: it was interrupted"):
        model = SequenceClassifier(**SMALL).fit(TEXTS, CLASSES)
    assert model.interrupted_ and len(model.leaderboard_) == len(model.simple_) == 1
    assert len(model.predict(TEXTS)) == 60


@pytest.mark.parametrize("stops", [False, True])
def test_methods_that_may_be_kept_learn_from_all_labels_if_there_is_time(
    monkeypatch, no_training, recwarn, stops
):
    refitted = SimpleMethods._refitted
    learned = []

    def noted(self, method, measured, setting, labelled):
        if stops:
            raise TimeIsUp
        learned.append(len(labelled))
        return refitted(self, method, measured, setting, labelled)

    monkeypatch.setattr(SimpleMethods, "_refitted", noted)
    model = SequenceClassifier(**SMALL).fit(TEXTS, CLASSES)
    assert len(model.simple_) <= AVERAGED < len(model.leaderboard_) - 1
    assert learned == ([] if stops else [len(TEXTS)] * AVERAGED)
    said = [str(each.message) for each in recwarn]
    assert any("have not learned from the examples of validation" in each for each in said) is stops
    assert model.score(TEXTS, CLASSES) == 1


def interrupted_in_training(monkeypatch, stored=False):
    def interrupted(*arguments, **settings):
        interrupt()
        return train(*arguments, **settings)

    monkeypatch.setattr(stage if stored else training, "train", interrupted)


@pytest.mark.parametrize("stored", [False, True])
def test_ctrl_c_in_training_keeps_the_best_so_far(monkeypatch, tmp_path, capfd, stored):
    """Pretraining would take days."""
    long = SMALL | {"pretrain_epochs": 1e6, "exhaustive": True, "runs": tmp_path if stored else None}
    interrupted_in_training(monkeypatch, stored)
    with pytest.warns(UserWarning, match="not trained on all folds: it was interrupted"):
        model = SequenceClassifier(**long).fit(TEXTS, CLASSES)
    assert model.interrupted_ and not model.trained_ and model.simple_
    assert model.score(TEXTS, CLASSES) > 0.9
    assert "stopping: the best so far is kept" in capfd.readouterr().err


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_a_script_but_the_command_takes_them_as_ctrl_c(monkeypatch, no_training, ending):
    validated = SimpleMethods.validated
    taken = []
    before = signal.signal(ending, lambda number, frame: taken.append(number))

    def ended(self, *arguments):
        found = validated(self, *arguments)
        os.kill(os.getpid(), ending)
        return found

    monkeypatch.setattr(SimpleMethods, "validated", ended)
    try:
        assert not SequenceClassifier(**SMALL).fit(TEXTS, CLASSES).interrupted_
        assert set(taken) == {ending}
        taken.clear()
        with others_interrupt(), pytest.warns(UserWarning, match="not trained: it was interrupted"):
            assert SequenceClassifier(**SMALL).fit(TEXTS, CLASSES).interrupted_
        assert not taken
    finally:
        signal.signal(ending, before)


def test_ctrl_c_before_anything_is_fitted_or_twice_stops_at_once(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    interrupted_in_training(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        SequencePretrainer(width=8, depth=1, pretrain_epochs=1e6, device="cpu").fit(TEXTS)
    monkeypatch.setattr(Search, "best", lambda search: [interrupt(), interrupt(), pytest.fail("goes on")])
    with pytest.raises(KeyboardInterrupt):
        SequenceClassifier(**SMALL, exhaustive=True).fit(TEXTS, CLASSES)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_saves_the_best_so_far_at_ctrl_c(tmp_path, ending):
    rows = "\n".join(f"{text},{label}" for text, label in zip(TEXTS, CLASSES, strict=True))
    (tmp_path / "train.csv").write_text(f"text,side\n{rows}\n")
    more = ["--label", "side", "--exhaustive", "--pretrain-epochs", "1e6", "--set", "width=8", "-o", "model"]
    process = subprocess.Popen(
        [sys.executable, "-m", "selfpretrain", "fit", "train.csv", *more, "--minutes", "30"],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("fit: "):  # networks are planned
            process.send_signal(ending)
            break
    out, rest = process.communicate(timeout=300)
    lines = ["".join(said), *rest.splitlines()]
    assert process.returncode == 130, lines
    assert lines[-1].startswith("stopped, and the best so far is saved; to go on: selfpretrain fit train.csv")
    assert "kept: " in out
    assert len(SequenceClassifier.load(tmp_path / "model").predict(TEXTS)) == 60


def test_a_setting_that_ctrl_c_ends_in_its_first_fold_is_no_option():
    model = SequenceClassifier(**SMALL)
    task = model._as_task(TEXTS, CLASSES)
    whole, begun = (search._Trial({"objective": name}, model.recipe(task)) for name in ("causal", "masked"))
    y = np.arange(20) % 2
    whole.answers = {fold: (y, np.eye(2)[y]) for fold in (0, 1)}
    trainings, limit = model._trainings(), stopping.TimeLimit.of(10)
    of_two_folds = Search(model, task, trainings, limit, [task, task], begun=[whole, begun])
    assert len(of_two_folds._options([whole]).answers) == 1


def test_ctrl_c_with_labels_too_few_to_hold_any_out_is_told(monkeypatch, no_training):
    usual = SequenceClassifier._usual_methods
    monkeypatch.setattr(SequenceClassifier, "_usual_methods", lambda *given: [usual(*given), interrupt()][0])
    with pytest.warns(UserWarning, match="fit was interrupted: the best so far is kept"):
        model = SequenceClassifier(**SMALL).fit(TEXTS[:10], CLASSES[:10])
    assert model.interrupted_ and model.simple_
