"""Commands ``fit``, ``predict`` and ``model`` as people use them: answers in order, mistakes in one line."""

import csv
import json
from itertools import product

import numpy as np
import pytest

from releases import write_wav
from selfpretrain import SequenceClassifier
from selfpretrain.cli import app
from selfpretrain.estimators import models
from selfpretrain.tasks.imported import make_waves

pytestmark = pytest.mark.usefixtures("rough_flops")

POSITIONS = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table to learn from, one to be asked about with two bad rows, and a model of the first."""
    folder = tmp_path_factory.mktemp("models")
    write(folder / "train.csv", 90, 0)
    write(folder / "new.csv", 20, 1, bad=True)
    write(folder / "good.csv", 20, 1)
    arguments = ("--label", "shape", "--group", "patient", "--sequence", "t*", "--scale", "smoke", "-q")
    paths = ("fit", folder / "train.csv", "-o", folder / "model", "--runs", folder / "runs")
    assert app.run(list(map(str, (*paths, *arguments)))) == 0
    return folder


def write(path, number, seed, bad=False):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["name", "patient", "shape", *(f"t{i}" for i in range(POSITIONS))])
        for i, (x, shape) in enumerate(zip(*make_waves(number, seed), strict=True)):
            row = [f"row {i}", i // 5, shape, *x[:POSITIONS, 0]]
            if bad and i == 3:
                row[5] = "oops"
            if bad and i == 5:
                row[3:] = [""] * POSITIONS
            table.writerow(row)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_recordings_that_cannot_be_read_are_left_out_as_the_error_says(cli, tmp_path):
    for name, at in product(("low", "high"), range(10)):
        (tmp_path / "set" / name).mkdir(parents=True, exist_ok=True)
        write_wav(tmp_path / "set" / name / f"{at}.wav", np.full(400, at, np.int16), 8000)
    whole = (tmp_path / "set/low/3.wav").read_bytes()
    (tmp_path / "set/low/3.wav").write_bytes(whole[:-300])
    fit = ("fit", tmp_path / "set", "-o", tmp_path / "model", "--runs", tmp_path / "runs", "--scale", "smoke")
    code, _, err = cli(*fit)
    assert code == 2 and "low/3.wav cannot be read" in err and "; --skip-bad leaves such files out" in err
    code, _, err = cli(*fit, "--skip-bad")
    assert code == 0 and "left out, as they cannot be read: 1 of 20 files" in err


def test_files_without_a_header_for_train_and_test_are_read_in_their_encoding(cli, tmp_path):
    words = ["größe", "bär", "tür", "maß", "hand", "kind", "wort", "lied"]
    for name, number in (("train", 40), ("test", 16)):
        rows = "".join(f"{'ab'[i % 2]},{words[i % 8]}\n" for i in range(number))
        (tmp_path / f"{name}.csv").write_text(rows, "cp850")
    how = ("--no-header", "--encoding", "cp850", "--test", tmp_path / "test.csv")
    folder = tmp_path / "model"
    code, _, err = cli("fit", tmp_path / "train.csv", *how, "--scale", "smoke", "-o", folder)
    assert code == 0 and "c2" in err
    told = json.loads((folder / "model.json").read_text())
    assert told["data"]["train"] + told["data"]["val"] == 40  # all of the first file
    assert (told["reading"]["encoding"], told["reading"]["header"]) == ("cp850", False)
    code, _, err = cli("predict", folder, tmp_path / "test.csv", "-o", tmp_path / "out.csv")
    assert code == 0, err
    assert [row["c1"] for row in rows_of(tmp_path / "out.csv")] == ["a", "b"] * 8
    code, _, err = cli("fit", "digits", "--encoding", "cp850", "-o", tmp_path / "other")
    assert code == 2 and "the task digits: --encoding is for" in err


def test_the_card_tells_data_scores_recipe_and_how_sure_a_model_is(cli, folder, tmp_path):
    code, out, _ = cli("model", "show", folder / "model")
    assert code == 0
    assert "sine, square" in out and "balanced accuracy" in out and "masked, then" in out
    assert "](reliability.svg)" in (folder / "model" / "README.md").read_text()
    picture = (folder / "model" / "reliability.svg").read_text()
    assert "confidence" in picture and "expected calibration error" in picture
    again = SequenceClassifier.load(folder / "model").save(tmp_path / "again")
    assert (again / "reliability.svg").read_text() == picture
    unscored = SequenceClassifier(scale="smoke").fit(*make_waves(40, 0)).save(tmp_path / "unscored")
    assert "reliability" not in (unscored / "README.md").read_text()
    assert not (unscored / "reliability.svg").exists()


def test_answers_are_those_of_python_in_the_order_of_the_file(cli, folder):
    assert cli("predict", folder / "model", folder / "good.csv", "-o", folder / "out.csv")[0] == 0
    found, asked = rows_of(folder / "out.csv"), rows_of(folder / "good.csv")
    assert [row["name"] for row in found] == [row["name"] for row in asked]
    model = SequenceClassifier.load(folder / "model")
    x = np.array([[float(row[f"t{i}"]) for i in range(POSITIONS)] for row in asked])
    probabilities = np.array([[float(row["p(sine)"]), float(row["p(square)"])] for row in found])
    assert (probabilities == model.predict_proba(list(x))).all()
    assert [row["prediction"] for row in found] == model.predict(list(x)).tolist()


def test_bad_rows_are_named_and_the_others_answered_if_asked(cli, folder):
    code, _, err = cli("predict", folder / "model", folder / "new.csv", "-o", folder / "no.csv")
    assert code == 2 and not (folder / "no.csv").exists()
    assert "2 of 20 sequences cannot be used: new.csv, line 5: column 't2' holds 'oops'" in err
    arguments = ("predict", folder / "model", folder / "new.csv", "-o", folder / "some.csv", "--skip-bad")
    code, out, _ = cli(*arguments)
    assert code == 0 and "2 without an answer" in out
    found = rows_of(folder / "some.csv")
    assert [i for i, row in enumerate(found) if row["problem"]] == [3, 5]
    assert found[3]["prediction"] == "" and found[4]["prediction"] in ("sine", "square")
    out = folder / "vectors.npy"
    assert cli("model", "embed", folder / "model", folder / "new.csv", "-o", out, "--skip-bad")[0] == 0
    vectors = np.load(out)
    assert vectors.shape == (20, 16)
    assert np.isnan(vectors).all(1).nonzero()[0].tolist() == [3, 5]


def test_an_arm_of_a_comparison_becomes_a_model(cli, compared, tmp_path):
    experiment = next(compared.runs.glob("compare-*"))
    take = ("model", "take", experiment, "--row", "attention", "-o", tmp_path / "model", "--column")
    assert cli(*take, "SPT")[0] == 0
    model = SequenceClassifier.load(tmp_path / "model")
    results = [json.loads(path.read_text()) for path in (compared.runs / "stages").glob("*/result.json")]
    (ours,) = [r for r in results if len(r["recipe"]["stages"]) == 2]
    assert model.score("digits") == ours["scores"]["test"]["accuracy"]
    code, _, err = cli(*take, "SPS")
    assert code == 2 and "no cell attention/SPS, seed 0; did you mean 'digits: attention/SPT, seed 0'" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("predict", "nothing", "new.csv", "-o", "o.csv"), 1, "nothing holds no model: there is no model"),
        (("predict", "{model}", "none.csv", "-o", "o.csv"), 2, "there is no none.csv"),
        (("fit", "digit", "-o", "m"), 2, "did you mean 'digits'?"),
        (("fit", "none.csv", "-o", "m"), 2, "there is no none.csv"),
        (("fit", "digits", "-o", "m", "-s", "poling=max"), 2, "no setting 'poling'; did you mean 'pooling'?"),
        (("fit", "digits", "-o", "m", "-s", "pooling=first"), 2, "'auto', or 'mean', 'max', 'last'"),
        (("fit", "digits", "-o", "m", "-s", "dropout=2"), 2, "less than 1"),
        (("fit", "digits", "-o", "m", "-s", "pooling"), 2, "write it as setting=value, e.g. pooling=max"),
        (("model", "export", "{model}", "-o", "m.pb"), 2, "m.pb: a model is exported to .onnx, or to .pt2"),
        (("model", "embed", "{model}", "{good}", "-o", "no/v.npy"), 1, "cannot write no/v.npy: No such file"),
        (("predict", "{model}", "{good}", "-o", "no/a.csv"), 1, "cannot write no/a.csv: No such file"),
        (
            ("fit", "digits", "-o", "file", "--scale", "smoke"),
            1,
            "a file is in the way; choose another place",
        ),
    ],
)
def test_mistakes_get_one_line(cli, folder, monkeypatch, tmp_path, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    paths = {"{model}": folder / "model", "{good}": folder / "good.csv"}
    found, _, err = cli(*(paths.get(argument, argument) for argument in arguments))
    assert (found, said in err) == (code, True), err
    assert "started" not in err  # no model is trained that has no place


def test_other_settings_are_given_by_name(cli, folder, tmp_path):
    more = ("-s", "pooling=max", "-s", "dropout=0.1", "--set", "width=24")
    train = (folder / "train.csv", "--label", "shape", "--sequence", "t*", "--scale", "smoke", "-q")
    assert cli("fit", *train, "-o", tmp_path / "model", "--runs", tmp_path / "runs", *more)[0] == 0
    network = SequenceClassifier.load(tmp_path / "model").predictor_.model
    assert (network.pooling, network.dropout, network.width) == ("max", 0.1, 24)


def test_a_warning_is_a_line_without_our_code(cli, folder, tmp_path):
    np.save(tmp_path / "long.npy", np.ones((2, 2 * POSITIONS)))
    code, _, err = cli("predict", folder / "model", tmp_path / "long.npy", "-o", tmp_path / "a.csv")
    assert code == 0
    assert err.startswith("note: 2 of 2 sequences are cut to the 24 positions") and ".py" not in err


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "has not finished; run the same command again"),
        (["result.json"], "has no weights; delete its result.json, and run again"),
        (["result.json", "restored.json"], "has no weights; run the study with --fresh"),
    ],
)
def test_an_arm_without_weights_is_told_how_to_get_them(files, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "_last_stage", lambda *arguments: "stage")
    (tmp_path / "stage").mkdir()
    for name in files:
        (tmp_path / "stage" / name).write_text("{}")
    arm = ["model", "take", str(tmp_path / "study"), "--row", "lru", "--column", "SPT", "-o", "model"]
    assert app.run(arm) == 1
    assert said in " ".join(capsys.readouterr().err.split())
