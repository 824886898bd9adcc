"""Two settings of an estimator at once, of which each works alone."""

import pickle
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import toys
from selfpretrain import SequenceClassifier, SequencePretrainer, import_arrays
from selfpretrain.cli import app
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.importing.plan import ImportPlan, at_position, numbered
from selfpretrain.data.sequences import Sequences
from selfpretrain.errors import DataError, NotFinite, SpecError
from selfpretrain.estimators import base, files, models
from selfpretrain.objectives.classify import Classify
from task_results import cell, task_results

pytestmark = pytest.mark.usefixtures("rough_flops")

RANDOM = np.random.default_rng(0)
SMOKE = {"scale": "smoke", "mixer": "attention"}


def curves(n=60, length=12):
    """Waves and their halves, which anything tells apart."""
    y = np.arange(n) % 2
    return np.sin(np.arange(length)) * (1 + y[:, None]) + 0.01 * RANDOM.normal(size=(n, length)), y


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A classifier of curves, from a brief training without simple methods."""
    model = SequenceClassifier(**SMOKE, model="network", runs=tmp_path_factory.mktemp("runs"))
    return model.fit(*curves())


def test_a_comparison_has_the_weights_of_classes_and_the_smoothing(monkeypatch):
    requests = []

    class Asked(Exception):
        pass

    def ask(request, workspace):
        requests.append(request)
        raise Asked

    monkeypatch.setattr(base, "run_request", ask)
    with pytest.raises(Asked):
        SequenceClassifier(mixer="attention", class_weight={1: 50.0}, label_smoothing=0.3).compare(*curves())
    ((arms,),) = requests[0].study.architectures
    wanted = Classify(weights=(1.0, 50.0), smoothing=0.3)
    assert arms.finetune.objective == arms.scratch.objective == wanted != arms.pretrain.objective


def test_a_network_that_was_not_trained_is_not_calibrated_and_no_candidate():
    X, y = curves(240)
    model = SequenceClassifier(mixer="attention", calibrate=True).fit(X, y)
    assert not model.trained_ and model.predictor_.temperature == 1.0
    assert not [row for row in model.leaderboard_ if "attention" in row["name"]]
    assert "the network" not in model.kept_


def test_no_fold_is_taken_for_the_model_of_a_cell(monkeypatch, tmp_path):
    cells = [cell("s4d", "SPT", 0, 0.5, fold=fold) for fold in range(4)]
    plan = SimpleNamespace(tasks=(task_results(cells),))
    monkeypatch.setattr(models, "read_plan", lambda folder: plan)
    with pytest.raises(SpecError, match="s4d/SPT, seed 0 has 4 networks, one per fold"):
        models._last_stage(tmp_path, ("", "s4d", "SPT", 0))
    plan.tasks = (task_results(cells[:1]),)
    assert models._last_stage(tmp_path, ("", "s4d", "SPT", 0)) == "stages/s4d-SPT-0"


def test_text_is_refused_by_a_model_of_other_symbols(tmp_path):
    model = SequenceClassifier(**SMOKE, model="network", runs=tmp_path).fit(toys.Majority())
    assert model.data_facts_["signal"] == "tokens"
    with pytest.raises(DataError, match="not text"):
        model.predict(["\x00\x01\x01", "\x01\x00\x00"])


def test_ascii_is_text(tmp_path):
    model = SequenceClassifier(**SMOKE, model="network", runs=tmp_path).fit("stdlib")
    assert model.data_facts_["signal"] == "text"
    assert len(model.predict(["import os", "def main():"])) == 2


def asked(values):
    """Sequences as they are read from an array of a file."""
    flat = np.concatenate(values).astype(np.float64)[:, None]
    found = Sequences("values", flat, np.array(list(map(len, values))), np.arange(len(values)))
    return ImportPlan(found, ImportOptions(), numbered, at_position, others={"row": list(range(len(values)))})


def test_rows_without_a_finite_answer_are_left_empty_with_their_reason(fitted, tmp_path, monkeypatch):
    probabilities = type(fitted.predictor_).probabilities

    def unsound(predictor, data):
        found = probabilities(predictor, data)
        far = [float(data.sequence(i).max()) > 100 for i in range(len(data))]
        found[np.array(far)] = np.nan
        return found

    monkeypatch.setattr(type(fitted.predictor_), "probabilities", unsound)
    X, _ = curves(4)
    X[2] *= 1000
    new = asked(list(X))
    with pytest.raises(DataError, match=r"1 of 4 sequences cannot be used: row 3: the model gives no finite"):
        files.predict(fitted, new, tmp_path / "out.csv", skip_bad=False)
    assert files.predict(fitted, new, tmp_path / "out.csv", skip_bad=True) == 1
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.split(",")[1] == "" for line in lines[1:]] == [False, False, True, False]
    assert "no finite number" in lines[3] and "no finite" not in lines[4]
    with pytest.raises(NotFinite) as caught:
        fitted.predict_proba(X)
    assert pickle.loads(pickle.dumps(caught.value)).places == [2]


def test_columns_of_arrow_tables_have_names(tmp_path):
    X, y = curves()
    columns = {f"t{at}": column for at, column in enumerate(X.T)}
    model = SequenceClassifier(**SMOKE, model="network", runs=tmp_path).fit(pa.table(columns), y)
    found = model.predict_proba(pa.table(columns))
    assert np.array_equal(found, model.predict_proba(pa.table(columns).select(list(columns))))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pa.table(dict(reversed(columns.items()))))


def test_a_share_for_validation_is_refused_where_data_are_divided():
    with pytest.raises(SpecError, match="validation_fraction divides arrays"):
        SequenceClassifier(validation_fraction=0.5, **SMOKE).fit("digits")


def test_a_task_after_arrays_leaves_no_features_behind(tmp_path):
    model = SequenceClassifier(**SMOKE, model="network", runs=tmp_path).fit(*curves())
    assert model.n_features_in_ == 12
    model.fit("digits")
    assert len(model.predict(np.zeros((2, 64)))) == 2


def test_weights_that_leave_one_class_are_refused():
    X, y = curves()
    with pytest.raises(SpecError, match="y holds one class where weights are not 0"):
        SequenceClassifier(**SMOKE).fit(X, y, sample_weight=(y == 0).astype(float))


def test_symbols_that_training_lacks_are_unknown_by_the_name_of_the_data_too(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    rows = [[1 + i % 2, 3, 4, 1 + i % 3] for i in range(32)]
    rows[30] = [9, 3, 4, 9]  # in test alone
    split = np.array(["train"] * 24 + ["val"] * 4 + ["test"] * 4)
    import_arrays("numbers", np.array(rows), np.arange(32) % 2, split=split)
    model = files.fit("numbers", ImportOptions(), SMOKE | {"model": "network", "runs": tmp_path / "runs"})
    of_task = model._test_split(base.load_task("numbers"))
    of_rows = model.examples(model.readable(np.array(rows[28:])).sound())
    assert [of_task.sequence(i).tolist() for i in range(4)] == [
        of_rows.sequence(i).tolist() for i in range(4)
    ]


def test_vectors_are_those_of_one_network():
    with pytest.raises(SpecError, match="n_members: embeddings are those of one network"):
        SequencePretrainer(n_members=2).fit(np.zeros((30, 8)))


def test_what_longer_sequences_become_is_kept_unless_it_is_said(fitted, tmp_path):
    refusing = SequenceClassifier.load(fitted.save(tmp_path / "fitted"))
    refusing.longer = "refuse"
    refusing.save(tmp_path / "model")
    np.save(tmp_path / "new.npy", np.zeros((2, 20)))
    flags = ["predict", *(str(tmp_path / name) for name in ("model", "new.npy"))]
    flags += ["-o", str(tmp_path / "out.csv")]
    assert app.run(flags) == 2
    assert app.run([*flags, "--longer", "cut"]) == 0


def test_the_folder_that_a_fit_has_made_is_not_its_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    import_arrays("visits", *curves())
    (tmp_path / "visits").mkdir()  # by a fit that was killed
    model = files.fit("visits", ImportOptions(), SMOKE | {"runs": tmp_path / "runs"}, tmp_path / "visits")
    assert model.task_.form.length == 12
