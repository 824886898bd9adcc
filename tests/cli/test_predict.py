"""Predictions of folders of texts and recordings, long tables and arrays: read as in training."""

import csv
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import wavfile

from selfpretrain import SequenceClassifier
from selfpretrain.cli import app
from selfpretrain.data.importing.importer import import_to_memory, plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.errors import DataError
from selfpretrain.estimators.files import fit as fit_file
from selfpretrain.estimators.files import read_new
from selfpretrain.estimators.inputs import Alphabet
from selfpretrain.system.files import read_json, write_json

WORDS = {"cats": "a cat sat on a mat ", "dogs": "the dog dug up the log "}
pytestmark = pytest.mark.usefixtures("rough_flops")


def fit(cli, data, *more):
    made = data.parent / "model"
    smoke = ("--scale", "smoke", "-q", "--runs", data.parent / "runs")
    assert cli("fit", data, "-o", made, *smoke, *more)[0] == 0
    return made


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_texts_of_a_folder(cli, tmp_path):
    for kind, text in WORDS.items():
        for i in range(20):
            file = tmp_path / "train" / kind / f"{i}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text * 3 + str(i))
    model = fit(cli, tmp_path / "train")
    new = tmp_path / "new"
    (new / "more").mkdir(parents=True)
    (new / "b.txt").write_text("a cat and a dog")
    (new / "more" / "a.txt").write_text("the log")
    (new / "none.txt").write_text("")
    code, _, err = cli("predict", model, new, "-o", tmp_path / "out.csv")
    assert code == 2 and "used: none.txt: there is no sequence" in err
    assert cli("predict", model, new, "-o", tmp_path / "out.csv", "--skip-bad")[0] == 0
    found = rows_of(tmp_path / "out.csv")
    assert [row["file"] for row in found] == ["b.txt", "more/a.txt", "none.txt"]
    probabilities = SequenceClassifier.load(model).predict_proba(["a cat and a dog", "the log"])
    assert [[float(row["p(cats)"]), float(row["p(dogs)"])] for row in found[:2]] == probabilities.tolist()
    assert found[2]["prediction"] == ""
    assert cli("predict", model, new / "b.txt", "-o", tmp_path / "one.csv")[0] == 0
    assert rows_of(tmp_path / "one.csv")[0]["prediction"] == found[0]["prediction"]
    assert cli("model", "embed", model, new / "b.txt", "-o", tmp_path / "v.npy")[0] == 0
    assert np.load(tmp_path / "v.npy").shape == (1, 16)


def write_sound(file, frequency, rate=800, kind=np.int16):
    file.parent.mkdir(parents=True, exist_ok=True)
    wave = (8000 * np.sin(np.arange(60) * frequency)).astype(np.int16)
    wavfile.write(file, rate, wave if kind == np.int16 else (wave / 32768).astype(kind))


@pytest.mark.parametrize("options", [(), pytest.param(("--rate", "400"), marks=pytest.mark.slow)])
def test_recordings_of_a_folder(cli, tmp_path, options):
    folder = tmp_path / "train"
    for i in range(40):
        write_sound(folder / ("low", "high")[i % 2] / f"{i}.wav", (0.1, 0.9)[i % 2] + i / 400)
    model = fit(cli, folder, *options)
    for name, how in {"a": {}, "fast": {"rate": 1600}, "float": {"kind": np.float32}}.items():
        write_sound(tmp_path / "new" / f"{name}.wav", 0.3, **how)
    (tmp_path / "new" / "torn.wav").write_bytes(b"RIFF")
    assert cli("predict", model, tmp_path / "new", "-o", tmp_path / "out.csv", "--skip-bad")[0] == 0
    found = {row["file"]: row for row in rows_of(tmp_path / "out.csv")}
    assert found["a.wav"]["prediction"] in ("low", "high")
    low = [float(found[f"{name}.wav"]["p(low)"]) for name in ("a", "float")]
    assert low[0] == pytest.approx(low[1], abs=1e-5)
    assert "torn.wav" in found["torn.wav"]["problem"]
    if options:  # brought to one rate, and to one scale
        assert found["fast.wav"]["prediction"] in ("low", "high")
    else:
        assert "1600 samples per second, those of training 800" in found["fast.wav"]["problem"]
        sound = wavfile.read(tmp_path / "new" / "a.wav")[1][:, None]
        probabilities = SequenceClassifier.load(model).predict_proba([sound])[0]
        answers = [float(found["a.wav"][f"p({name})"]) for name in ("high", "low")]
        assert answers == pytest.approx(probabilities.tolist(), abs=1e-5)
    code, _, err = cli("predict", model, tmp_path / "out.csv", "-o", tmp_path / "no.csv")
    assert code == 2 and "the model takes recordings (.wav, .flac, .ogg" in err


def test_long_tables_and_arrays_with_padding(cli, tmp_path):
    random = np.random.RandomState(0)
    values = {f"p{i}": random.randn(6 + i % 3) + i % 2 for i in range(40)}

    def write(path, ids, label):
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["who", "when", "what", *(["state"] if label else [])])
            for name in ids:
                for at in random.permutation(len(values[name])):
                    out.writerow([name, at, values[name][at], *([int(name[1:]) % 2] if label else [])])

    write(tmp_path / "train.csv", values, True)
    write(tmp_path / "new.csv", ["p7", "p3", "p30"], False)
    told = ("--id", "who", "--time", "when", "--value", "what", "--label", "state")
    model = fit(cli, tmp_path / "train.csv", *told)
    made = SequenceClassifier.load(model)
    assert cli("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")[0] == 0
    found = rows_of(tmp_path / "out.csv")
    assert [row["who"] for row in found] == ["p3", "p30", "p7"]
    probabilities = made.predict_proba([values[row["who"]] for row in found])
    assert np.allclose([float(row["p(0)"]) for row in found], probabilities[:, 0])
    padded = np.zeros((2, 9), dtype=np.float32)
    padded[0, :7], padded[1, :6] = values["p7"], values["p3"]
    np.savez(tmp_path / "new.npz", x=padded, lengths=np.array([7, 6]))
    flat = np.concatenate([values["p7"], values["p3"]])
    np.savez(tmp_path / "flat.npz", x=flat, offsets=np.array([0, 7, 13]))
    for name in ("new", "flat"):
        assert cli("predict", model, tmp_path / f"{name}.npz", "-o", tmp_path / "o.csv")[0] == 0
        again = [float(row["p(0)"]) for row in rows_of(tmp_path / "o.csv")]
        assert np.allclose(again, [probabilities[2, 0], probabilities[0, 0]])


def write_events(path, rows, state=None):
    """A long table of shuffled rows; ``rows``: who -> names of events."""
    table = [[who, at, name] for who, names in rows.items() for at, name in enumerate(names)]
    np.random.RandomState(1).shuffle(table)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["who", "when", "what", *(["state"] if state else [])])
        out.writerows([*row, *([state(row[0])] if state else [])] for row in table)
    return path


EVENTS = ("cough", "41", "fever", "rest")
EVENT_OPTIONS = ("--id", "who", "--time", "when", "--value", "what", "--label", "state")


@pytest.fixture(scope="module")
def of_visits(tmp_path_factory):
    """A model of named events, one of which is a number."""
    random = np.random.RandomState(0)
    rows = {f"p{i}": random.choice(EVENTS[i % 2 :], 6 + i % 3).tolist() for i in range(40)}
    folder = tmp_path_factory.mktemp("visits")
    train = write_events(folder / "train.csv", rows, lambda who: ("ill", "well")[int(who[1:]) % 2])
    return fit(lambda *words: (app.run([str(word) for word in words]), "", ""), train, *EVENT_OPTIONS)


@pytest.fixture
def visits(of_visits, tmp_path):
    """A copy of that model, to do with as a test likes."""
    return shutil.copytree(of_visits, tmp_path / "model")


def test_a_model_of_named_events_takes_a_long_table_of_them(cli, visits, tmp_path):
    made = SequenceClassifier.load(visits)
    names = made.reading_["events"]
    assert names == sorted(EVENTS) == read_json(visits / "model.json")["reading"]["events"]
    rows = {"b": ["rest", "41", "rest"], "a": ["fever"] * 7, "c": ["41", "41"]}
    expected = made.predict_proba([[names.index(name) for name in rows[who]] for who in "abc"])
    out = tmp_path / "out.csv"
    assert cli("predict", visits, write_events(tmp_path / "new.csv", rows), "-o", out)[0] == 0
    found = rows_of(out)
    assert [row["who"] for row in found] == ["a", "b", "c"]
    assert [[float(row["p(ill)"]), float(row["p(well)"])] for row in found] == expected.tolist()
    # A table of fewer events has the same numbers, also if all of its names look like numbers.
    few = write_events(tmp_path / "few.csv", {"c": rows["c"]})
    assert cli("predict", visits, few, "-o", out)[0] == 0
    assert float(rows_of(out)[0]["p(ill)"]) == pytest.approx(expected[2, 0])
    assert cli("model", "embed", visits, few, "-o", tmp_path / "v.npy")[0] == 0


def test_an_event_that_training_lacks_is_an_error_that_names_it_if_no_symbol_is_unknown(
    cli, visits, tmp_path
):
    path = visits / "model.json"
    write_json(path, read_json(path) | {"alphabet": None})
    new = write_events(tmp_path / "new.csv", {"a": ["rest", "surgery", "flu"], "b": ["rest", "41"]})
    out = tmp_path / "out.csv"
    code, _, err = cli("predict", visits, new, "-o", out)
    assert code == 2 and not out.exists()
    assert "used: id 'a': event 'surgery' is not one of the 4 of training" in err and "--skip-bad" in err
    assert cli("predict", visits, new, "-o", out, "--skip-bad")[0] == 0
    first, second = rows_of(out)
    assert (first["who"], first["prediction"]) == ("a", "") and "'surgery'" in first["problem"]
    assert second["prediction"] in ("ill", "well") and second["problem"] == ""
    alone = write_events(tmp_path / "alone.csv", {"a": ["surgery"]})
    assert cli("predict", visits, alone, "-o", out, "--skip-bad")[0] == 2
    empty = write_events(tmp_path / "empty.csv", {"a": ["rest", ""]})
    code, _, err = cli("predict", visits, empty, "-o", out)
    assert code == 2 and "1 empty cells; every event needs a name" in err and "empty.csv, line 3" in err


def test_an_event_that_training_lacks_is_the_unknown_symbol_if_there_is_one(cli, visits, tmp_path):
    made = SequenceClassifier.load(visits)
    assert replace(made.alphabet_, seen=()) == Alphabet(len(EVENTS) + 3, shift=3, unknown=0, begin=1, end=2)
    path = write_events(tmp_path / "new.csv", {"a": ["41", "surgery"], "b": ["rest"]})
    with pytest.warns(
        UserWarning, match="1 of 2 sequences hold events that training lacks, such as 'surgery'"
    ):
        new = read_new(path, made)
    assert new.sequences.wrong == {}
    first, rest = (sorted(EVENTS).index(name) + 3 for name in ("41", "rest"))
    assert made.examples(made.readable(new.sequences)).flat.tolist() == [1, first, 0, 2, 1, rest, 2]
    out = tmp_path / "out.csv"
    code, _, err = cli("predict", visits, path, "-o", out)
    assert code == 0 and "such as 'surgery' in id 'a'; they are unknown" in err
    assert [row["prediction"] in ("ill", "well") for row in rows_of(out)] == [True, True]


def test_models_without_names_of_events_still_load(cli, visits, tmp_path):
    path = visits / "model.json"
    content = read_json(path)
    write_json(path, content | {"reading": None})  # as they were saved before
    new = write_events(tmp_path / "new.csv", {"a": ["rest", "41"]})
    code, _, err = cli("predict", visits, new, "-o", tmp_path / "out.csv")
    assert code == 2 and "does not know how such a file is to be read; give an .npy file" in err
    np.save(tmp_path / "new.npy", np.array([[3, 0]]))
    assert cli("predict", visits, tmp_path / "new.npy", "-o", tmp_path / "out.csv")[0] == 0
    # A model of numbers says so of words, and gives them no numbers of its own.
    reading = {name: value for name, value in content["reading"].items() if name != "events"}
    write_json(path, content | {"reading": reading})
    with pytest.raises(DataError, match="column 'what' holds 'rest', not a number"):
        read_new(new, SequenceClassifier.load(visits))
    numbers = read_new(write_events(tmp_path / "n.csv", {"a": ["3", "0"]}), SequenceClassifier.load(visits))
    assert numbers.sequences.flat.tolist() == [3, 0]


def test_a_test_table_of_fewer_events_has_the_numbers_of_training(tmp_path):
    random = np.random.RandomState(0)
    rows = {f"p{i}": random.choice(EVENTS[i % 2 :], 6 + i % 3).tolist() for i in range(40)}
    late = {f"q{i}": ["rest", "fever"] * (2 + i % 3) for i in range(10)}

    def state(who):
        return ("ill", "well")[int(who[1:]) % 2]

    train, test = (
        write_events(tmp_path / f"{n}.csv", r, state) for n, r in (("train", rows), ("test", late))
    )
    options = ImportOptions(id="who", time="when", value="what", label="state", test=str(test))
    plan = plan_import(str(train), options)
    of_test = import_to_memory(plan).examples("test")
    fever, rest = sorted(EVENTS).index("fever"), sorted(EVENTS).index("rest")
    assert set(np.concatenate([of_test.sequence(i) for i in range(len(of_test))]).tolist()) == {fever, rest}


def write_curves(path, separator, decimal, rows=40, more=()):
    values = np.random.RandomState(0).randn(rows, 4).round(3) + np.arange(rows)[:, None] % 2
    lines = [
        separator.join([*(f"{v:.3f}".replace(".", decimal) for v in row), "ab"[i % 2]])
        for i, row in enumerate(values)
    ]
    path.write_text("\n".join([separator.join(["t0", "t1", "t2", "t3", "kind"]), *lines, *more]) + "\n")
    return path


def test_decimal_commas_of_new_files_are_read_as_points(cli, tmp_path):
    model = fit(cli, write_curves(tmp_path / "train.csv", ";", ","), "--label", "kind")
    answers = []
    for separator, decimal in ((";", ","), ("\t", ","), (",", ".")):
        new = write_curves(tmp_path / "new.csv", separator, decimal, rows=1)
        assert cli("predict", model, new, "-o", tmp_path / "out.csv")[0] == 0
        answers.append([row["p(a)"] for row in rows_of(tmp_path / "out.csv")])
    assert answers[0] == answers[1] == answers[2]
    # What alone could be thousands is read as in training; points among commas are refused.
    (tmp_path / "new.csv").write_text("t0;t1;t2;t3\n1,234;2,345;3,456;4,567\n")
    assert cli("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")[0] == 0
    new = write_curves(tmp_path / "new.csv", ";", ",", rows=2, more=["0,5;1.234;0,5;0,5;a"])
    code, _, err = cli("predict", model, new, "-o", tmp_path / "out.csv")
    assert code == 2 and "new.csv, line 4: column 't1' holds '1.234', but other numbers" in err


def test_missing_values_of_new_files_are_named(cli, tmp_path):
    model = fit(cli, write_curves(tmp_path / "train.csv", ",", "."), "--label", "kind")
    new = write_curves(tmp_path / "new.csv", ",", ".", rows=2, more=["1,2,,4,a"])
    with pytest.warns(
        UserWarning, match=r"1 of 3 sequences lack values, the first in new\.csv, line 4: column 't2'"
    ):
        read_new(new, SequenceClassifier.load(model))
    code, _, err = cli("predict", model, new, "-o", tmp_path / "out.csv")
    assert code == 0 and "new.csv, line 4: column 't2'" in err and len(rows_of(tmp_path / "out.csv")) == 3


def test_every_row_of_a_text_file_is_answered_or_the_file_is_refused(cli, tmp_path):
    lines = [f"{'ab'[i % 2]}\tmessage number {i}" for i in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join(["kind\ttext", *lines]) + "\n")
    model = fit(cli, tmp_path / "train.tsv", "--label", "kind")
    new, out = tmp_path / "new.tsv", tmp_path / "out.csv"
    new.write_text('text\n"hi mum\nfree call\nok later\n')
    assert cli("predict", model, new, "-o", out)[0] == 0
    assert [row["prediction"] in ("a", "b") for row in rows_of(out)] == [True] * 3
    new.write_text('text\n"hi mum\nfree call"\nok later\n')
    code, _, err = cli("predict", model, new, "-o", out)
    assert code == 2 and "new.tsv, line 2: a quote that opens here is closed 1 lines below" in err
    new = new.with_suffix(".csv")
    new.write_text('text\n"hi mum\nfree call\nok later\n')
    code, _, err = cli("predict", model, new, "-o", out)
    assert code == 2 and "new.csv, line 2: a quote that is not closed" in err
    new.write_text('text\n"hi mum\nfree call"\nok later\n')
    code, _, err = cli("predict", model, new, "-o", out)
    assert code == 0 and "new.csv: 3 lines hold 2 rows; the row in line 2 has 2 lines" in err
    new.write_text("text\nhi mum\n\nok later\n")
    code, _, err = cli("predict", model, new, "-o", out)
    assert code == 2 and "new.csv, line 3: there is no sequence" in err


def test_new_files_without_a_header_are_read_as_in_training(cli, tmp_path):
    train = write_curves(tmp_path / "train.csv", ",", ".")
    train.write_text(train.read_text().partition("\n")[2])
    settings = {"scale": "smoke", "runs": tmp_path / "runs"}
    model = fit_file(str(train), ImportOptions(label="c5", header=False), settings).save(tmp_path / "model")
    train.write_text("".join(train.read_text().splitlines(keepends=True)[:3]))
    assert cli("predict", model, train, "-o", tmp_path / "out.csv")[0] == 0
    assert len(rows_of(tmp_path / "out.csv")) == 3


@pytest.mark.parametrize("named", [False, True])
def test_answers_for_a_folder_of_tables_say_which_file_they_are_of(cli, tmp_path, named):
    train = tmp_path / "train.csv"
    train.write_text("\n".join(["word,label", *(f"{i % 7} word {i},{'ab'[i % 2]}" for i in range(60))]))
    model = fit(cli, train, "--sequence", "word")
    (tmp_path / "new" / "more").mkdir(parents=True)
    for name, count in {"b.csv": 2, "more/a.csv": 1, "empty.csv": 0, "z.csv": 2}.items():
        rows = [f"word {i}{f',{name} {i}' * named}" for i in range(count)]
        (tmp_path / "new" / name).write_text("\n".join(["word,who" if named else "word", *rows]) + "\n")
    assert cli("predict", model, tmp_path / "new", "-o", tmp_path / "out.csv")[0] == 0
    found = rows_of(tmp_path / "out.csv")
    expected = [("b.csv", "0"), ("b.csv", "1"), ("more/a.csv", "0"), ("z.csv", "0"), ("z.csv", "1")]
    assert [row["file"] for row in found] == [name for name, _ in expected]
    if named:
        assert [row["who"] for row in found] == [f"{name} {i}" for name, i in expected]
    else:
        assert [row["row"] for row in found] == [i for _, i in expected]
