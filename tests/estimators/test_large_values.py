"""Values and targets far from zero that vary little: epoch seconds, pressures, high levels."""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from selfpretrain import load_task
from selfpretrain.data.importing.importer import import_arrays, import_to_memory, plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.errors import DataError
from selfpretrain.estimators import files
from selfpretrain.estimators.models import SequenceClassifier, SequencePretrainer, SequenceRegressor

N, L = 40, 8
SMALL = {"scale": "smoke", "mixer": "attention", "device": "cpu", "objective": None}
LEVELS = (1e5, -1e12)


RANDOM = np.random.default_rng(0)
# In steps of 1/256, which float64 keeps at any of the levels.
X = np.rint(RANDOM.normal(size=(N, L)) * 256) / 256 + np.arange(N)[:, None] % 2
CLASSES = np.arange(N) % 2
REALS = X[:, 0]


@pytest.fixture(scope="module")
def small():
    return SequenceClassifier(**SMALL).fit(X, CLASSES), SequenceRegressor(**SMALL).fit(X, REALS)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_changes_no_prediction(level, small, tmp_path):
    classifier = SequenceClassifier(**SMALL).fit(X + level, CLASSES)
    np.testing.assert_allclose(classifier.predict_proba(X + level), small[0].predict_proba(X), atol=1e-3)
    loaded = SequenceClassifier.load(classifier.save(tmp_path / "model"))
    expected = classifier.predict_proba(X + level)
    assert (loaded.predict_proba(X + level) == expected).all()
    assert (loaded.predict_proba(X[:3] + level) == classifier.predict_proba(X[:3] + level)).all()
    # Matrix products of other sizes round differently on some processors.
    np.testing.assert_allclose(loaded.predict_proba(X[:3] + level), expected[:3], atol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_of_the_targets_comes_back(level, small, tmp_path):
    model = SequenceRegressor(**SMALL).fit(X + level, REALS + level)
    np.testing.assert_allclose(model.predict(X + level) - level, small[1].predict(X), atol=2e-3)
    assert model.score(X + level, REALS + level) == pytest.approx(small[1].score(X, REALS), abs=2e-3)
    scores = model.evaluate(X + level, REALS + level, draws=10)
    assert scores["R2"].value == pytest.approx(model.score(X + level, REALS + level), abs=1e-3)
    loaded = SequenceRegressor.load(model.save(tmp_path / "model"))
    assert (loaded.predict(X + level) == model.predict(X + level)).all()


def test_every_channel_has_a_level_of_its_own(small):
    two = np.stack([X, X[::-1]], axis=2)
    expected = SequenceClassifier(**SMALL).fit(two, CLASSES).predict_proba(two)
    levels = [0.0, 1e9]
    model = SequenceClassifier(**SMALL).fit(two + levels, CLASSES)
    np.testing.assert_allclose(model.predict_proba(list(two + levels)), expected, atol=1e-3)


ORDINARY = {
    "normal": X,
    "temperatures in K": 290 + X,
    "a constant channel": np.stack([X, np.full_like(X, 1000.1)], axis=2),
    "wide": np.where(X > 1, 1e9, X),
    "large": X * 1e9,
    "shares": np.abs(X) / 1e9,
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_values_keep_their_bits(kind, home):
    values = ORDINARY[kind]
    y = values.reshape(N, -1)[:, 0]
    made = import_arrays("mine", values, y, options=ImportOptions(target="reals"))
    assert (made.whole.flat.numpy().reshape(-1) == values.astype(np.float32).reshape(-1)).all()
    assert (made.whole.targets.numpy() == y.astype(np.float32)).all()


@pytest.mark.parametrize("level", LEVELS)
def test_distinct_sequences_are_no_copies(level, home):
    made = import_arrays("mine", X / 16 + level, CLASSES)
    notes = " ".join(made.meta["about"]["notes"])
    assert "copies" not in notes and "share half" not in notes and "rounded" not in notes
    assert "values are counted from" in notes and "float32 would round them" in notes
    assert len(np.unique(made.whole.flat)) == len(np.unique(X))


def test_whole_numbers_stay_whole_and_small(home):
    seconds = 1_700_000_000 + np.rint(X * 100).astype(np.int64)
    made = import_arrays("mine", seconds, CLASSES, options=ImportOptions(kind="values"))
    assert made.whole.flat.numpy().dtype == np.int16
    found = made.whole.flat.numpy().astype(np.int64).reshape(N, L)
    assert (found - found[0, 0] == seconds - seconds[0, 0]).all()


def test_files_of_large_values_are_fitted_and_predicted_as_in_python(tmp_path):
    table = {f"t{i}": X[:, i] + 1e9 for i in range(L)} | {"y": REALS + 1e9}
    csv, npz, parquet = (tmp_path / f"data.{kind}" for kind in ("csv", "npz", "parquet"))
    rows = [",".join(map(repr, row)) for row in np.stack(list(table.values()), axis=1).tolist()]
    csv.write_text("\n".join([",".join(table), *rows]) + "\n")
    np.savez(npz, x=X + 1e9, y=REALS + 1e9)
    pq.write_table(pa.table(table), parquet)
    read = ImportOptions(target="reals", label="y", sequence="t*")
    model = files.fit(str(csv), read, SMALL | {"runs": tmp_path / "runs"})
    expected = model.predict(X + 1e9)
    assert np.abs(expected - 1e9).max() < 10 and np.ptp(expected) > 0
    for path in (csv, npz, parquet):
        made = import_to_memory(
            plan_import(str(path), replace(read, sequence="", label="") if path == npz else read)
        )
        assert (made.whole.flat == model.task_.data().whole.flat).all()
        assert (made.whole.targets == model.task_.data().whole.targets).all()
        found = model.examples(files.usable(model, files.read_new(path, model), skip_bad=False))
        np.testing.assert_allclose(model.table(found)["prediction"], expected, rtol=1e-15)
    assert model.score(model.task_) == pytest.approx(model.scores_["test"]["R2"]["value"])


def test_a_model_scores_imported_data_of_another_level(home):
    import_arrays("low", X + 1e9, REALS + 5e8)
    import_arrays("high", X + 1e9 + 2, REALS + 5e8 + 1)
    model = SequenceRegressor(**SMALL).fit("low")
    task = load_task("high")
    test = task.data().split == 2
    expected = model.score(X[test] + 1e9 + 2, REALS[test] + 5e8 + 1)
    assert model.score(task) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("large", [1e39, -1e300])
def test_targets_beyond_float32_are_one_line(large):
    with pytest.raises(DataError, match=r"y\[3\] is .*, which is beyond float32; give y in larger units"):
        SequenceRegressor(**SMALL).fit(X, np.where(np.arange(N) == 3, large, REALS))


def test_sequences_that_differ_too_much_in_level_are_warned_of(home):
    apart = X + 1e9 * np.arange(N)[:, None]
    with pytest.warns(UserWarning, match="40 of 40 sequences vary less than float32 resolves"):
        SequencePretrainer(scale="smoke")._as_task(apart + 1e9, None)
    notes = import_arrays("mine", apart + 1e9, CLASSES).meta["about"]["notes"]
    assert any("40 sequences vary less than float32 resolves" in note for note in notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SequencePretrainer(scale="smoke")._as_task(X + 1e9, None)
