"""Estimators on sequences of all kinds: what they learn from, what they refuse, and what they keep."""

import copy
import datetime
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

from selfpretrain import PositionClassifier, SequenceClassifier, SequencePretrainer, SequenceRegressor
from selfpretrain.errors import DataError, SpecError, StageFailed, StoreError
from selfpretrain.estimators import inputs, settings, training
from selfpretrain.estimators import predictor as predicting
from selfpretrain.estimators.annotations import labelled_only
from selfpretrain.estimators.in_memory import with_test_split
from selfpretrain.runner import stage as runner_stage
from selfpretrain.tasks.base import load_task
from selfpretrain.tasks.imported import make_waves
from selfpretrain.training import cost
from selfpretrain.training.train import train

pytestmark = pytest.mark.usefixtures("rough_flops")
TOY = {"scale": "smoke", "runs": None}
ALONE = {"model": "network", "n_trials": 1}
SHORT = {"width": 16, "depth": 1, "epochs": 12, "pretrain_epochs": 3, "batch_size": 8, "mixer": "s4d"} | ALONE
X, y = make_waves(80, seed=0)
NEW, RIGHT = make_waves(60, seed=1)


@pytest.fixture(scope="module")
def model():
    return SequenceClassifier(**SHORT | {"epochs": 20}, calibrate=True, n_members=2).fit(X, y)


@pytest.fixture(scope="module")
def toy():
    return SequenceClassifier(**TOY).fit(X, y)


def test_learns_waves_of_unequal_lengths(model):
    assert model.score(NEW, RIGHT) > 0.75
    assert list(model.classes_) == ["sine", "square"]
    found = model.predict_proba(NEW)
    assert found.shape == (60, 2) and np.allclose(found.sum(1), 1)
    assert (model.predict(NEW) == model.classes_[found.argmax(1)]).all()
    assert model.transform(NEW).shape == (60, 16)
    assert [len(v) for v in model.positions(NEW[:3])] == [len(s) for s in NEW[:3]]


@pytest.mark.parametrize(
    "given",
    [
        ["abc", b"de", "fghi", "ä"] * 6,
        [[1.0, 2.0, 3.0], [4.0, 5.0]] * 12,
    ],
    ids=["text", "lists"],
)
def test_takes_sequences_of_all_kinds(given):
    labels = [("a", 1), ("b", 2)] * 12
    model = SequenceClassifier(**TOY).fit(given, labels)
    answers = model.predict(given)
    assert len(answers) == 24 and set(answers) <= set(labels)


@pytest.mark.parametrize(
    "pair",
    [
        (("a", 1), ("b", 2)),
        (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
        (1, "1"),
    ],
    ids=["tuples", "dates", "types"],
)
def test_labels_of_all_kinds_are_scored_and_have_columns_of_their_own(pair):
    given = [[float(i), i % 2, 0.5] for i in range(24)]
    model = SequenceClassifier(**TOY).fit(given, list(pair) * 12)
    right = [found == pair[i % 2] for i, found in enumerate(model.predict(given))]
    assert model.score(given, list(pair) * 12) == np.mean(right)
    assert model.score(given[:3], [*pair, pair[0]], sample_weight=[1, 0, 1]) == np.mean(right[:3:2])
    assert len(model.table(model._to_dataset(given))) == 3


def test_labels_that_cannot_be_saved_can_be_made_words_without_another_fit(tmp_path):
    given = [[float(i), i % 2, 0.5] for i in range(24)]
    model = SequenceClassifier(**TOY).fit(given, [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)] * 12)
    found = model.predict(given)
    with pytest.raises(SpecError, match=r"first set classes_ = np\.array"):
        model.save(tmp_path)
    model.classes_ = np.array([str(label) for label in model.classes_])
    assert SequenceClassifier.load(model.save(tmp_path)).predict(given).tolist() == list(map(str, found))


def test_nan_is_padding_at_the_end_and_filled_in_elsewhere():
    x = np.array([[1, np.nan, 3, np.nan], [np.nan, 5, 6, 7]])
    found = inputs.read(x).sound()
    assert found.lengths.tolist() == [3, 4]
    assert found.flat[:, 0].tolist() == [1, 2, 3, 5, 5, 6, 7]


def test_unlabelled_sequences_are_pretrained_on():
    some = [label if i % 4 else None for i, label in enumerate(y)]
    task = SequenceClassifier(**TOY)._as_task(X, some, X_unlabelled=NEW)
    train = task.load("train")
    assert int(train.labelled.sum()) == 60 - 9  # nine are held back for validation
    assert len(train) == 80 - 9 + 60
    assert len(task.load("val")) == 9
    with pytest.raises(SpecError, match="no label"):
        SequenceClassifier(**TOY).fit(X, [None] * 80)


@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
def test_any_share_for_validation_leaves_training_examples(share):
    five = SequenceClassifier(**TOY, validation_fraction=share)._as_task(X[:20], np.arange(20) % 5)
    assert len(five.load("train")) + len(five.load("val")) == 20
    none = SequencePretrainer(**TOY, validation_fraction=share)._as_task(X * 10, None)
    assert len(none.load("val")) == round(share * 800)


def test_two_groups_cannot_be_divided_nine_to_one():
    with pytest.raises(DataError, match=r"0\.9 leaves none of 2 groups for training"):
        SequenceClassifier(**TOY, validation_fraction=0.9)._as_task(X, y, groups=np.arange(80) // 40)


@pytest.mark.parametrize("groups", [np.arange(80) // 8, [f"patient {i // 10}" for i in range(80)]])
def test_validation_holds_back_whole_groups(groups):
    task = SequenceClassifier(**TOY)._as_task(X, y, groups=groups, X_unlabelled=[])
    train, val = (set(task.load(split).groups.tolist()) for split in ("train", "val"))
    assert val and not train & val


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"model": "simple"}, "'best' or 'network'"),
        ({"mixer": None}, "a valid string, or an instance of Mixer"),
        ({"objective": 3}, "a valid string"),
        ({"objective": "maskd"}, "did you mean 'masked'"),
        ({"device": None}, "a valid string"),
        ({"pooling": "first"}, "'auto', or 'mean', 'max', 'last' or 'attention'"),
        ({"mask_rate": 1.5}, "less than or equal to 1, or None"),
        ({"finetune_lr": "low"}, "a valid integer, or a valid number, or 'auto'"),
        ({"epochs": float("inf")}, "less than inf, or None"),
        ({"width": 3.5}, "a valid integer, or None"),
        ({"width": True}, "a valid integer, or None"),
        ({"n_members": 0}, "greater than or equal to 1"),
        ({"n_trials": 1.5}, "a valid integer, or 'auto'"),
        ({"validation_fraction": -0.1}, "greater than or equal to 0"),
        ({"signal": "letters"}, "'auto', 'text', 'tokens' or 'values'"),
        ({"label_smoothing": 1}, "less than 1"),
        ({"calibrate": "yes"}, "a valid boolean"),
        ({"class_weight": "even"}, "a valid dictionary, or 'balanced', or None"),
        ({"class_weight": {"sine": -1}}, "weights must be above 0"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_with_what_it_takes(setting, said):
    with pytest.raises(SpecError) as error:
        SequenceClassifier(**TOY).set_params(**setting).fit(X, y)
    assert "\n" not in str(error.value) and said in str(error.value)
    assert next(iter(setting)) in str(error.value) or "objective" in setting


def test_numbers_of_numpy_are_settings_too(toy, tmp_path):
    numbers = {"width": np.int64(8), "lr": np.float32(0.1), "epochs": 2, "calibrate": np.True_}
    settings.check_settings(SequenceClassifier().set_params(**numbers))
    saved = copy.copy(toy).set_params(**numbers).save(tmp_path)
    assert SequenceClassifier.load(saved).get_params().items() >= numbers.items()


def test_a_rate_of_numpy_is_a_rate():
    model = SequenceClassifier().set_params(finetune_lr=np.float32(0.5))
    assert model.recipe(model._as_task(X, y)).last.optim.lr == 0.5


@pytest.mark.parametrize(
    ("bad", "signal", "said"),
    [
        ([["the", "cat"]], "tokens", "row 0: it holds something that is not a number"),
        (["abc"], "tokens", "row 0: it holds something that is not a number"),
        ([[1, 1 << 30]], "tokens", "row 0: tokens are whole numbers from 0 to 16,777,215"),
        (["abc", np.ones(3)], "auto", "row 1: it is not a text"),
        ([], "auto", "X holds no sequence"),
        (np.ones((4, 5, 2), dtype=int), "tokens", "X has 2 channels, and symbols have none"),
    ],
    ids=["words", "text", "large", "mixed", "none", "channels"],
)
def test_sequences_that_cannot_be_read_are_named_in_one_line(bad, signal, said):
    with pytest.raises(DataError, match=said):
        inputs.read(bad, signal).sound()


def test_text_with_half_a_surrogate_pair_is_refused():
    with pytest.raises(DataError, match="row 0: it holds half of a letter of UTF-16"):
        inputs.read(["a\ud800"]).sound()


def test_weights_below_zero_are_refused():
    with pytest.raises(ValueError, match="Negative values"):
        SequenceClassifier(**TOY).fit(X, y, sample_weight=[-1] + [1] * 79)


def test_weights_of_examples_and_classes_move_the_answers():
    heavy = np.where(y == "sine", 50.0, 1.0)
    short = SHORT | {"epochs": 6, "objective": None}
    plain = SequenceClassifier(**short).fit(X, y).predict_proba(NEW)[:, 0].mean()
    weighed = SequenceClassifier(**short).fit(X, y, sample_weight=heavy).predict_proba(NEW)[:, 0].mean()
    classes = SequenceClassifier(**short, class_weight={"sine": 50}).fit(X, y).predict_proba(NEW)[:, 0].mean()
    assert weighed > plain + 0.1 and classes > plain + 0.1
    balanced = SequenceClassifier(**TOY, class_weight="balanced")
    low, high = balanced._objective(balanced._as_task(X, ["a"] * 60 + ["b"] * 20)).weights
    assert high == pytest.approx(3 * low, rel=0.1)


def test_an_example_of_weight_zero_is_not_there(toy):
    twice = SequenceClassifier(**TOY).fit([*X, *NEW], [*y, *RIGHT], sample_weight=[1] * 80 + [0] * 60)
    assert (twice.predict_proba(NEW) == toy.predict_proba(NEW)).all()


def test_regression_is_in_the_units_of_y():
    lengths = [1000.0 + len(x) for x in X]
    model = SequenceRegressor(**TOY).fit(X, lengths)
    assert 1020 < model.predict(NEW).mean() < 1050
    assert set(model.evaluate(NEW, [1000.0 + len(x) for x in NEW], draws=20)) == {"R2", "MAE", "RMSE"}


def test_a_task_by_its_name_is_scored_on_its_test_split():
    model = SequenceClassifier(**TOY).fit("digits")
    assert 0 <= model.score("digits") <= 1
    assert len(model.predict("digits")) == 497
    with pytest.raises(SpecError, match="use SequenceClassifier"):
        SequenceRegressor(**TOY).fit("digits")


def test_patience_is_that_of_finetuning():
    model = SequenceClassifier(**SHORT, patience=2)
    pretraining, finetuning = model.recipe(model._as_task(X, y)).stages
    assert (pretraining.early_stopping_patience, finetuning.early_stopping_patience) == (0, 2)


def test_a_time_limit_takes_steps_away():
    model = SequenceClassifier(width=16, depth=1, minutes=0.02, **ALONE)
    (recipe,) = model._recipes(model._as_task(X, y), 1.2)
    first, last = recipe.stages
    assert first.budget.steps < 900 and last.budget.steps < 400
    assert first.budget.hours + last.budget.hours == pytest.approx(0.02 / 60)


@pytest.mark.parametrize(
    ("seconds", "mixer", "longest", "size"),
    [
        pytest.param(1e-6, "s4d", 1000, (192, 6), marks=pytest.mark.slow),
        (1e-6, "s4d", 30, (64, 2)),  # fewer positions than the next network has parameters
        (1e-6, "attention", 100, (96, 3)),
        (10.0, "s4d", 1000, (128, 2)),
    ],
)
def test_a_time_limit_may_leave_room_for_a_larger_network(monkeypatch, seconds, mixer, longest, size):
    monkeypatch.setattr(settings.cost, "seconds_per_step", lambda *asked: seconds)
    rows = list(np.random.RandomState(0).randn(3000, longest).astype(np.float32))
    model = SequenceClassifier(mixer=mixer, minutes=60)
    (recipe,) = model._recipes(model._as_task(rows, [0, 1] * 1500), 3600.0)
    assert (recipe.model.width, recipe.model.depth) == size
    assert recipe.last.optim.lr == pytest.approx((4e-3 if mixer == "s4d" else 2e-3) * 64 / size[0])
    fixed = SequenceClassifier(mixer=mixer, minutes=60, width=64)
    fixed.set_classes(recipe.task.form)
    assert fixed._recipes(recipe.task, 3600.0)[0].model.width == 64


def test_a_task_with_settings_of_its_own_keeps_its_network_however_long_it_may_take(monkeypatch):
    monkeypatch.setattr(settings.cost, "seconds_per_step", lambda *asked: 1e-6)
    model, task = SequenceClassifier(minutes=600), load_task("paths")
    model.set_classes(task.form)
    recipe = model.recipe(task)
    assert task.small and model.within(recipe, 36_000.0).model == recipe.model


@pytest.mark.parametrize(
    ("given", "seconds", "factor"), [({}, 1e5, 4), ({}, 2.0, 2), ({"epochs": 1}, 1e5, 1)]
)
def test_settings_of_a_task_are_lengthened_where_time_is_left(monkeypatch, given, seconds, factor):
    monkeypatch.setattr(settings, "stage_seconds", lambda recipe, device: [0.3, 0.5])
    model, task = SequenceClassifier(minutes=600, **given), load_task("paths")
    model.set_classes(task.form)
    recipe = model.recipe(task)
    steps = [factor * settings.steps_of(prefix) for prefix in recipe.prefixes()]
    assert [stage.budget.steps for stage in model.within(recipe, seconds).stages] == steps


@pytest.mark.parametrize("stored", [False, True])
def test_half_a_batch_is_tried_once_where_memory_ends(monkeypatch, tmp_path, stored):
    sizes = []

    def short_of_memory(stage, *args, **kwargs):
        assert sys.exc_info()[0] is None  # an error that is handled would keep its tensors
        sizes.append(stage.batch)
        if len(sizes) == 1:
            raise MemoryError
        return train(stage, *args, **kwargs)

    monkeypatch.setattr(runner_stage if stored else training, "train", short_of_memory)
    toy = TOY | {"runs": str(tmp_path) if stored else None}
    SequenceClassifier(**toy).fit(X, y)
    assert sizes == [8, 4, 4]
    sizes.clear()
    with pytest.raises(StageFailed, match="MemoryError"):
        SequenceClassifier(**toy, batch_size=8, random_state=1).fit(X, y)


def test_a_killed_fit_goes_on_from_its_folder(toy, monkeypatch, tmp_path):
    begun = []

    def killed_at_finetuning(stage, *args, **kwargs):
        begun.append(type(stage.objective).__name__)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return train(stage, *args, **kwargs)

    monkeypatch.setattr(runner_stage, "train", killed_at_finetuning)
    model = SequenceClassifier(**TOY | {"runs": str(tmp_path)})
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    answers = model.fit(X, y).predict_proba(NEW)
    assert begun == ["Masked", "Classify", "Classify"]
    assert (answers == toy.predict_proba(NEW)).all()


def test_a_quiet_fit_counts_no_flops(monkeypatch):
    counted = []
    count = cost.Planner._count_step
    monkeypatch.setattr(cost.Planner, "_count_step", lambda *args: counted.append(1) or count(*args))
    SequenceClassifier(**TOY, random_state=90).fit(X, y)
    assert not counted
    SequenceClassifier(**TOY, random_state=91, verbose=True).fit(X, y)
    assert len(counted) == 2


def test_prediction_halves_its_batch_where_memory_ends(model, monkeypatch):
    sizes, ask = [], predicting._forward_batches

    def short_of_memory(question, network, data, size):
        assert sys.exc_info()[0] is None  # an error that is handled would keep its tensors
        sizes.append(size)
        if size > 300:
            raise MemoryError
        return ask(question, network, data, size)

    monkeypatch.setattr(predicting, "_forward_batches", short_of_memory)
    assert model.predict(NEW).shape == (60,)
    assert sizes[1] == sizes[0] // 2


def test_grid_search_reuses_finished_pretraining(tmp_path):
    grid = {"label_smoothing": [0.0, 0.1]}
    model = SequenceClassifier(**TOY | {"runs": str(tmp_path)}, model="network")
    GridSearchCV(model, grid, cv=2, refit=False).fit(X[:40], y[:40])
    stages = [path.name.split("-")[2] for path in (tmp_path / "stages").iterdir()]
    assert stages.count("classify") == 4
    assert stages.count("masked") == 2  # one per fold


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([np.ones((4, 3))], "row 0: it has 3 channels, the model takes 2"),
        ([np.ones((4, 2)), np.empty((0, 2))], "row 1: there is no sequence"),
        ([np.ones((4, 2)), None], "row 1: there is no sequence"),
        ([np.full((4, 2), np.inf)], "row 0: a value is infinite"),
        ([np.full((4, 2), np.nan)], "row 0: there is no sequence"),
        ([["x", "y"], np.ones((4, 2))], "row 0: it holds something that is not a number"),
        (["text"], "the model takes values of 2 channels, these are text"),
    ],
)
def test_bad_sequences_are_named_in_one_line(model, bad, said):
    with pytest.raises(DataError) as error:
        model.predict(bad)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_longer_sequences_are_cut_and_told_or_refused(model):
    long = [np.ones((100, 2))]
    with pytest.warns(UserWarning, match=r"1 of 1 sequences are cut to the 48 positions"):
        model.predict(long)
    model.longer = "refuse"
    with pytest.raises(DataError, match="row 0: it is longer than the 48 positions"):
        model.predict(long)
    model.longer = "cut"


def test_saved_and_loaded_elsewhere_it_answers_the_same_to_the_bit(model, tmp_path):
    folder = model.save(tmp_path / "model")
    script = f"""
import numpy as np
from selfpretrain import SequenceClassifier
from selfpretrain.tasks.imported import make_waves
model = SequenceClassifier.load({str(folder)!r}, device="cpu")
np.save({str(tmp_path / "found.npy")!r}, model.predict_proba(make_waves(60, seed=1)[0]))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (np.load(tmp_path / "found.npy") == model.predict_proba(NEW)).all()
    assert "sine, square" in (folder / "README.md").read_text()
    with pytest.raises(SpecError, match="holds a SequenceClassifier, not a SequenceRegressor"):
        SequenceRegressor.load(folder)
    (weights,) = folder.glob("weights*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-8] + b"tampered")
    with pytest.raises(StoreError):
        SequenceClassifier.load(folder)
    with pytest.raises(StoreError, match="holds no model"):
        SequenceClassifier.load(tmp_path)


class Derived(SequenceClassifier):
    """A classifier of somebody else, who adds methods to ours."""


def test_a_derived_class_is_the_estimator_that_it_is_derived_from(tmp_path):
    model = Derived(width=8, depth=1, epochs=1, pretrain_epochs=1, n_trials=1).fit(X, y)
    assert len(model.leaderboard_) > 1  # simple methods, too
    model.set_classes(load_task("digits").form)
    model = Derived(**TOY).fit(X, y)
    again = Derived.load(model.save(tmp_path / "m"))
    assert isinstance(again, Derived) and type(SequenceClassifier.load(tmp_path / "m")) is SequenceClassifier
    assert (again.predict_proba(NEW) == model.predict_proba(NEW)).all()


def test_labels_survive_being_saved(toy, tmp_path):
    for labels in ([("a", 1), ("b", 2)], [3, 4], [True, False]):
        model = copy.copy(toy)
        model._as_task(X, labels * 40)  # sets the classes
        again = SequenceClassifier.load(model.save(tmp_path / "m"))
        assert set(again.predict(NEW).tolist()) <= set(labels)
        assert again.predict(NEW).tolist() == model.predict(NEW).tolist()


def test_measures_have_intervals_around_them(model):
    found = model.evaluate(NEW, RIGHT, draws=50)
    assert {"accuracy", "balanced accuracy", "macro F1", "MCC", "AUROC", "average precision"} < set(found)
    assert found["accuracy"].value == model.score(NEW, RIGHT)
    assert all(score.low <= score.value <= score.high or name == "ECE" for name, score in found.items())
    wide = model.evaluate(NEW, RIGHT, groups=np.arange(60) // 20, draws=50)["accuracy"]
    assert wide.value == found["accuracy"].value
    assert model.confusion(NEW, RIGHT).sum() == 60
    curve = model.reliability(NEW, RIGHT)
    assert curve.error == pytest.approx(found["ECE"].value)
    assert sum(share for _, _, share in curve.bins) == pytest.approx(1)
    assert sum(hit * share for _, hit, share in curve.bins) == pytest.approx(found["accuracy"].value)
    with pytest.raises(SpecError, match="label 'saw' is not one of the 2 classes"):
        model.evaluate(NEW, ["saw"] * 60)
    with pytest.raises(SpecError, match="requires y to be passed"):
        model.evaluate(NEW)
    with pytest.raises(DataError, match="y holds no label"):
        model.evaluate(NEW, [None] * 60)


def test_examples_without_a_label_are_not_scored(model):
    some = [None if i % 5 == 0 else label for i, label in enumerate(RIGHT)]
    labelled = [i for i, label in enumerate(some) if label is not None]
    found = model.evaluate(NEW, some, groups=np.arange(60) // 3, draws=20)
    expected = model.evaluate(
        [NEW[i] for i in labelled], RIGHT[labelled], groups=np.array(labelled) // 3, draws=20
    )
    for name, score in expected.items():
        assert vars(found[name]) == pytest.approx(vars(score), abs=1e-4), name
    with pytest.raises(
        DataError, match="12 labels of y are missing; score needs all of them, evaluate does not"
    ):
        model.score(NEW, some)
    assert model.confusion(NEW, some).sum() == len(labelled)
    assert sum(hit * share for _, hit, share in model.reliability(NEW, some).bins) == pytest.approx(
        expected["accuracy"].value
    )


def test_compare_asks_the_question_of_this_project(tmp_path):
    model = SequenceClassifier(**TOY | {"runs": str(tmp_path)}).fit(X, y)
    rows = model.compare(seeds=2).to_rows()
    assert {row["column"] for row in rows} == {"scratch", "scratch (matched)", "SPT"}
    assert len(rows) == 6


def test_of_the_test_split_of_a_task_sequences_without_a_label_are_not_scored(toy):
    ages = np.array([len(x) for x in X], dtype=float)
    ages[::3] = np.nan
    classes = [None if np.isnan(age) else label for age, label in zip(ages, y, strict=True)]
    numbers = SequenceRegressor(**TOY).fit(X, ages)
    for model, given in ((toy, classes), (numbers, ages)):
        task = with_test_split(type(model)(**TOY)._as_task(X, given, groups=np.arange(80) // 4), 0)
        known = labelled_only(task.load("test"))
        assert 0 < len(known) < len(task.load("test"))
        right = known.targets.numpy()
        if model is toy:
            assert model.score(task) == (model.predict(known) == model.classes_[right]).mean()
        else:
            offset = task.data().offsets.target
            assert model.score(task) == pytest.approx(r2_score(right + offset, model.predict(known)))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_group_is_refused_and_no_group_by_itself(missing, toy):
    groups = [missing if i % 2 else f"patient {i}" for i in range(80)]
    with pytest.raises(DataError, match="groups has missing entries; every sequence needs one"):
        SequenceClassifier(**TOY)._as_task(X, y, groups=groups)
    with pytest.raises(DataError, match="groups has missing entries"):
        toy.evaluate(X, y, groups=groups)


@pytest.mark.parametrize("groups", [set(range(80)), "patient", 7, iter(range(80))])
def test_groups_without_an_entry_for_each_sequence_are_refused(groups):
    with pytest.raises(DataError, match=r"groups is of type [a-z_]+; give a list or an array"):
        SequenceClassifier(**TOY)._as_task(X, y, groups=groups)


@pytest.mark.parametrize(("given", "count"), [("y", 9), ("y", 11), ("groups", 9), ("groups", 11)])
def test_labels_or_groups_of_other_sequences_are_refused_where_scores_are_asked_for(given, count, toy):
    whole = {"y": y, "groups": np.arange(80)}
    some = {name: values[: count if name == given else 10] for name, values in whole.items()}
    with pytest.raises(DataError, match=f"X has 10 sequences, but {given} has {count} entries"):
        toy.evaluate(X[:10], **some)


def test_a_model_in_other_hands_knows_what_was_left_out_but_not_its_data(toy, tmp_path):
    model = copy.copy(toy)
    model.left_out_ = "not trained: 2 settings of the network"
    again = SequenceClassifier.load(model.save(tmp_path / "model"))
    assert again.left_out_ == model.left_out_ and not again.interrupted_
    for each in (again, pickle.loads(pickle.dumps(toy)), SequenceClassifier(**TOY)):
        with pytest.raises(SpecError, match="does not hold the data of its training: give compare X and y"):
            each.compare()


def test_a_fit_that_fails_leaves_everything_as_it_was(monkeypatch):
    threads = torch.get_num_threads()
    model = SequenceClassifier(**TOY).fit(X, y)
    before = dict(vars(model))
    monkeypatch.setattr(SequenceClassifier, "_train", lambda *_: [torch.set_num_threads(1), 1 / 0])
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError):
            model.fit(X, np.where(y == y[0], "z", "a"))  # answers would have got these names
        assert torch.get_num_threads() == 2 and vars(model) == before
    finally:
        torch.set_num_threads(threads)


def test_before_a_fit_there_is_no_score():
    with pytest.raises(NotFittedError):
        SequenceClassifier(**TOY).score(X, y)


def test_training_leaves_the_random_numbers_of_the_caller_alone():
    torch.manual_seed(1)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    SequenceClassifier(**TOY).fit(X, y)
    assert (torch.rand(3) == drawn).all()


OWN = "has its own labels, groups, weights and unlabelled sequences; give it alone, or give arrays"


@pytest.mark.parametrize("beside", ["y", "groups", "sample_weight", "X_unlabelled"])
def test_what_a_task_has_of_its_own_cannot_be_given_beside_it(beside):
    for kind in (SequenceClassifier, SequencePretrainer):
        with pytest.raises(SpecError, match=f"a task {OWN}"):
            kind(**TOY).fit("digits", **{beside: [1.0] * 4})


@pytest.mark.parametrize("beside", ["y", "groups"])
def test_scores_on_a_task_are_those_of_its_own_labels_and_groups(beside, toy):
    task = with_test_split(toy.task_, seed=0)
    for call in (toy.evaluate, toy.compare, *([toy.score] if beside == "y" else [])):
        with pytest.raises(SpecError, match=f"a task {OWN}"):
            call(task, **{beside: [1.0] * 4})
    with pytest.raises(SpecError, match="a task has its own"):
        toy.evaluate("digits", **{beside: [1.0] * 4})
    with pytest.raises(SpecError, match=f"the last fit {OWN}"):
        toy.compare(**{beside: [1.0] * 4})
    with pytest.raises(SpecError, match="a task has its own"):
        PositionClassifier(**TOY).score("digits", [1.0] * 4)


@pytest.mark.parametrize(
    ("share", "classes", "said"),
    [
        (0.9, np.arange(20) % 5, "validation_fraction=0.9 of 20 has no room for one of each of 5 classes"),
        (0.15, np.arange(20) % 5, "validation_fraction=0.15 of 20 has no room for one of each of 5 classes"),
        (0.5, np.maximum(np.arange(20) - 17, 0), "a class has one labelled example"),
        (0.5, np.arange(20) % 5, ""),
    ],
)
def test_a_split_that_is_not_by_class_is_told_where_it_decides(share, classes, said):
    model = SequenceClassifier(**TOY, validation_fraction=share, n_trials=1)
    task = model._as_task(X[:20], classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert model._folds(task) == [task]
    told = [str(each.message) for each in caught]
    assert len(told) == bool(said) and all(
        said in each and "without regard to class" in each for each in told
    )


def test_a_split_that_no_fold_uses_is_not_told(recwarn):
    model = SequenceClassifier(runs=None)
    task = model._as_task(X[:20], np.arange(20) % 5)
    assert len(model._folds(task)) > 1 and not recwarn.list
