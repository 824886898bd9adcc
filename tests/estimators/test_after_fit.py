"""What becomes of a model after its fit: scores, files, other tasks, threads."""

import csv
import os
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from selfpretrain import PositionClassifier, SequenceClassifier, import_arrays, load_task
from selfpretrain.cli.app import run
from selfpretrain.errors import DataError, SpecError
from selfpretrain.estimators import base, files, leaderboard
from selfpretrain.estimators.scores import Score
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.masked import Masked

pytestmark = pytest.mark.usefixtures("rough_flops", "home")

RANDOM = np.random.default_rng(0)
SMOKE = {"scale": "smoke", "mixer": "attention", "model": "network"}
FLAGS = ["--scale", "smoke", "--model", "network", "--mixer", "attention", "--quiet"]


def curves(n=60, length=12, channels=None):
    """Waves and their halves, which anything tells apart."""
    y = np.arange(n) % 2
    x = np.sin(np.arange(length)) * (1 + y[:, None]) + 0.01 * RANDOM.normal(size=(n, length))
    return (x if channels is None else np.stack([x + k for k in range(channels)], axis=-1)), y


def write_table(path, split=False):
    x, y = curves(80)
    rows = [
        [*row, y[i], ("train", "val", "test")[max(i % 5 - 2, 0)]][: 14 if split else 13]
        for i, row in enumerate(x)
    ]
    names = [*(f"t{i}" for i in range(12)), "label", "split"][: 14 if split else 13]
    path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]))
    return path


def write_gaps(path, x, y):
    """A table of curves of which every third lacks its end."""
    x[::3, -2:] = np.nan
    rows = [[*("" if np.isnan(v) else v for v in row), y[i]] for i, row in enumerate(x)]
    names = [*(f"t{i}" for i in range(12)), "label"]
    path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_test_row_without_an_answer_costs_the_scores_and_not_the_model(here, capsys):
    path = write_table(here / "t.csv", split=True)
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.endswith("test"))
    lines[at] = "1e37," + lines[at].partition(",")[2]
    path.write_text("\n".join(lines))
    asked = ["fit", "t.csv", "--label", "label", "--split", "split", "--sequence", "t*", "-o", "m", *FLAGS]
    assert run(asked) == 0
    said = capsys.readouterr()
    assert "the test split is not scored: the model gives no finite number for 1 of" in " ".join(
        said.err.split()
    )
    assert said.out.endswith("\nmodel: m\n")
    assert "No scores on held-out test examples" in (here / "m" / "README.md").read_text()


def test_answers_do_not_take_the_place_of_the_sequences(here, capsys):
    write_table(here / "t.csv")
    assert run(["fit", "t.csv", "--label", "label", "--sequence", "t*", "-o", "m", *FLAGS]) == 0
    before = (here / "t.csv").read_text()
    (here / "more").mkdir()
    (here / "more" / "a.csv").write_text(before)
    for command, given, out in (
        (["predict"], "t.csv", "./t.csv"),
        (["model", "embed"], "t.csv", "t.csv"),
        (["predict"], "more", "more/a.csv"),
    ):
        assert run([*command, "m", given, "-o", out]) == 2
        assert "would replace the sequences" in " ".join(capsys.readouterr().err.split())
    assert (here / "t.csv").read_text() == (here / "more" / "a.csv").read_text() == before


def test_the_card_does_not_take_the_place_of_a_readme(here, capsys):
    write_table(here / "t.csv")
    (here / "mine").mkdir()
    (here / "mine" / "README.md").write_text("# my notes\n")
    assert run(["fit", "t.csv", "--label", "label", "--sequence", "t*", "-o", "mine", *FLAGS]) == 1
    assert "has a README.md" in " ".join(capsys.readouterr().err.split())
    assert (here / "mine" / "README.md").read_text() == "# my notes\n"


def test_a_model_is_not_put_into_its_data(here, capsys):
    (here / "d").mkdir()
    write_table(here / "d" / "t.csv")
    assert run(["fit", "d", "--label", "label", "--sequence", "t*", "-o", "./d", *FLAGS]) == 2
    assert "holds the data" in " ".join(capsys.readouterr().err.split())
    (here / "link").symlink_to(here / "d")
    assert run(["fit", "d", "--label", "label", "--sequence", "t*", "-o", "link", *FLAGS]) == 2
    assert [file.name for file in (here / "d").iterdir()] == ["t.csv"]


def test_a_task_of_another_form_is_refused_or_cut(here):
    x, y = curves()
    import_arrays("long", *curves(60, 20))
    import_arrays("wide", *curves(60, 12, channels=3))
    import_arrays("words", RANDOM.integers(0, 5, x.shape), y)
    model = SequenceClassifier(**SMOKE, runs=here, longer="refuse")
    import_arrays("short", x, y)
    model.fit("short")
    for name, said in (("wide", "has 3 channels, one of training 1 channel"), ("words", "has 5 symbols")):
        with pytest.raises(SpecError, match=said):
            model.score(name)
    with pytest.raises(DataError, match="longer than the 12 positions"):
        model.score("long")
    model.longer = "cut"
    with pytest.warns(UserWarning, match="are cut to the 12 positions"):
        assert np.isfinite(model.score("long"))


def test_ends_are_filled_alike_in_files_and_in_python(here):
    x, y = curves(60)
    write_gaps(here / "f.csv", x, y)
    assert (
        run(["fit", "f.csv", "--label", "label", "--sequence", "t*", "--missing", "fill", "-o", "m", *FLAGS])
        == 0
    )
    assert run(["predict", "m", "f.csv", "-o", "p.csv"]) == 0
    found = np.array([float(row["p(0)"]) for row in csv.DictReader((here / "p.csv").open())])
    np.testing.assert_allclose(SequenceClassifier.load(here / "m").predict_proba(x)[:, 0], found, atol=1e-6)


def test_channels_of_imported_data_have_their_names(here):
    rows = [
        f"{i},{t},{np.sin(t) * (1 + i % 2):.3f},{i % 3 + 100 * t},{'ab'[i % 2]}"
        for i in range(60)
        for t in range(8)
    ]
    (here / "l.csv").write_text("\n".join(["id,t,hr,bp,label", *rows]))
    long = ["--id", "id", "--time", "t", "--value", "hr,bp", "--label", "label"]
    assert run(["data", "import", "l.csv", "--name", "heart", *long, "--yes"]) == 0
    assert run(["fit", "heart", "-o", "m", *FLAGS]) == 0
    model = SequenceClassifier.load(here / "m")
    assert model.channels_ == ["hr", "bp"]
    assert run(["predict", "m", "l.csv", "-o", "p.csv"]) == 0


def test_fits_of_two_threads_wait_for_each_other(here, monkeypatch):
    x, y = curves()
    train, inside, most = SequenceClassifier._train, [], []

    def watched(self, *arguments):
        inside.append(1)
        time.sleep(0.2)
        most.append(len(inside))
        found = train(self, *arguments)
        inside.pop()
        return found

    monkeypatch.setattr(SequenceClassifier, "_train", watched)
    models = [SequenceClassifier(**SMOKE, runs=here, random_state=seed) for seed in (0, 1)]
    threads = [threading.Thread(target=model.fit, args=(x, y)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_process_that_is_forked_during_a_fit_can_fit():
    held, done = threading.Event(), threading.Event()

    def hold():
        with base.FITTING:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    child = os.fork()
    if not child:
        os._exit(0 if base.FITTING.acquire(timeout=5) else 1)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()


def test_the_container_that_is_set_holds_for_transform(here):
    x, y = curves()
    model = SequenceClassifier(**SMOKE, runs=here).fit(x, y).set_output(transform="polars")
    for transform, given in ((model.transform, (x,)), (model.fit_transform, (x, y))):
        with pytest.raises(ImportError, match="polars"):
            transform(*given)


def test_nothing_held_out_is_no_validation_split(here):
    x, y = curves(12)
    model = SequenceClassifier(mixer="attention", runs=here).fit(x, y)
    assert model.data_facts_["val"] == 0


def test_errors_in_small_units_have_digits():
    assert str(Score(4.6e-5, 4e-5, 0.5)) == "4.6e-05 (4e-05 to 0.500)"
    assert str(Score(0.0, -0.25, np.nan)) == "0.000 (-0.250 to nan)"


def test_probabilities_of_positions_are_written(here):
    x = RANDOM.normal(size=(40, 6)).astype(np.float32)
    model = PositionClassifier(**SMOKE, runs=here).fit(x, np.where(x > 0, "up", "down"))
    table = model.table(model._to_dataset(x[:3]))
    assert list(table) == ["prediction", "p(down)", "p(up)"]
    found = [[float(p) for p in cell.split()] for cell in table["p(up)"]]
    np.testing.assert_allclose(found, [p[:, 1] for p in model.predict_proba(x[:3])], rtol=1e-3)
    with pytest.raises(SpecError, match="y"):
        model.score(x)


def test_arrays_are_named_by_one_number(here):
    x, y = curves()
    model = SequenceClassifier(**SMOKE, runs=here).fit(x, y)
    x[3] = np.inf
    np.save(here / "new.npy", x)
    with pytest.raises(DataError, match="sequence 3: a value is infinite"):
        files.predict(model, files.read_new(here / "new.npy", model), here / "p.csv", False)


def test_equal_numbers_in_validation_are_no_warning(recwarn):
    equal = np.zeros(9)
    for other in (equal, RANDOM.normal(size=9)):
        leaderboard.errors_above("reals", (equal, RANDOM.normal(size=9)), (equal, other))
    assert not [each for each in recwarn if issubclass(each.category, RuntimeWarning)]


def test_a_rate_of_masking_is_used_or_refused(here):
    x, y = curves()
    import_arrays("waves", x, y)
    task = load_task("waves")
    for objective in ("masked", "spans", "replaced"):
        model = SequenceClassifier(objective=objective, mask_rate=0.6, mixer="attention")
        assert model._arms(task).pretrain.objective.rate == 0.6
    with pytest.raises(SpecError, match="pretraining with causal hides no share of positions"):
        SequenceClassifier(objective="causal", mask_rate=0.6, mixer="attention").fit(x, y)


def test_a_rate_of_masking_is_for_those_objectives_that_are_tried_and_have_one(here):
    x = RANDOM.integers(0, 6, (60, 12))
    model = SequenceClassifier(mask_rate=0.3, **SMOKE, signal="tokens", runs=here).fit(x, x[:, 0] % 2)
    task = model.task_
    tried = {model.with_variant(each)._arms(task).pretrain.objective for each in model.variants(task)}
    assert tried == {Causal(), Masked(rate=0.3)}


def test_imported_data_are_read_alike_in_python(here):
    x, y = curves(60)
    write_gaps(here / "f.csv", x, y)
    wide = ["--label", "label", "--sequence", "t*", "--missing", "fill"]
    assert run(["data", "import", "f.csv", "--name", "gaps", *wide, "--yes"]) == 0
    assert run(["fit", "gaps", "-o", "m", *FLAGS]) == 0
    here_fitted = SequenceClassifier(**SMOKE, runs=here / "runs").fit("gaps")
    loaded = SequenceClassifier.load(here / "m")
    frame = pa.table({f"t{i}": x[:, i] for i in range(12)})
    np.testing.assert_allclose(here_fitted.predict_proba(frame), loaded.predict_proba(frame), atol=1e-6)
    assert here_fitted.reading_ == loaded.reading_ and here_fitted.reading_["missing"] == "fill"
