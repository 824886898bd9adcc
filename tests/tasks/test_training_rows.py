"""The law that training sees nothing but its own rows: whatever else is changed changes no byte of it.

The length of the longest sequence and the names of classes are not measured: they say what there can be.
"""

import numpy as np
import pytest
import torch

from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.spec import SPLITS, Tokens
from selfpretrain.data.store import FORM, verify
from selfpretrain.estimators.in_memory import with_test_split
from selfpretrain.estimators.models import (
    MultilabelClassifier,
    PositionClassifier,
    SequenceClassifier,
    SequencePretrainer,
    SequenceRegressor,
)
from selfpretrain.objectives.masked import Masked
from selfpretrain.tasks.imported import Imported

ROWS, LENGTH, FOLDS = 72, 12, 3
LABELLED = 48
"""Rows that have a label; those after them have none and are trained on."""
SIGNALS = ("values", "channels", "holes", "levels", "tokens")


def seen(task):
    """All that training sees of a task: its form, and its examples with their labels and weights."""
    train = task.load("train")
    batch = train.batch(torch.arange(len(train)))
    rebuilt = Masked().reconstruction_target(batch, task.form)
    tensors = [batch.inputs, batch.targets, batch.padding_mask, batch.weights, batch.lengths, rebuilt]
    return FORM.dump_json(task.form), [None if x is None else x.numpy().tobytes() for x in tensors]


def inputs(signal, random):
    """(ROWS, LENGTH) or (ROWS, LENGTH, 2) sequences, of which none is the copy of another."""
    if signal == "tokens":
        return random.randint(0, 50, (ROWS, LENGTH)).astype(np.int32)
    if signal == "levels":
        return random.randint(20, 200, (ROWS, LENGTH)).astype(np.uint8)
    x = random.randn(ROWS, LENGTH, 1 if signal == "values" else 2).astype(np.float32)
    if signal == "holes":
        x[::5, :, 1] = np.nan
    return x


def spoiled(x, train):
    """The same training rows; others far away, of other symbols, and not whole where they were."""
    other = x.copy()
    rows = np.flatnonzero(~train)
    if x.dtype.kind in "iu":
        other[rows] = 255 - x[rows] if x.dtype == np.uint8 else x[rows] + 1000
    else:
        other[rows] = 37.5 * x[rows][::-1] - 1e4
        other[rows[0]] = np.pi
    return other


def numbers(random):
    return np.where(np.arange(ROWS) < LABELLED, random.randn(ROWS).astype(np.float32), np.nan)


def classes():
    return np.where(np.arange(ROWS) < LABELLED, np.arange(ROWS) % 2, -1)


def brought(name, signal, x, y, **more):
    """Imported arrays; bytes are taken for values, and rows without any value of a channel are filled in."""
    kind, missing = ("tokens", "refuse") if signal == "tokens" else ("values", "fill")
    import_arrays(name, x, y, options=ImportOptions(kind=kind, missing=missing), **more)
    return Imported(name)


def rows_of(task):
    """(ROWS,) whether a row is trained on, told by what the rows before are made of."""
    train = np.zeros(ROWS, dtype=bool)
    train[task.load("train").starts[0].numpy() // task.form.length] = True
    return train


def with_others(y, train):
    """The same labels of training; of other rows others, where there are some."""
    other = y.copy()
    rows = np.flatnonzero(~train & np.isfinite(y))
    other[rows] = 1e3 + 50 * y[rows]
    return other


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("signal", SIGNALS)
def test_an_import_shows_training_nothing_of_val_and_test(signal, random):
    x, y = inputs(signal, random), numbers(random)
    split = np.where(np.arange(ROWS) < LABELLED, np.arange(ROWS) % 3, 0)
    train = split == 0
    task = brought("before", signal, x, y, split=split)
    after = brought("after", signal, spoiled(x, train), with_others(y, train), split=split)
    assert seen(after) == seen(task)
    assert after.version() != task.version()
    verify(after._file()[0])
    for each in SPLITS:  # what training does not know can still be read
        examples = after.load(each)
        if isinstance(after.form.signal, Tokens):
            assert int(examples.batch(torch.arange(len(examples))).inputs.max()) < after.form.signal.vocab


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("target", ["classes", "reals"])
@pytest.mark.parametrize("signal", SIGNALS)
def test_a_fold_shows_training_nothing_of_its_val_and_test(signal, target, random):
    x, groups = inputs(signal, random), np.arange(ROWS) % 9
    y = classes() if target == "classes" else numbers(random)
    folds = brought("before", signal, x, y, groups=groups).with_folds(FOLDS).parts()
    for number, fold in enumerate(folds):
        train = rows_of(fold)
        assert 0 < train.sum() < ROWS
        others = y if target == "classes" else with_others(y, train)  # folds are balanced by class
        after = brought(f"after{number}", signal, spoiled(x, train), others, groups=groups)
        again = after.with_folds(FOLDS).parts()[number]
        assert (rows_of(again) == train).all()
        assert seen(again) == seen(fold)
    if signal in ("values", "channels", "holes"):
        assert len({fold.version() for fold in folds}) == FOLDS  # stages of one are not taken for another's


ESTIMATORS = {
    SequenceClassifier: lambda random: classes().astype(object),
    SequenceRegressor: numbers,
    MultilabelClassifier: lambda random: random.randint(0, 2, (ROWS, 3)),
    PositionClassifier: lambda random: random.randint(0, 3, (ROWS, LENGTH)),
}


def labels_of(estimator, random):
    y = ESTIMATORS[estimator](random)
    if estimator is SequenceClassifier:
        y[y == -1] = None
    return y


def other_labels(estimator, y, train):
    """Other labels where they are not trained on, of the same classes; classes decide who goes where."""
    if estimator is SequenceClassifier:
        return y
    if estimator is SequenceRegressor:
        return with_others(y, train)
    other = y.copy()
    rows = np.flatnonzero(~train)
    other[rows] = y.max() - y[rows]
    return other


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("signal", ["values", "holes", "tokens"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_comparison_of_given_data_shows_training_nothing_of_val_and_test(
    estimator, signal, grouped, random
):
    x, y = inputs(signal, random), labels_of(estimator, random)
    groups = np.arange(ROWS) % 12 if grouped else None
    weights = random.rand(ROWS) + 0.5
    made = estimator(signal="tokens" if signal == "tokens" else "auto")

    def divided(x, y, weights):
        return with_test_split(made._as_task(x, y, groups, weights), 0)

    task = divided(x, y, weights)
    train = rows_of(task)
    assert 0 < train.sum() < ROWS
    if estimator is SequenceRegressor:
        assert train.sum() > (train & np.isfinite(y)).sum() > 0
    after = divided(spoiled(x, train), other_labels(estimator, y, train), np.where(train, weights, 9.0))
    assert (rows_of(after) == train).all()
    assert seen(after) == seen(task)
    if grouped:
        assert not set(groups[train]) & set(groups[~train])


@pytest.mark.parametrize("estimator", [SequenceClassifier, SequenceRegressor, SequencePretrainer])
def test_fitting_shows_training_no_value_of_what_is_held_back(estimator, random):
    x = inputs("holes", random)
    y = None if estimator is SequencePretrainer else labels_of(estimator, random)
    first, second = estimator(), estimator()  # which hold the data
    task = first._as_task(x, y)
    train = rows_of(task)
    assert 0 < train.sum() < ROWS
    others = None if y is None else other_labels(estimator, y, train)
    after = second._as_task(spoiled(x, train), others)
    assert seen(after) == seen(task)


@pytest.mark.usefixtures("home")
def test_labels_that_are_left_out_scale_no_target(random):
    y = random.randn(ROWS)
    brought("mine", "values", inputs("values", random), y)
    task = Imported("mine", labels=10)
    kept = task.load("train").targets
    kept = kept[kept.isfinite()].double()
    assert len(kept) == 10
    assert task.form.target.centre == pytest.approx(float(kept.mean()))
    assert task.form.target.spread == pytest.approx(float(kept.std(correction=0)))
    assert task.version() != Imported("mine").version() == Imported("mine", longest=5).version()
