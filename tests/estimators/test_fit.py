"""What ``fit`` does with people's own data: budgets, settings that are tried, simple methods."""

import copy
import json
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfpretrain import (
    MultilabelClassifier,
    PositionClassifier,
    SequenceClassifier,
    SequencePretrainer,
    SequenceRegressor,
)
from selfpretrain.data.spec import Reals
from selfpretrain.errors import SpecError, StoreError
from selfpretrain.estimators import leaderboard, search, simple, training
from selfpretrain.estimators.annotations import labelled_only
from selfpretrain.estimators.budgets import data_arms
from selfpretrain.estimators.in_memory import InMemoryTask, with_test_split
from selfpretrain.estimators.inputs import ETX, STX
from selfpretrain.estimators.predictor import Predictor
from selfpretrain.estimators.search import FOLDS, Search, fold_data
from selfpretrain.estimators.settings import has_val
from selfpretrain.estimators.simple import (
    AveragePredictor,
    Candidate,
    Options,
    SimpleMethods,
    SimplePredictor,
    average_answers,
    counts_help,
)
from selfpretrain.estimators.stopping import TimeLimit
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.studies.recipes.defaults import FINETUNE_STEPS, small_arms
from selfpretrain.system.files import json_bytes
from selfpretrain.tasks.procedural import Procedural
from selfpretrain.tasks.simple.cohesion import CohesionWindows
from selfpretrain.tasks.simple.models import LinearModel
from selfpretrain.tasks.simple.symbols import Ends, NGrams, Windows
from selfpretrain.training import cost
from selfpretrain.training.train import train

pytestmark = pytest.mark.usefixtures("rough_flops")
LETTERS = np.array(list("aeiounrst"))
QUICK = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 0.1, "exhaustive": True}


def words(number, seed=0):
    random = np.random.RandomState(seed)
    return ["".join(random.choice(LETTERS, random.randint(2, 9))) for _ in range(number)]


WORDS = words(240)
GENUS = ["f" if word[-1] in "aeiou" else "m" for word in WORDS]


@pytest.fixture(scope="module")
def begun():
    """The objectives of all stages that were trained for ``kept``."""
    return []


@pytest.fixture(scope="module")
def kept(begun):
    def counted(stage, *args, **kwargs):
        begun.append(type(stage.objective))
        return train(stage, *args, **kwargs)

    y = [label if i < 60 else None for i, label in enumerate(GENUS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "train", counted)
        return SequenceClassifier(**QUICK).fit(WORDS, y)


@pytest.fixture(scope="module")
def small():
    return SequenceClassifier(scale="smoke").fit(WORDS, GENUS)


def test_settings_by_hand_reach_the_network():
    model = SequenceClassifier(
        scale="smoke",
        objective="masked",
        pooling="max",
        position_encoding="sinusoidal",
        mask_rate=0.4,
        finetune_lr=0.01,
        pretrain_lr=0.02,
        signs=False,
    )
    task = model._as_task(WORDS, GENUS)
    recipe = model.recipe(task)
    pretrain, finetune = recipe.stages
    assert (recipe.model.pooling, recipe.model.encoding) == ("max", "sinusoidal")
    assert pretrain.objective == Masked(0.4)
    assert (pretrain.optim.lr, finetune.optim.lr) == (0.02, 0.01)
    assert task.form.length == 8  # without signs


def test_budgets_follow_the_data():
    model = SequenceClassifier()
    few = [label if i < 40 else None for i, label in enumerate(GENUS * 20)]
    task = model._as_task(WORDS * 20, few)
    train = task.load("train")
    assert int(train.labelled.sum()) == 34 and len(train) > 4_000
    finetune = data_arms(task, Attention(), Masked()).finetune
    assert finetune.budget.steps * finetune.batch / 34 <= 200  # counted over labelled examples
    assert small_arms(task, Attention(), Masked()).finetune.budget.steps == FINETUNE_STEPS

    # Sixty epochs, and 3,500 steps at most: batches of many short sequences are larger.
    task = model._as_task(words(4000), [None] * 3960 + GENUS[:40])
    pretrain = data_arms(task, Attention(), Masked()).pretrain
    assert 50 <= pretrain.budget.steps * pretrain.batch / len(task.load("train")) <= 61
    assert data_arms(model._as_task(WORDS, GENUS), Attention(), Masked()).pretrain.batch == 16

    # Many labels are learned until validation stops improving.
    x = [[i % 5, i % 3] for i in range(3000)]
    task = SequenceClassifier(signal="tokens")._as_task(x, np.arange(3000) % 2)
    finetune = data_arms(task, Attention(), Masked()).finetune
    assert finetune.early_stopping_patience and finetune.select == "best"


def test_the_best_is_kept_and_the_line_names_it(kept):
    assert [type(each) for each in kept.simple_] == [SimplePredictor]
    assert kept.kept_.startswith("kept: logistic regression on endings and beginnings, accuracy")
    assert "the network: SPT (" in kept.kept_
    names = [row["name"] for row in kept.leaderboard_]
    assert len(names) == 4 and names[0] == "logistic regression on endings and beginnings"
    assert [name.startswith("average of SPT (") for name in names].count(True) == 1
    assert not any(name.startswith("average of logistic") for name in names), "n-grams are too far behind"


def test_the_network_is_kept_if_that_is_asked_for():
    model = SequenceClassifier(scale="smoke", model="network").fit(WORDS, GENUS)
    (row,) = model.leaderboard_
    assert model.simple_ == () and row["name"].startswith("SPT (")


def test_settings_are_tried_by_halving_and_share_their_pretraining(kept, begun):
    first = [row for row in kept.trials_ if row["round"] == "first"]
    second = [row for row in kept.trials_ if row["round"] == "second"]
    assert {(row["objective"], row["rate"]) for row in first} == {
        (objective, rate) for objective in ("causal", "masked") for rate in (1.0, 1 / 3)
    }
    signs = [row["pooling"] for row in first]
    assert signs[:4] == ["last"] * 4 and set(signs[4:7]) == {"mean", "max", "attention"}
    assert len({row["objective"] for row in first[4:7]}) == 1
    assert [row["folds"] for row in second] == [FOLDS, FOLDS]
    assert begun.count(Causal) == begun.count(Masked) == 1 and begun.count(Classify) > 2 * FOLDS
    assert len(kept.predictor_.networks) in (FOLDS, 2 * FOLDS)  # of one setting, or of both
    winner = max(second, key=lambda row: row["score"])
    assert kept.recipes_[0].last.optim.lr == pytest.approx(winner["lr"])


@pytest.fixture(scope="module")
def two():
    """A network of two settings: pretrained causally and by masking."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Search, "_together", lambda search, finished: finished)
        return SequenceClassifier(**QUICK, model="network", pooling="last").fit(WORDS[:40], GENUS[:40])


def test_networks_of_two_settings_predict_together_and_are_saved(two, tmp_path):
    assert {type(recipe.stages[0].objective) for recipe in two.recipes_} == {Causal, Masked}
    assert [model.causal for model in two.predictor_.models].count(True) == FOLDS
    assert len(two.predictor_.networks) == len(two.recipes_) == 2 * FOLDS
    (row,) = two.leaderboard_
    assert row["name"] in ("SPT (causal and masked), attention", "SPT (masked and causal), attention")
    assert row["parameters"] == sum(p.numel() for n in two.predictor_.networks for p in n.parameters())
    new = words(50, 2)
    data = two._to_dataset(new)
    halves = [
        replace(two.predictor_, networks=two.predictor_.networks[part], models=two.predictor_.models[part])
        for part in (slice(0, FOLDS), slice(FOLDS, None))
    ]
    probabilities = two.predict_proba(new)
    assert np.allclose(probabilities, np.mean([each.probabilities(data) for each in halves], axis=0))
    again = SequenceClassifier.load(two.save(tmp_path / "model"))
    assert (again.predict_proba(new) == probabilities).all()
    assert "causal" in (tmp_path / "model" / "README.md").read_text()


def searched(model, seconds=60.0, folds=FOLDS):
    """A search on the task of a model, which has been its own fold."""
    limit = TimeLimit(time.monotonic(), seconds)
    return Search(model, model.task_, model._trainings(), limit, [model.task_] * folds)


@pytest.mark.parametrize(("seconds", "hours"), [(3600.0, 0.1), (300.0, 100 / 3600), (150.0, 1 / 3600)])
def test_finetuning_leaves_time_to_score_the_network(two, seconds, hours):
    stage = two.recipes_[0].last
    stage = replace(stage, budget=replace(stage.budget, hours=0.1))
    search = replace(searched(two, seconds), scoring=100.0)
    assert search._in_time(stage).budget.hours == pytest.approx(hours, rel=0.02)


@pytest.mark.parametrize(("sure", "averaged"), [((0.9, 0.9), True), ((0.9, 0.501), False)])
def test_two_settings_are_averaged_where_that_gives_better_probabilities(two, sure, averaged):
    """Each is sure of what it gets right, and unsure where it is wrong; one of them may know nothing."""
    y = np.arange(200) % 2
    trials = []
    for number, each in enumerate(sure):
        right = (np.arange(200) < 180) if number == 0 else (np.arange(200) >= 20)
        chance = np.where(right, each, 0.45)
        answers = np.where(np.arange(2) == y[:, None], chance[:, None], 1 - chance[:, None])
        trials.append(search._Trial({}, two.recipes_[0], answers={0: (y, answers)}, score=0.9 - number / 100))
    assert searched(two, folds=1)._together(trials) == (trials if averaged else trials[:1])


@pytest.mark.parametrize(("per_fold", "finished"), [(0.1, 2), (1000.0, 1)])
def test_a_second_setting_is_finished_if_its_folds_fit_though_pretraining_took_long(
    two, monkeypatch, per_fold, finished
):
    recipe = two.recipes_[0]
    trials = [search._Trial({"objective": name}, recipe) for name in ("causal", "masked")]

    def finetune(self, trial, folds, share, name):
        trial.done |= dict.fromkeys(folds, recipe)
        trial.seconds = 1000.0
        trial.fold_seconds = per_fold
        trial.score = 0.5

    monkeypatch.setattr(Search, "_planned", lambda self: trials)
    monkeypatch.setattr(Search, "_finetune", finetune)
    monkeypatch.setattr(Search, "_together", lambda self, finished: finished)
    outcomes = []
    options = Options([])
    nothing = search.Outcome([], ())
    monkeypatch.setattr(Search, "_options", lambda self, finished: options)
    monkeypatch.setattr(Search, "_outcome", lambda self, found, *rest: outcomes.append(found) or nothing)
    searched(two).best()
    assert len(outcomes[0]) == finished


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=6))
def test_the_second_round_has_the_best_setting_and_the_best_of_another_objective(small, given_trials):
    recipe = small.recipes_[0]
    trials = [search._Trial({"objective": name}, recipe, score=float(n)) for name, n in given_trials]
    found = search._finalists(trials)
    assert len(found) == min(2, len(trials))
    assert found[0].score == max(trial.score for trial in trials)
    others = [trial for trial in trials if trial.settings != found[0].settings]
    if others:
        assert found[1].score == max(trial.score for trial in others)
        assert found[1].settings != found[0].settings


@pytest.mark.parametrize(("per_fold", "tried"), [(0.1, True), (1000.0, False)])
def test_poolings_are_tried_with_the_best_trial_then_the_best_with_other_objectives(
    small, monkeypatch, per_fold, tried
):
    model = SequenceClassifier(**QUICK)
    model.task_ = model._as_task(WORDS, GENUS)
    causal, masked = (
        model.with_variant({"objective": name, "rate": 1.0}).recipe(model.task_)
        for name in ("causal", "masked")
    )
    trials = [
        search._Trial({"objective": "causal", "rate": 1.0}, causal, score=0.5, fold_seconds=per_fold),
        search._Trial({"objective": "masked", "rate": 1.0}, masked, score=0.6, fold_seconds=per_fold),
        search._Trial({"objective": "masked", "rate": 1 / 3}, masked, score=0.4, fold_seconds=per_fold),
    ]
    scores = {"max": 0.7, "mean": 0.8, "attention": 0.3}

    def finetune(self, trial, folds, share, name):
        trial.score = scores[trial.recipe.model.pooling]

    monkeypatch.setattr(Search, "_finetune", finetune)
    added = searched(model)._with_poolings(trials, model.poolings(model.task_))
    seen = [
        (trial.settings["objective"], trial.settings["rate"], trial.recipe.model.pooling) for trial in added
    ]
    of_best = [("masked", 1.0, pooling) for pooling in ("max", "mean", "attention")]
    assert seen == ([*of_best, ("causal", 1.0, "mean")] if tried else [])


MARKS = [["v" if letter in "aeiou" else "c" for letter in word] for word in WORDS]


@pytest.mark.parametrize(
    ("kind", "settings", "y", "expected"),
    [
        (SequenceClassifier, {}, GENUS, ["max", "mean", "attention"]),
        (SequenceClassifier, {"signs": False}, GENUS, ["max", "attention", "last"]),
        (SequenceClassifier, {"n_trials": 6}, GENUS, ["max", "mean"]),
        (SequenceClassifier, {"n_trials": 3}, GENUS, []),
        (SequenceClassifier, {"n_trials": np.int64(3)}, GENUS, []),
        (SequenceClassifier, {"pooling": "last"}, GENUS, []),
        (SequenceClassifier, {"mixer": "wavegan", "objective": None}, GENUS, []),
        (PositionClassifier, {}, MARKS, []),
    ],
)
def test_poolings_are_tried_where_nothing_else_is_set(kind, settings, y, expected):
    model = kind().set_params(**settings)
    assert model.poolings(model._as_task(WORDS, y)) == expected


def test_folds_hold_every_label_out_once_and_no_test_example():
    model = SequenceClassifier()
    data = model._as_task(WORDS, [*GENUS[:100], *[None] * 140]).data()
    data.split[:10] = 2
    found = fold_data(data, 0)
    assert len(found) == FOLDS
    held = np.concatenate([np.flatnonzero(each.split == 1) for each in found])
    assert sorted(held) == list(range(10, 100))
    assert all(not (each.split[:10] >= 0).any() for each in found)


def test_saved_and_loaded_a_simple_method_answers_the_same_to_the_bit(kept, tmp_path):
    again = SequenceClassifier.load(kept.save(tmp_path / "model"))
    new = words(50, 2)
    assert (again.predict_proba(new) == kept.predict_proba(new)).all()
    assert (again.transform(new) == kept.transform(new)).all()
    assert (again.kept_, again.leaderboard_, again.trials_) == (kept.kept_, kept.leaderboard_, kept.trials_)
    assert "endings and beginnings" in (tmp_path / "model" / "README.md").read_text()
    with pytest.raises(SpecError, match="cannot be exported; fit with model='network'"):
        kept.export(tmp_path / "model.onnx")


@pytest.mark.parametrize("with_network", [True, False])
def test_an_average_predicts_and_is_saved(kept, tmp_path, with_network):
    (first,) = kept.simple_
    second = replace(first, model=LinearModel(first.model.coef[::-1].copy(), first.model.bias))
    average = copy.copy(kept)
    average.shares_ = (0.25, 0.75) if with_network else (0.0, 0.25, 0.75)
    average.simple_ = (first,) if with_network else (first, second)
    members = (kept.predictor_, first) if with_network else (first, second)
    data = kept._to_dataset(words(50, 2))
    expected = (members[0].probabilities(data) + 3 * members[1].probabilities(data)) / 4
    assert (average.predict_proba(data) == expected).all()
    again = SequenceClassifier.load(average.save(tmp_path / "model"))
    assert (again.predict_proba(data) == expected).all()
    with pytest.raises(SpecError, match="an average with logistic regression on endings"):
        average.export(tmp_path / "model.onnx")


def candidates(small, y, network, simple, average=None, target=None):
    """Candidates by their outputs: a network, a simple method and perhaps their average, the best first."""
    form = replace(small.predictor_.form, target=target or small.predictor_.form.target)
    outputs = form.target.outputs
    models = [
        replace(small.predictor_, form=form),
        SimplePredictor(form, Ends(), LinearModel(np.zeros((1, outputs)), np.zeros(outputs))),
    ]
    models.append(AveragePredictor(tuple(models), (0.5, 0.5)))
    answers = [(y, each) for each in (network, simple, average) if each is not None]
    pairs = zip(models, answers, strict=False)
    return leaderboard.ranked([Candidate("", model, each, 1.0, 1) for model, each in pairs])


def hits(right, sure=1.0):
    """Probabilities of 200 examples of two classes in turn, where some are right."""
    y = np.arange(200) % 2
    return sure * np.eye(2)[np.where(right, y, 1 - y)] + (1 - sure) / 2


places = np.arange(200)
Y = places % 2


def test_an_average_is_kept_where_two_err_on_different_examples(small):
    # Each is sure of what it gets right, and unsure where it is wrong: in the first or in the last fifth.
    wrong = 0.45 * hits(places >= 0) + 0.55 * hits(places < 0)
    pair = [np.where(first[:, None], wrong, hits(places >= 0)) for first in (places < 40, places >= 160)]
    both = average_answers([(Y, each) for each in pair])[1]
    assert isinstance(leaderboard.chosen(candidates(small, Y, *pair, both)).model, AveragePredictor)


@pytest.mark.parametrize(
    ("of_network", "of_both", "sure", "expected"),
    [
        (150, 158, 0.6, AveragePredictor),  # two answers fewer than the simple method, better probabilities
        (150, 130, 0.6, SimplePredictor),  # many answers fewer
        (60, 158, 0.9999, SimplePredictor),  # worse probabilities
        (190, 170, 0.6, Predictor),  # the network is far ahead
    ],
)
def test_an_average_with_better_probabilities_may_be_a_little_behind(
    small, of_network, of_both, sure, expected
):
    rights = ((of_network, 0.7), (160, 0.99), (of_both, sure))
    order = candidates(small, Y, *(hits(places < right, each) for right, each in rights))
    assert type(leaderboard.chosen(order).model) is expected


@pytest.mark.parametrize(
    ("right", "expected"), [(150, SimplePredictor), (155, SimplePredictor), (175, Predictor)]
)
def test_a_network_is_kept_only_if_it_is_clearly_better(small, right, expected):
    # They are wrong about different examples, the first ones and the last ones.
    order = candidates(small, Y, hits(places[::-1] < right), hits(places < 150))
    assert type(leaderboard.chosen(order).model) is expected


@pytest.mark.parametrize(
    ("rights", "expected"),
    [((150, 150), AveragePredictor), ((150, 148), AveragePredictor), ((150, 144), SimplePredictor)],
)
def test_of_simple_methods_the_average_is_kept_unless_it_is_clearly_worse_than_the_best(
    small, rights, expected
):
    simple = SimplePredictor(small.predictor_.form, Ends(), LinearModel(np.zeros((1, 2)), np.zeros(2)))
    # The other is surer, and so decides although it weighs a little less.
    sure = (0.8, 0.9999)
    answers = [(Y, hits(places < right, by)) for right, by in zip(rights, sure, strict=True)]
    answers[0][1][150:] = np.where(Y[150:, None] == [0, 1], 0.499, 0.501)
    answers[1][1][rights[1] :] = np.where(Y[rights[1] :, None] == [0, 1], 0.49, 0.51)
    each = [Candidate(name, simple, found, 1.0, 1) for name, found in zip("ab", answers, strict=True)]
    each[1].answers[1][rights[1] : 150] = np.where(Y[rights[1] : 150, None] == [0, 1], 0, 1)
    assert type(leaderboard.judge(None, each, None, 1).kept.model) is expected


@pytest.mark.parametrize(("target", "ratio"), [(None, (180 / 120) ** 4), (Reals(), (0.4 / 0.1) ** 2)])
def test_the_better_member_of_an_average_weighs_more(small, target, ratio):
    outputs = hits(places < 180), hits(places < 120)
    if target is not None:
        outputs = Y + 0.1, Y + 0.4
    order = candidates(small, Y, *outputs, target=target)
    average = leaderboard.average_of(order)
    first, second = average.model.shares
    assert first / second == pytest.approx(ratio) and first + second == pytest.approx(1)
    _, mixed = average.answers
    assert mixed == pytest.approx(first * order[0].answers[1] + second * order[1].answers[1])


def test_of_methods_that_are_always_right_the_first_are_kept_and_not_the_surest(small):
    simple = SimplePredictor(small.predictor_.form, Ends(), LinearModel(np.zeros((1, 2)), np.zeros(2)))
    sure = {"a": 0.6, "b": 0.7, "c": 0.8, "d": 0.999}
    each = [Candidate(name, simple, (Y, hits(places >= 0, by)), 1.0, 1) for name, by in sure.items()]
    verdict = leaderboard.judge(None, each, None, 1)
    assert verdict.kept.name == "average of a, b and c"
    assert [row["name"] for row in verdict.table] == ["a", "b", "c", "d", "average of a, b and c"]


def test_a_better_regression_is_kept_where_most_values_are_equal(small):
    y = np.zeros(60)
    y[:3] = (1.0, 2.0, 3.0)  # resamples without them have no variance of their own
    order = candidates(small, y, y + 0.01, y + 0.7, target=Reals())
    assert isinstance(leaderboard.chosen(order).model, Predictor)
    row, _ = leaderboard.rows(order)
    assert np.isfinite([row["low"], row["high"]]).all()


def test_groups_are_resampled_as_a_whole(small):
    groups = places // 20
    # The network is better in one group of ten, by all of its examples.
    order = candidates(small, Y, hits(groups < 5), hits(groups < 4))
    assert isinstance(leaderboard.chosen(order).model, Predictor)
    assert isinstance(leaderboard.chosen(order, groups).model, SimplePredictor)
    narrow, wide = (leaderboard.rows(order, given)[0] for given in (None, groups))
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])


def test_a_damaged_simple_method_is_one_clear_error(kept, tmp_path):
    folder = kept.save(tmp_path / "model")
    content = json.loads((folder / "model.json").read_text())
    simple = content["simple"]
    (member,) = simple["members"]
    for change, said in (
        ({"alphabet": {"known": 7}}, "unknown"),
        ({"simple": simple | {"members": [member | {"features": "magic"}]}}, "magic"),
        ({"simple": simple | {"shares": [0.5, 0.6]}}, "shares"),
        ({"simple": simple | {"shares": [1.5, -0.5]}}, "shares"),
        ({"simple": simple | {"shares": [1.0]}}, "shares"),
    ):
        (folder / "model.json").write_bytes(json_bytes(content | change))  # with a digest of its own
        with pytest.raises(StoreError, match=rf"model\.json.*{said}"):
            SequenceClassifier.load(folder)
    (folder / "model.json").write_bytes(json_bytes(content))
    (weights,) = folder.glob("simple*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-8] + b"tampered")
    with pytest.raises(StoreError, match=r"simple\S*\.safetensors is damaged"):
        SequenceClassifier.load(folder)


NUMBERS = [list(np.random.RandomState(i).randn(12) + i % 2) for i in range(40)]


@pytest.mark.parametrize(
    ("kind", "x", "y"),
    [
        (SequenceClassifier, NUMBERS, [i % 2 for i in range(40)]),
        (SequenceRegressor, NUMBERS, [float(np.mean(row)) for row in NUMBERS]),
        (MultilabelClassifier, NUMBERS, [["odd"] * (i % 2) for i in range(40)]),
        (PositionClassifier, NUMBERS, [["high" if v > 0 else "low" for v in row] for row in NUMBERS]),
        (PositionClassifier, WORDS[:60], MARKS[:60]),
        (SequenceRegressor, WORDS[:60], [float(word.count("a")) for word in WORDS[:60]]),
    ],
    ids=["classes", "numbers", "sets", "positions", "positions of text", "numbers of text"],
)
def test_simple_methods_answer_every_kind_of_question(kind, x, y, tmp_path):
    model = kind(**QUICK, n_trials=1).fit(x, y)
    assert model.simple_
    assert model.score(x, y) > 0.8
    again = kind.load(model.save(tmp_path / "model"))
    for before, after in zip(model.predict(x), again.predict(x), strict=True):
        assert np.array_equal(before, after)


def test_words_begin_and_end_with_signs_and_vectors_do_not(kept):
    assert kept.task_.load("train").sequence(0)[[0, -1]].tolist() == [STX, ETX]
    (vectors,) = kept.positions(["abc"])
    assert vectors.shape == (3, 8)
    with pytest.warns(UserWarning, match="cut to the 8 positions"):
        assert len(kept.predict(["a" * 20])) == 1


def test_symbols_that_training_lacks_are_unknown_and_all_alike():
    rows = [[0, 3, 2], [1, 1]] * 30
    model = SequenceClassifier(scale="smoke", signal="tokens").fit(rows, [0, 1] * 30)
    assert (model.predict_proba([[0, 77]]) == model.predict_proba([[0, 4]])).all()
    weight = model.predictor_.networks[0].embed.symbol.weight
    assert len(weight) == 3 + 4  # the unknown symbol, two signs, four symbols of training
    torch.testing.assert_close(weight[0], weight[1:].mean(0))
    positions = PositionClassifier(scale="smoke", signal="tokens").fit(rows, rows)
    assert len(positions.predict([[0, 99, 2]])[0]) == 3
    with pytest.raises(SpecError, match="labels belong to positions"):
        PositionClassifier(**QUICK, signs=True).fit(WORDS, WORDS)


def test_letters_in_equally_long_sequences_have_learned_positions(small):
    random = np.random.RandomState(0)
    rows = ["".join(random.choice(list("acgt"), 20)) for _ in range(60)]
    model = SequenceClassifier(scale="smoke")
    assert model.recipe(model._as_task(rows, [row[7] for row in rows])).model.encoding == "learned"
    assert small.recipes_[0].model.encoding == "rotary"


def test_features_of_symbols_are_what_their_names_say():
    flat = np.array([1, 2, 3, 1, 2])
    lengths = np.array([3, 2])

    def rows_of(features):
        codes, owner = features.encode(flat, lengths)
        return [set(codes[owner == row].tolist()) for row in range(features.rows(lengths))]

    first, second = rows_of(NGrams())
    assert len(first) == 6 and len(second) == 3 and second < first  # 12 is in both, 31 in none
    first, second = rows_of(Ends())
    assert len(first) == 6 and len(second) == 4
    assert len(first & second) == 2  # the beginnings 1 and 12
    inner = rows_of(Windows())
    assert [len(row) for row in inner] == [5, 5, 5, 3, 3]


def test_some_of_many_unlabelled_sequences_show_when_pretraining_may_end():
    val = SequenceClassifier()._as_task(WORDS * 10, [*GENUS[:40], *[None] * 2360]).load("val")
    assert int(val.labelled.sum()) == 6 and len(val) == 6 + 59


def test_the_stages_of_a_fit_stay_within_its_time_limit():
    model = SequenceClassifier(**QUICK | {"epochs": None}, minutes=0.04, model="network").fit(WORDS, GENUS)
    pretrain, finetune = model.recipes_[0].stages
    assert pretrain.budget.hours + FOLDS * finetune.budget.hours < 2 * 0.04 / 60


def test_a_tight_time_limit_halves_finetuning_before_it_shortens_pretraining(monkeypatch):
    """Two minutes, of which a fifth is kept for what was not foreseen, and fourteen finetunings."""
    monkeypatch.setattr(search, "stage_seconds", lambda recipe, device: [20.0, 6.0][-len(recipe.stages) :])
    model = SequenceClassifier(width=8, depth=1, minutes=2)
    model.task_ = model._as_task(WORDS, [label if i < 60 else None for i, label in enumerate(GENUS)])
    planned = model.with_variant({"objective": "masked", "rate": 1.0}).recipe(model.task_)
    recipe = searched(model, 120.0)._planned()[0].recipe
    pretrain, finetune = (cost.plan(prefix).steps for prefix in recipe.prefixes())
    first, second = (cost.plan(prefix).steps for prefix in planned.prefixes())
    assert pretrain == first
    assert finetune == pytest.approx((96 - 40) / (14 * 6) * second, rel=0.02)
    # A tighter one shortens both alike.
    assert search._divided(100.0, 30.0, 60.0) == (30.0, 1.0)
    assert search._divided(100.0, 150.0, 100.0) == (75.0, 0.25)


def test_the_finetunings_of_both_rounds_are_counted():
    assert search.trainings(4, 5) == 4 * 2 + 2 * 3
    assert search.trainings(1, 5) == 5
    assert search.trainings(4, 1) == pytest.approx(4 / 3 + 2)


def test_pretraining_alone_has_no_leaderboard():
    model = SequencePretrainer(scale="smoke").fit(WORDS)
    assert model.leaderboard_ == [] and model.kept_ == ""
    assert model.transform(WORDS[:3]).shape == (3, 16)


def test_one_seed_is_drawn_for_all_trials_of_a_fit():
    model = SequenceClassifier(scale="smoke", random_state=None).fit(WORDS, GENUS)
    variants = [model.with_variant(variant) for variant in model.variants(model.task_)]
    assert {each.recipe(model.task_).seed for each in variants} == {model.seed_} and len(variants) > 1
    assert {recipe.seed for recipe in model.recipes_} == {model.seed_}
    first = model.seed_
    assert model.fit(WORDS, GENUS).seed_ != first


def test_only_what_was_not_trained_on_calibrates():
    few = SequenceClassifier(scale="smoke", calibrate=True).fit(WORDS[:18], GENUS[:18])
    assert few.predictor_.temperature == 1.0
    with pytest.warns(UserWarning, match="calibrate scales the network alone"):
        many = SequenceClassifier(**QUICK, n_trials=1, calibrate=True).fit(WORDS, GENUS)
    assert many.simple_ and many.predictor_.temperature != 1.0


def test_a_simple_method_that_takes_too_long_is_given_up(kept):
    data = kept._to_dataset(WORDS)
    labelled = replace(data, targets=torch.from_numpy(np.unique(GENUS, return_inverse=True)[1]))
    folds = [(labelled.take(torch.arange(100)), labelled.take(torch.arange(100, 240)))]
    quality = partial(leaderboard.quality, "classes")
    methods = SimpleMethods(kept.predictor_.form, folds, labelled, leaderboard.answers, quality)
    now = time.monotonic()
    assert list(methods.candidates(labelled, now + 60, now + 60))
    assert list(methods.candidates(labelled, now + 60, now)) == []
    assert list(replace(methods, stop=lambda: True).candidates(labelled, now + 60, now + 60)) == []


def test_copies_of_a_sequence_are_in_one_split_and_in_one_fold():
    rows, y = WORDS[:60] * 5, GENUS[:60] * 5
    task = SequenceClassifier()._as_task(rows, y)
    data = task.data()
    digests = np.array(data.whole.digests())
    three = with_test_split(task, 0).data()
    for divided in (data, three, *fold_data(data, 0)):
        parts = [set(digests[divided.split == part]) for part in (0, 1, 2)]
        assert parts[0] and parts[1]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    data.meta["about"]["val_given"] = True  # by the file, e.g. of a later year
    assert fold_data(data, 0) == []


def test_a_task_with_as_many_sequences_in_val_as_in_train_has_a_val_split():
    assert has_val(Procedural(train=30, val=30))


def sentences(number):
    """Sentences of words of a lexicon without spaces, and for every letter whether it begins a word."""
    random = np.random.RandomState(0)
    lexicon = [random.randint(0, 40, random.randint(2, 5)).tolist() for _ in range(60)]
    X, y = [], []
    for _ in range(number):
        words = [lexicon[i] for i in random.randint(0, len(lexicon), 6)]
        X.append([letter for word in words for letter in word])
        y.append(["inside" if place else "begins" for word in words for place in range(len(word))])
    return X, y


def test_counts_help_where_they_show_what_few_labels_do_not(monkeypatch):
    """Where words end is known from sentences without labels, and no count says how high a letter is."""
    every = simple.candidates_for
    linear = Windows, CohesionWindows  # trees take longer than all else
    monkeypatch.setattr(
        simple, "candidates_for", lambda *given: [each for each in every(*given) if each.features in linear]
    )
    X, marks = sentences(300)
    y = [labels if i < 30 else None for i, labels in enumerate(marks)]
    heights = [["low" if letter < 20 else "high" for letter in x] for x in X]
    model = PositionClassifier(**QUICK, n_trials=1, signal="tokens")
    for labels, help_here in ((y, True), ([h if i < 100 else None for i, h in enumerate(heights)], False)):
        task = model._as_task(X, labels)
        methods = model._simple_methods(task, [task])
        assert counts_help(methods, labelled_only(task.load("train"))) is help_here
    tried = PositionClassifier(signal="tokens")
    assert [each["objective"] for each in tried.variants(task, counted=True)[::2]] == [
        "ngram-statistics",
        "masked",
    ]
    assert {each["objective"] for each in tried.variants(task)} == {"masked"}
    tried.objective = "masked"
    assert {each["objective"] for each in tried.variants(task, counted=True)} == {"masked"}
    model.fit(X, y)
    scores = {row["name"]: row["score"] for row in model.leaderboard_}
    assert max(scores, key=scores.get).endswith("and statistics of all sequences")
    assert model.score(X[200:], marks[200:]) > 0.75


def test_a_task_in_memory_is_saved_as_its_digest_and_compared_by_its_data():
    model = SequenceClassifier()
    task, same, other = (model._as_task(each, GENUS) for each in (WORDS, WORDS, words(240, 1)))
    assert task == same and hash(task) == hash(same) and task != other
    folds = [InMemoryTask(data) for data in fold_data(task.data(), 0)]
    assert folds[0] != folds[1] and all("digest" not in vars(fold) for fold in folds)  # without hashing
    alone = InMemoryTask(digest=task.digest)
    assert alone == task
    with pytest.raises(Exception, match="memory of a program that has ended; fit again"):
        alone.load("train")
