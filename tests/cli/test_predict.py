"""``spt predict`` of folders of texts and recordings, long tables and arrays: read as in training."""

import csv

import numpy as np
import pytest
from scipy.io import wavfile

from selfpretrain import SequenceClassifier

WORDS = {"cats": "a cat sat on a mat ", "dogs": "the dog dug up the log "}


def fit(spt, data, *more):
    made = data.parent / "model"
    smoke = ("--scale", "smoke", "-q", "--runs", data.parent / "runs")
    assert spt("fit", data, "-o", made, *smoke, *more)[0] == 0
    return made


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_texts_of_a_folder(spt, tmp_path):
    for kind, text in WORDS.items():
        for i in range(20):
            file = tmp_path / "train" / kind / f"{i}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text * 3 + str(i))
    model = fit(spt, tmp_path / "train")
    new = tmp_path / "new"
    (new / "more").mkdir(parents=True)
    (new / "b.txt").write_text("a cat and a dog")
    (new / "more" / "a.txt").write_text("the log")
    (new / "none.txt").write_text("")
    code, _, err = spt("predict", model, new, "-o", tmp_path / "out.csv")
    assert code == 2 and "row 3: there is no sequence" in err
    assert spt("predict", model, new, "-o", tmp_path / "out.csv", "--skip-bad")[0] == 0
    found = rows_of(tmp_path / "out.csv")
    assert [row["file"] for row in found] == ["b.txt", "more/a.txt", "none.txt"]
    probabilities = SequenceClassifier.load(model).predict_proba(["a cat and a dog", "the log"])
    assert [[float(row["p(cats)"]), float(row["p(dogs)"])] for row in found[:2]] == probabilities.tolist()
    assert found[2]["prediction"] == ""
    assert spt("predict", model, new / "b.txt", "-o", tmp_path / "one.csv")[0] == 0
    assert rows_of(tmp_path / "one.csv")[0]["prediction"] == found[0]["prediction"]
    assert spt("model", "embed", model, new / "b.txt", "-o", tmp_path / "v.npy")[0] == 0
    assert np.load(tmp_path / "v.npy").shape == (1, 16)


def write_sound(file, frequency, rate=800, kind=np.int16):
    file.parent.mkdir(parents=True, exist_ok=True)
    wave = 8000 * np.sin(np.arange(60) * frequency)
    wavfile.write(file, rate, wave.astype(kind))


@pytest.mark.parametrize("options", [(), pytest.param(("--rate", "400"), marks=pytest.mark.slow)])
def test_recordings_of_a_folder(spt, tmp_path, options):
    folder = tmp_path / "train"
    for i in range(40):
        write_sound(folder / ("low", "high")[i % 2] / f"{i}.wav", (0.1, 0.9)[i % 2] + i / 400)
    model = fit(spt, folder, *options)
    for name, how in {"a": {}, "fast": {"rate": 1600}, "float": {"kind": np.float32}}.items():
        write_sound(tmp_path / "new" / f"{name}.wav", 0.3, **how)
    (tmp_path / "new" / "torn.wav").write_bytes(b"RIFF")
    assert spt("predict", model, tmp_path / "new", "-o", tmp_path / "out.csv", "--skip-bad")[0] == 0
    found = {row["file"]: row for row in rows_of(tmp_path / "out.csv")}
    assert found["a.wav"]["prediction"] in ("low", "high")
    assert "torn.wav" in found["torn.wav"]["problem"]
    if options:  # brought to one rate, and to one scale
        assert found["fast.wav"]["prediction"] in ("low", "high")
    else:
        assert "1600 samples per second, those of training 800" in found["fast.wav"]["problem"]
        assert "samples are float32, those of training int16" in found["float.wav"]["problem"]
        sound = wavfile.read(tmp_path / "new" / "a.wav")[1][:, None]
        probabilities = SequenceClassifier.load(model).predict_proba([sound])[0]
        assert [float(found["a.wav"][f"p({name})"]) for name in ("high", "low")] == probabilities.tolist()
    code, _, err = spt("predict", model, tmp_path / "out.csv", "-o", tmp_path / "no.csv")
    assert code == 2 and "the model takes recordings (.wav, .flac, .ogg)" in err


def test_long_tables_and_arrays_with_padding(spt, tmp_path):
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
    model = fit(spt, tmp_path / "train.csv", *told)
    made = SequenceClassifier.load(model)
    assert spt("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")[0] == 0
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
        assert spt("predict", model, tmp_path / f"{name}.npz", "-o", tmp_path / "o.csv")[0] == 0
        again = [float(row["p(0)"]) for row in rows_of(tmp_path / "o.csv")]
        assert np.allclose(again, [probabilities[2, 0], probabilities[0, 0]])
