"""The score of what ``fit`` keeps: corrected for the choice, and of sequences that no training has seen."""

import contextlib
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfpretrain import SequenceClassifier, SequenceRegressor
from selfpretrain.data.spec import Classes, ClassSets, PositionClasses, Reals, SequenceSpec, Tokens
from selfpretrain.errors import DataError
from selfpretrain.estimators import leaderboard
from selfpretrain.estimators.annotations import MANY_UNLABELLED
from selfpretrain.estimators.in_memory import with_test_split
from selfpretrain.estimators.predictor import Predictor
from selfpretrain.estimators.search import FOLDS, fold_data
from selfpretrain.estimators.simple import Candidate, Options, SimplePredictor
from selfpretrain.objectives.regress import Regress
from selfpretrain.tasks.simple.models import LinearModel
from selfpretrain.tasks.simple.symbols import Ends

NAMES = ("a", "b")
N = 40


def judged(target, y, of_network, *methods, groups=None, folds=5):
    """The verdict on a network and simple methods, given by the outputs of their settings."""
    form = SequenceSpec(Tokens(5), 5, target)
    network = Predictor((), Regress(), form, ())
    simple = []
    for settings_of in methods:
        options = [(y, outputs) for outputs in settings_of]
        best = max(options, key=lambda each: leaderboard.quality(target.kind, each))
        model = SimplePredictor(form, Ends(), LinearModel(np.zeros((1, 1)), np.zeros(1)))
        simple.append(Candidate(model.name, model, best, 0.0, model.parameters, Options(options)))
    first = [(y, outputs) for outputs in of_network]
    best = max(first, key=lambda each: leaderboard.score(target.kind, each))
    kinds = [number % 2 for number in range(len(first))]
    rounds = Options(first, np.arange(len(y)) < len(y) * 0.4, kinds, 2)
    candidate = Candidate("network", network, best, 0.0, 1, rounds)
    return leaderboard.judge(candidate, simple, groups, folds)


def guesses(kind, random):
    """Targets, outputs of a network and two methods that know nothing, and their score in the long run."""
    if kind == "numbers":
        y, shape = random.standard_normal(N), (3, 6, N)
        return Reals(), y, 0.3 * random.standard_normal(shape), -0.09
    shape = {"classes": (N, 2), "sets": (N, 2), "positions": (N, 3, 2)}[kind]
    outputs = random.random((3, 6, *shape))
    if kind == "sets":
        return ClassSets(NAMES), random.integers(0, 2, shape), outputs, 0.5
    outputs = outputs / outputs.sum(-1, keepdims=True)
    target = Classes(NAMES) if kind == "classes" else PositionClasses(NAMES)
    return target, random.integers(0, 2, shape[:-1]), outputs, 0.5


@pytest.mark.parametrize("kind", ["classes", "sets", "positions", "numbers"])
def test_the_score_of_the_best_of_many_that_know_nothing_is_that_of_one(kind):
    corrected, best, held = [], [], []
    for seed in range(8):
        target, y, outputs, truth = guesses(kind, np.random.default_rng(seed))
        verdict = judged(target, y, *outputs)
        corrected.append(verdict.score.value - truth)
        best.append(leaderboard.score(target.kind, verdict.kept.answers) - truth)
        held.append(verdict.score.low <= truth <= verdict.score.high)
    assert np.mean(best) > 0.06
    assert abs(np.mean(corrected)) < 0.07  # eight data sets, of which each is off by 0.1 or so
    assert np.mean(held) >= 0.9


def test_without_a_choice_the_score_is_that_of_validation():
    y = np.arange(N) % 2
    outputs = np.eye(2)[np.where(np.arange(N) < 30, y, 1 - y)]
    verdict = judged(Classes(NAMES), y, [outputs])
    assert verdict.score.value == verdict.table[0]["score"] == 0.75
    one, folds = (judged(Classes(NAMES), y, [outputs], folds=each).score for each in (1, 5))
    assert folds.low < one.low < 0.75 < one.high < folds.high  # folds err alike


def test_numbers_are_averaged_by_their_errors_without_those_far_off_on_one_example():
    random = np.random.RandomState(0)
    y = random.randn(N)
    answers = [y + spread * random.randn(N) for spread in (0.3, 0.4, 0.5)]
    answers[2][0] += 1000
    weights = [1 / np.mean((y - each) ** 2) for each in answers[:2]]
    kept = judged(Reals(), y, [0 * y], *([each] for each in answers)).kept
    assert kept.answers[1] == pytest.approx(np.average(answers[:2], axis=0, weights=weights))


def test_what_is_right_everywhere_is_not_certain():
    y = np.arange(N) % 2
    for groups, low in ((None, 0.8), (np.arange(N) // 5, 0.3)):
        found = judged(Classes(NAMES), y, [np.eye(2)[y]], groups=groups).score
        assert found.value == found.high == 1.0 and low < found.low < 0.9
    assert judged(Reals(), y * 1.0, [y + 1e-3]).score.high < 1


def test_groups_make_the_interval_of_what_is_kept_wider():
    groups = np.arange(N) // 5
    y = np.arange(N) % 2
    options = [np.eye(2)[np.where(groups < right, y, 1 - y)] for right in (6, 5, 4)]
    narrow, wide = (judged(Classes(NAMES), y, options, groups=each).score for each in (None, groups))
    assert wide.high - wide.low > 1.4 * (narrow.high - narrow.low)


KINDS = [(SequenceClassifier, "classes"), (SequenceRegressor, "numbers")]


@given(
    st.sampled_from(KINDS),
    st.integers(2, 12),
    st.integers(20, 60),
    st.sampled_from([0, 3, 8]),
    st.integers(0, 99),
)
def test_no_validation_has_a_sequence_or_group_of_its_training(kind, distinct, n, groups, seed):
    random = np.random.RandomState(seed)
    texts = ["ab" * 3 + format(i, "04b") for i in range(distinct)]
    X = [texts[min(int(i), distinct - 1)] for i in random.exponential(distinct / 3, n)]
    y = random.randint(0, 2, n) if kind[1] == "classes" else random.randn(n)
    y[:2] = 0, 1
    of_row = random.randint(0, groups, n) if groups else None
    model = kind[0]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing can be held out
        task = model._as_task(X, y, groups=of_row)
    data = task.data()
    digests = np.array(data.whole.digests())
    folds = fold_data(data, 0)
    divided = [data, *folds]
    with contextlib.suppress(DataError):  # too few differ for three splits
        divided.append(with_test_split(task, 0).data())
    for each in divided:
        train, *held = (set(digests[each.split == part]) for part in (0, 1, 2))
        assert train and not any(train & part for part in held)
        if of_row is not None:
            assert all(len(set(each.split[of_row == g])) == 1 for g in set(of_row))
    if folds:
        assert 2 <= len(folds) <= min(FOLDS, len(set(X)))
        assert (sum((each.split == 1).astype(int) for each in folds) == 1).all()


def test_unlabelled_sequences_are_where_their_group_is():
    of_row = np.arange(60) // 5
    X = [f"{i % 55:02}" for i in range(60)]  # the first and the last group share copies
    y = [i % 2 if i % 5 < 3 else None for i in range(60)]
    for seed in range(12):
        task = SequenceClassifier(random_state=seed)._as_task(X, y, groups=of_row)
        for each in (task, with_test_split(task, seed)):
            splits = each.data().split.reshape(12, 5)
            assert (splits == splits[:, :1]).all()


@pytest.mark.filterwarnings("ignore")
def test_where_nothing_differs_nothing_is_compared():
    small = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 0.1}
    for X, y in ((["abab", "baba"] * 20, ["f", "m"] * 20), (["abab"] * 40, ["f", "m"] * 20)):
        with pytest.warns(UserWarning, match="nothing is held out, and nothing compared"):
            model = SequenceClassifier(**small).fit(X, y)
        assert model.leaderboard_ == [] and model.kept_ == "" and model.kept_score_ is None


def test_unlabelled_examples_are_not_held_out_alone():
    X = ["abab"] * 40 + [f"{i:04}" for i in range(MANY_UNLABELLED)]
    with pytest.warns(UserWarning, match="nothing is held out, and nothing compared"):
        task = SequenceClassifier()._as_task(X, ["f", "m"] * 20 + [None] * MANY_UNLABELLED)
    assert not task.data().split.any()


def test_copies_of_four_texts_say_nothing_of_random_numbers(tmp_path):
    y = np.random.RandomState(0).randn(48)
    small = {"width": 8, "depth": 1, "epochs": 1, "pretrain_epochs": 1, "n_trials": 2}
    model = SequenceRegressor(**small).fit(["aaa", "bbb", "ccc", "ddd"] * 12, y)
    assert model.kept_score_.value < 0.05 and f"R2 {model.kept_score_}, corrected" in model.kept_
    again = SequenceRegressor.load(model.save(tmp_path / "model"))
    assert again.kept_score_ == model.kept_score_
    np.testing.assert_allclose(
        again.predictor_.logits(again._to_dataset(["aaa"])),
        model.predictor_.logits(model._to_dataset(["aaa"])),
    )


def test_folds_of_numbers_do_not_know_the_labels_of_their_validation():
    y = np.arange(40.0) ** 2
    model = SequenceRegressor()
    data = model._as_task([f"{i:03d}" for i in range(40)], y).data()
    for fold in fold_data(data, 0):
        trained = y[fold.split == 0]
        assert fold.form.target.centre == pytest.approx(trained.mean())
        assert fold.form.target.spread == pytest.approx(trained.std())


def test_a_network_in_other_units_answers_the_same():
    form = SequenceSpec(Tokens(5), 5, Reals(centre=231.0, spread=70.0))
    head = Regress().head(form, 8, "mean")
    x = torch.randn(3, 5, 8)
    before = head(x)
    head.rescale(Reals(centre=-4.0, spread=3.0))
    torch.testing.assert_close(head(x), before)
    assert head.target.centre == -4.0


def test_one_example_of_validation_corrects_nothing():
    y = np.array([1])
    right, wrong = (np.eye(2)[[k]] for k in (1, 0))
    verdict = judged(Classes(NAMES), y, [right, wrong], [wrong], folds=1)
    assert verdict.score.value == 1.0 and np.isnan(verdict.score.low)
    assert "not corrected for the choice" in verdict.line
