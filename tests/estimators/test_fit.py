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
from selfpretrain.estimators import leaderboard, search
from selfpretrain.estimators.in_memory import with_test_split
from selfpretrain.estimators.inputs import ETX, STX
from selfpretrain.estimators.predictor import Predictor
from selfpretrain.estimators.search import FOLDS, Search, fold_data
from selfpretrain.estimators.settings import has_val
from selfpretrain.estimators.simple import AveragePredictor, SimpleMethods, SimplePredictor, average_answers
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.masked import Masked
from selfpretrain.studies.recipes.budgets import data_arms
from selfpretrain.studies.recipes.defaults import FINETUNE_STEPS, small_arms
from selfpretrain.tasks.procedural import Procedural
from selfpretrain.tasks.simple.models import LinearModel
from selfpretrain.tasks.simple.symbols import Ends, NGrams, Windows
from selfpretrain.training import cost

LETTERS = np.array(list("aeiounrst"))
QUICK = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 0.1}


def words(number, seed=0):
    random = np.random.RandomState(seed)
    return ["".join(random.choice(LETTERS, random.randint(2, 9))) for _ in range(number)]


WORDS = words(240)
GENUS = ["f" if word[-1] in "aeiou" else "m" for word in WORDS]


@pytest.fixture(scope="module")
def kept():
    y = [label if i < 60 else None for i, label in enumerate(GENUS)]
    return SequenceClassifier(**QUICK).fit(WORDS, y)


@pytest.fixture(scope="module")
def small():
    return SequenceClassifier(scale="smoke").fit(WORDS, GENUS)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("scale", "big", "'auto', 'smoke'"),
        ("model", "simple", "'best', 'network'"),
        ("pooling", "first", "'auto', 'mean', 'max', 'last'"),
        ("signs", "yes", "True, False, 'auto'"),
        ("finetune_lr", "low", "a number from 1e-09 to 1000 or 'auto'"),
        ("mask_rate", 1.5, "a number from 1e-06 to 1 or None"),
        ("n_members", 0, "a whole number from 1 to 1000"),
        ("objective", "maskd", "did you mean 'masked'"),
    ],
)
def test_a_wrong_value_is_an_error_that_lists_what_is_allowed(name, value, said):
    model = SequenceClassifier()
    setattr(model, name, value)
    with pytest.raises(SpecError) as error:
        model.fit(WORDS, GENUS)
    assert said in str(error.value) and "\n" not in str(error.value)


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
    ).fit(WORDS, GENUS)
    (recipe,) = model.recipes_
    pretrain, finetune = recipe.stages
    assert (recipe.model.pooling, recipe.model.encoding) == ("max", "sinusoidal")
    assert pretrain.objective == Masked(0.4)
    assert (pretrain.optim.lr, finetune.optim.lr) == (0.02, 0.01)
    assert model.task_.form.length == 8  # without signs


def test_finetuning_is_counted_over_labelled_examples():
    few = [label if i < 40 else None for i, label in enumerate(GENUS * 20)]
    model = SequenceClassifier()
    task = model._as_task(WORDS * 20, few)
    train = task.load("train")
    assert int(train.labelled.sum()) == 34 and len(train) > 4_000
    finetune = data_arms(task, Attention(), Masked()).finetune
    assert finetune.budget.steps * finetune.batch / 34 <= 200
    assert small_arms(task, Attention(), Masked()).finetune.budget.steps == FINETUNE_STEPS


def test_many_short_sequences_are_seen_as_often_in_pretraining_as_its_budget_says():
    """Sixty epochs, and 3,500 steps at most: batches are larger, though an epoch has few of them."""
    model = SequenceClassifier()
    task = model._as_task(words(4000), [None] * 3960 + GENUS[:40])
    pretrain = data_arms(task, Attention(), Masked()).pretrain
    assert 50 <= pretrain.budget.steps * pretrain.batch / len(task.load("train")) <= 61
    few = model._as_task(WORDS, GENUS)
    assert data_arms(few, Attention(), Masked()).pretrain.batch == 16


def test_many_labels_are_learned_until_validation_stops_improving():
    x = [[i % 5, i % 3] for i in range(3000)]
    model = SequenceClassifier(signal="tokens")
    task = model._as_task(x, np.arange(3000) % 2)
    finetune = data_arms(task, Attention(), Masked()).finetune
    assert finetune.early_stopping_patience and finetune.select == "best"


def test_the_best_is_kept_and_the_line_names_it(kept):
    assert [type(each) for each in kept.simple_] == [SimplePredictor]
    assert kept.kept_.startswith("kept: logistic regression on endings and beginnings, accuracy")
    assert "the network: SPT (" in kept.kept_
    names = [row["name"] for row in kept.leaderboard_]
    assert len(names) == 6 and names[0] == "logistic regression on endings and beginnings"
    assert [name.startswith("average of SPT (") for name in names].count(True) == 2
    assert (
        "average of logistic regression on endings and beginnings and logistic regression on 1-4-grams"
        in names
    )
    scores = [row["score"] for row in kept.leaderboard_]
    assert scores == sorted(scores, reverse=True)
    assert all(row["low"] <= row["score"] <= row["high"] and row["parameters"] for row in kept.leaderboard_)
    assert kept.score(words(100, 1), ["f" if w[-1] in "aeiou" else "m" for w in words(100, 1)]) > 0.95


def test_the_network_is_kept_if_that_is_asked_for():
    model = SequenceClassifier(**QUICK, model="network", n_trials=1).fit(WORDS, GENUS)
    assert model.simple_ == ()
    (row,) = model.leaderboard_
    assert row["name"].startswith("SPT (causal)")


def test_settings_are_tried_by_halving_and_share_their_pretraining(tmp_path):
    model = SequenceClassifier(**QUICK, runs=str(tmp_path)).fit(WORDS[:60], GENUS[:60])
    first = [row for row in model.trials_ if row["round"] == "first"]
    second = [row for row in model.trials_ if row["round"] == "second"]
    assert {(row["objective"], row["rate"]) for row in first} == {
        (objective, rate) for objective in ("causal", "masked") for rate in (1.0, 1 / 3)
    }
    signs = [row["pooling"] for row in first]
    assert signs[:4] == ["last"] * 4 and set(signs[4:7]) == {"mean", "max", "attention"}
    assert len({row["objective"] for row in first[4:7]}) == 1
    assert [row["folds"] for row in second] == [FOLDS, FOLDS]
    stages = [path.name.split("-")[1:3] for path in (tmp_path / "stages").iterdir()]
    assert [name[-1] for name in stages].count("causal") == 1
    assert [name[-1] for name in stages].count("masked") == 1
    assert len(model.predictor_.networks) == FOLDS
    winner = max(second, key=lambda row: row["score"])
    assert model.recipes_[0].last.optim.lr == pytest.approx(winner["lr"])


@pytest.fixture(scope="module")
def two():
    """A network of two settings: pretrained causally and by masking."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Search, "_together", lambda search, finished: finished)
        return SequenceClassifier(**QUICK, model="network").fit(WORDS[:60], GENUS[:60])


def test_the_two_settings_that_are_averaged_have_two_objectives(two):
    assert {type(recipe.stages[0].objective) for recipe in two.recipes_} == {Causal, Masked}
    assert [model.causal for model in two.predictor_.models].count(True) == FOLDS
    assert len(two.predictor_.networks) == len(two.recipes_) == 2 * FOLDS
    (row,) = two.leaderboard_
    assert row["name"] in ("SPT (causal and masked), attention", "SPT (masked and causal), attention")
    assert row["parameters"] == sum(p.numel() for n in two.predictor_.networks for p in n.parameters())


def test_networks_of_two_settings_predict_and_are_saved(two, tmp_path):
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
    found = Search(two, two.task_, two._trainings(), 60.0, 60.0, [two.task_])._together(trials)
    assert found == (trials if averaged else trials[:1])


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
    options = leaderboard.Options([])
    nothing = search.Outcome([], ())
    monkeypatch.setattr(Search, "_options", lambda self, finished: options)
    monkeypatch.setattr(Search, "_outcome", lambda self, found, *rest: outcomes.append(found) or nothing)
    end = time.monotonic() + 60
    Search(two, two.task_, two._trainings(), 60.0, end, [two.task_] * FOLDS).best()
    assert len(outcomes[0]) == finished


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=6))
def test_the_second_round_has_the_best_setting_and_the_best_of_another_objective(two, given_trials):
    recipe = two.recipes_[0]
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
    two, monkeypatch, per_fold, tried
):
    causal, masked = (next(r for r in two.recipes_ if r.model.causal is each) for each in (True, False))
    trials = [
        search._Trial({"objective": "causal", "rate": 1.0}, causal, score=0.5, fold_seconds=per_fold),
        search._Trial({"objective": "masked", "rate": 1.0}, masked, score=0.6, fold_seconds=per_fold),
        search._Trial({"objective": "masked", "rate": 1 / 3}, masked, score=0.4, fold_seconds=per_fold),
    ]
    scores = {"max": 0.7, "mean": 0.8, "attention": 0.3}

    def finetune(self, trial, folds, share, name):
        trial.score = scores[trial.recipe.model.pooling]

    monkeypatch.setattr(Search, "_finetune", finetune)
    end = time.monotonic() + 60
    found = Search(two, two.task_, two._trainings(), 60.0, end, [two.task_] * FOLDS)
    added = found._with_poolings(trials, two.poolings(two.task_))
    seen = [
        (trial.settings["objective"], trial.settings["rate"], trial.recipe.model.pooling) for trial in added
    ]
    of_best = [("masked", 1.0, pooling) for pooling in ("max", "mean", "attention")]
    assert seen == ([*of_best, ("causal", 1.0, "mean")] if tried else [])


@pytest.mark.parametrize(
    ("settings", "y", "expected"),
    [
        ({}, GENUS, ["max", "mean", "attention"]),
        ({"signs": False}, GENUS, ["max", "attention", "last"]),
        ({"n_trials": 6}, GENUS, ["max", "mean"]),
        ({"n_trials": 3}, GENUS, []),
        ({"pooling": "last"}, GENUS, []),
        ({"mixer": "wavegan", "objective": None}, GENUS, []),
    ],
)
def test_poolings_are_tried_where_nothing_else_is_set(settings, y, expected):
    model = SequenceClassifier(**settings)
    assert model.poolings(model._as_task(WORDS, y)) == expected


def test_labels_of_positions_leave_no_choice_of_pooling():
    model = PositionClassifier(signal="tokens")
    assert model.poolings(model._as_task([[1, 2, 3]] * 40, [[0, 1, 0]] * 40)) == []


def test_folds_hold_every_label_out_once_and_no_test_example():
    model = SequenceClassifier()
    task = model._as_task(WORDS, [*GENUS[:100], *[None] * 140])
    data = task.data()
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


def test_an_average_with_the_network_predicts_and_is_saved(kept, tmp_path):
    average = copy.copy(kept)
    average.averaged_ = True
    new = words(50, 2)
    of_network = copy.copy(kept)
    of_network.simple_ = ()
    expected = (of_network.predict_proba(new) + kept.predict_proba(new)) / 2
    assert (average.predict_proba(new) == expected).all()
    again = SequenceClassifier.load(average.save(tmp_path / "model"))
    assert (again.predict_proba(new) == expected).all()
    with pytest.raises(SpecError, match="an average with logistic regression on endings"):
        average.export(tmp_path / "model.onnx")


def test_an_average_of_simple_methods_predicts_is_saved_and_needs_no_network(kept, tmp_path):
    (first,) = kept.simple_
    second = replace(first, model=LinearModel(first.model.coef[::-1].copy(), first.model.bias))
    average = copy.copy(kept)
    average.simple_ = (first, second)
    data = kept._to_dataset(words(50, 2))
    expected = (first.probabilities(data) + second.probabilities(data)) / 2
    assert (average.predict_proba(data) == expected).all()
    again = SequenceClassifier.load(average.save(tmp_path / "model"))
    assert (again.predict_proba(data) == expected).all()


def test_an_average_is_kept_where_two_err_on_different_examples(small):
    y = np.arange(200) % 2
    right = np.eye(2)[y]
    network = small.predictor_
    simple = SimplePredictor(network.form, Ends(), LinearModel(np.zeros((1, 2)), np.zeros(2)))
    # Each is sure of what it gets right, and unsure where it is wrong: in the first or in the last fifth.
    wrong = 0.45 * right + 0.55 * (1 - right)
    first = np.arange(200)[:, None] < 40
    answers = (y, np.where(first, wrong, right)), (y, np.where(first[::-1], wrong, right))
    candidates = [
        leaderboard.Candidate("", model, each, 1.0, 1)
        for model, each in zip((network, simple), answers, strict=True)
    ]
    average = AveragePredictor((network, simple))
    candidates.append(leaderboard.Candidate("", average, average_answers(answers), 2.0, 2))
    assert leaderboard.chosen(leaderboard.ranked(candidates)).model is average


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
    y = np.arange(200) % 2

    def candidate(model, right, sure):
        chosen = np.where(np.arange(200) < right, y, 1 - y)
        return leaderboard.Candidate("", model, (y, sure * np.eye(2)[chosen] + (1 - sure) / 2), 1.0, 1)

    network = small.predictor_
    simple = SimplePredictor(network.form, Ends(), LinearModel(np.zeros((1, 2)), np.zeros(2)))
    average = AveragePredictor((network, simple))
    others = [candidate(network, of_network, 0.7), candidate(simple, 160, 0.99)]
    order = leaderboard.ranked([*others, candidate(average, of_both, sure)])
    assert type(leaderboard.chosen(order).model) is expected


def test_a_damaged_simple_method_is_one_clear_error(kept, tmp_path):
    folder = kept.save(tmp_path / "model")
    content = json.loads((folder / "model.json").read_text())
    for change in ({"alphabet": {"known": 7}}, {"simple": content["simple"] | {"features": "magic"}}):
        (folder / "model.json").write_text(json.dumps(content | change))
        with pytest.raises(StoreError, match=r"model\.json"):
            SequenceClassifier.load(folder)
    (folder / "model.json").write_text(json.dumps(content))
    (weights,) = folder.glob("simple*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-8] + b"tampered")
    with pytest.raises(StoreError, match=r"simple\S*\.safetensors is damaged"):
        SequenceClassifier.load(folder)


def test_a_simple_method_is_not_exported(kept, tmp_path):
    with pytest.raises(SpecError, match="cannot be exported; fit with model='network'"):
        kept.export(tmp_path / "model.onnx")


NUMBERS = [list(np.random.RandomState(i).randn(12) + i % 2) for i in range(60)]


@pytest.mark.parametrize(
    ("kind", "x", "y"),
    [
        (SequenceClassifier, NUMBERS, [i % 2 for i in range(60)]),
        (SequenceRegressor, NUMBERS, [float(np.mean(row)) for row in NUMBERS]),
        (MultilabelClassifier, NUMBERS, [["odd"] * (i % 2) for i in range(60)]),
        (PositionClassifier, NUMBERS, [["high" if v > 0 else "low" for v in row] for row in NUMBERS]),
        (
            PositionClassifier,
            WORDS[:60],
            [["v" if c in "aeiou" else "c" for c in word] for word in WORDS[:60]],
        ),
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
    model = SequenceClassifier(**QUICK, model="network", n_trials=1, signal="tokens").fit(rows, [0, 1] * 30)
    assert (model.predict_proba([[0, 77]]) == model.predict_proba([[0, 4]])).all()
    weight = model.predictor_.networks[0].embed.symbol.weight
    assert len(weight) == 3 + 4  # the unknown symbol, two signs, four symbols of training
    torch.testing.assert_close(weight[0], weight[1:].mean(0))
    positions = PositionClassifier(**QUICK, n_trials=1, signal="tokens").fit(rows, rows)
    assert len(positions.predict([[0, 99, 2]])[0]) == 3
    with pytest.raises(SpecError, match="labels belong to positions"):
        PositionClassifier(**QUICK, signs=True).fit(WORDS, WORDS)


def test_letters_in_equally_long_sequences_have_learned_positions(small):
    random = np.random.RandomState(0)
    rows = ["".join(random.choice(list("acgt"), 20)) for _ in range(60)]
    model = SequenceClassifier(scale="smoke").fit(rows, [row[7] for row in rows])
    assert model.recipes_[0].model.encoding == "learned"
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


def test_where_words_end_is_known_from_unlabelled_sequences():
    random = np.random.RandomState(0)
    lexicon = [list(random.randint(0, 40, random.randint(1, 4))) for _ in range(60)]
    rows, marks = [], []
    for _ in range(400):
        chosen = [lexicon[i] for i in random.randint(0, 60, 8)]
        rows.append([symbol for word in chosen for symbol in word])
        marks.append(["inside" if place else "begin" for word in chosen for place in range(len(word))])
    y = [mark if i < 25 else None for i, mark in enumerate(marks)]
    model = PositionClassifier(**QUICK, n_trials=1, signal="tokens").fit(rows, y)
    scores = {row["name"]: row["score"] for row in model.leaderboard_}
    assert max(scores, key=scores.get).endswith("and statistics of all sequences")
    assert model.score(rows[200:], marks[200:]) > 0.75


def test_some_of_many_unlabelled_sequences_show_when_pretraining_may_end():
    model = SequenceClassifier()
    val = model._as_task(WORDS * 10, [*GENUS[:40], *[None] * 2360]).load("val")
    assert int(val.labelled.sum()) == 6 and len(val) == 6 + 59


def test_a_network_is_kept_only_if_it_is_clearly_better(small):
    y = np.arange(200) % 2

    def candidate(model, right, places):
        hits = np.where(places < right, y, 1 - y)
        return leaderboard.Candidate("", model, (y, np.eye(2)[hits]), 1.0, 1)

    network = small.predictor_
    simple = SimplePredictor(network.form, Ends(), LinearModel(np.zeros((1, 2)), np.zeros(2)))
    for right, expected in ((150, simple), (155, simple), (175, network)):
        # They are wrong about different examples, the first ones and the last ones.
        pair = candidate(network, right, np.arange(200)[::-1]), candidate(simple, 150, np.arange(200))
        order = leaderboard.ranked(list(pair))
        assert leaderboard.chosen(order).model is expected


def test_the_stages_of_a_fit_stay_within_its_time_limit():
    model = SequenceClassifier(**QUICK | {"epochs": None}, time_limit=0.1, model="network").fit(WORDS, GENUS)
    pretrain, finetune = model.recipes_[0].stages
    assert pretrain.budget.hours + FOLDS * finetune.budget.hours < 2 * 0.1 / 60


def test_a_tight_time_limit_halves_finetuning_before_it_shortens_pretraining(monkeypatch):
    """Two minutes, of which a fifth is kept for what was not foreseen, and fourteen finetunings."""
    monkeypatch.setattr(search, "stage_seconds", lambda recipe: [20.0, 6.0][-len(recipe.stages) :])
    model = SequenceClassifier(width=8, depth=1, time_limit=2)
    task = model._as_task(WORDS, [label if i < 60 else None for i, label in enumerate(GENUS)])
    planned = model.with_variant({"objective": "masked", "rate": 1.0}).recipe(task)
    end = time.monotonic() + 120
    found = Search(model, task, model._trainings(), 120.0, end, [task] * FOLDS)
    recipe = found._planned()[0].recipe
    pretrain, finetune = (cost.plan(prefix).steps for prefix in recipe.prefixes())
    first, second = (cost.plan(prefix).steps for prefix in planned.prefixes())
    assert pretrain == first
    assert finetune == pytest.approx((96 - 40) / (14 * 6) * second, rel=0.02)


def test_a_tighter_one_shortens_both_alike():
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


def regression_candidate(model, errors, y):
    return leaderboard.Candidate("", model, (y, y + errors), 1.0, 1)


def test_a_better_regression_is_kept_where_most_values_are_equal(small):
    y = np.zeros(60)
    y[:3] = (1.0, 2.0, 3.0)  # resamples without them have no variance of their own
    form = replace(small.predictor_.form, target=Reals())
    network = replace(small.predictor_, form=form)
    simple = SimplePredictor(form, Ends(), LinearModel(np.zeros((1, 1)), np.zeros(1)))
    order = [
        regression_candidate(network, np.full(60, 0.01), y),
        regression_candidate(simple, np.full(60, 0.7), y),
    ]
    assert leaderboard.chosen(order).model is network
    row, _ = leaderboard.rows(order)
    assert np.isfinite([row["low"], row["high"]]).all()


def test_groups_are_resampled_as_a_whole(small):
    y = np.arange(200) % 2
    groups = np.arange(200) // 20
    network = small.predictor_
    simple = SimplePredictor(network.form, Ends(), LinearModel(np.zeros((1, 2)), np.zeros(2)))
    # The network is better in one group of ten, by all of its examples.
    of_both = np.eye(2)[np.where(groups < 5, y, 1 - y)], np.eye(2)[np.where(groups < 4, y, 1 - y)]
    order = [
        leaderboard.Candidate("", model, (y, outputs), 1.0, 1)
        for model, outputs in zip((network, simple), of_both, strict=True)
    ]
    assert leaderboard.chosen(order).model is network
    assert leaderboard.chosen(order, groups).model is simple
    narrow, wide = (leaderboard.rows(order, given)[0] for given in (None, groups))
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])


def test_one_seed_is_drawn_for_all_trials_of_a_fit():
    model = SequenceClassifier(**QUICK, random_state=None).fit(WORDS, GENUS)
    variants = [model.with_variant(variant) for variant in model.variants(model.task_)]
    assert {each.recipe(model.task_).seed for each in variants} == {model.seed_} and len(variants) > 1
    first = model.seed_
    assert model.fit(WORDS, GENUS).seed_ != first


def test_only_what_was_not_trained_on_calibrates():
    few = SequenceClassifier(**QUICK, model="network", calibrate=True).fit(WORDS[:18], GENUS[:18])
    assert few.predictor_.temperature == 1.0
    with pytest.warns(UserWarning, match="calibrate scales the network alone"):
        many = SequenceClassifier(**QUICK, calibrate=True).fit(WORDS, GENUS)
    assert many.simple_ and many.predictor_.temperature != 1.0


def test_a_simple_method_that_takes_too_long_is_given_up(kept):
    data = kept._to_dataset(WORDS)
    labelled = replace(data, targets=torch.from_numpy(np.unique(GENUS, return_inverse=True)[1]))
    folds = [(labelled.take(torch.arange(100)), labelled.take(torch.arange(100, 240)))]
    quality = partial(leaderboard.quality, "softmax")
    methods = SimpleMethods(kept.predictor_.form, folds, labelled, leaderboard.answers, quality)
    now = time.monotonic()
    assert methods.candidates(labelled, now + 60, now + 60)
    assert methods.candidates(labelled, now + 60, now) == []


def test_copies_of_a_sequence_are_in_one_split_and_in_one_fold():
    rows, y = WORDS[:60] * 5, GENUS[:60] * 5
    model = SequenceClassifier()  # it holds the data
    task = model._as_task(rows, y)
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


def sentences(number, seed=0):
    """Sentences of words of a lexicon without spaces, and for every letter whether it begins a word."""
    random = np.random.RandomState(seed)
    lexicon = [random.randint(0, 40, random.randint(2, 5)).tolist() for _ in range(60)]
    X, y = [], []
    for _ in range(number):
        words = [lexicon[i] for i in random.randint(0, len(lexicon), 6)]
        X.append([letter for word in words for letter in word])
        y.append(["inside" if place else "begins" for word in words for place in range(len(word))])
    return X, y


def test_counts_help_where_they_show_what_few_labels_do_not():
    X, y = sentences(300)
    y = [labels if i < 30 else None for i, labels in enumerate(y)]
    assert tried_objectives(X, y) == {"ngram-statistics", "masked"}
    of_symbols = [
        ["low" if letter < 20 else "high" for letter in x] if i < 100 else None for i, x in enumerate(X)
    ]
    assert tried_objectives(X, of_symbols) == {"masked"}
    model = PositionClassifier(signal="tokens", objective="masked", **QUICK).fit(X, y)
    assert {row["objective"] for row in model.trials_} == {"masked"}


def tried_objectives(X, y):
    model = PositionClassifier(signal="tokens", model="network", **QUICK).fit(X, y)
    return {row["objective"] for row in model.trials_}
