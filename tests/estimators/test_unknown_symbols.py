"""Letters and tokens that training lacks: answered all the same, and counted in a warning."""

import warnings

import numpy as np
import pytest

from selfpretrain.cli.app import run
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.estimators import export, files
from selfpretrain.estimators.models import SequenceClassifier
from selfpretrain.system.files import read_json, write_json

pytestmark = pytest.mark.usefixtures("rough_flops")

SMALL = {"scale": "smoke", "mixer": "attention", "device": "cpu", "objective": None}
DNA = ["ACGT" * 2 if i % 2 else "AATT" * 2 for i in range(30)]
Y = ["coding" if i % 2 else "non" for i in range(30)]


@pytest.fixture(scope="module")
def model():
    return SequenceClassifier(**SMALL).fit(DNA, Y)


@pytest.fixture(scope="module")
def tokens():
    return SequenceClassifier(signal="tokens", **SMALL).fit([[5, 7 + 2 * (i % 2), 5] for i in range(30)], Y)


NOTES = {
    "all lower case": (
        [text.lower() for text in DNA],
        "30 of 30 sequences have letters that training lacks (row 0: 8 of 8 positions, 'a'); upper case was "
        "seen in training",
    ),
    "one letter": (
        [*DNA[:3], "ACNNT"],
        "1 of 4 sequences have letters that training lacks (row 3: 2 of 5 positions, 'N')",
    ),
    "other scripts": (
        ["ACGT", "Aжя", "шш"],
        "2 of 3 sequences have letters that training lacks (row 1: 4 of 5 positions, 'ж')",
    ),
    "bytes": (
        [b"AC\xff"],
        "1 of 1 sequences have letters that training lacks (row 0: 1 of 3 positions, '\\udcff')",
    ),
}


@pytest.mark.parametrize("kind", NOTES)
def test_unknown_letters_are_counted(kind, model, tmp_path):
    texts, note = NOTES[kind]
    for each in (model, SequenceClassifier.load(model.save(tmp_path / "model"))):
        for answer in (each.predict, each.predict_proba, each.transform):
            with pytest.warns(UserWarning) as said:
                assert len(answer(texts)) == len(texts)
            assert [str(warning.message) for warning in said] == [note]


@pytest.mark.parametrize(
    ("row", "note"),
    [([5, 8], "row 0: 1 of 2 positions, 8"), ([5, 600, 4], "row 0: 2 of 3 positions, 600")],
)
def test_unknown_tokens_are_counted(row, note, tokens):
    with pytest.warns(UserWarning, match="1 of 1 sequences have symbols that training lacks"):
        tokens.predict([row])
    with pytest.warns(UserWarning) as said:
        tokens.predict([row])
    assert note in str(said[0].message)


def test_known_symbols_are_not_warned_of(model, tokens, tmp_path):
    older = model.save(tmp_path / "older")
    content = read_json(older / "model.json")
    del content["alphabet"]["seen"]  # models that were saved before these were recorded
    write_json(older / "model.json", content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict([*DNA, "TTTT"])
        tokens.predict([[9, 7, 5], [5]])
        SequenceClassifier.load(older).predict(["xyz"])


def test_predict_on_the_command_line_notes_them(tmp_path, capsys):
    read = ImportOptions(sequence="dna", label="label", kind="text")
    rows = "".join(f"{'ACGT'[i % 4]}{DNA[i]}{i % 3 * 'A'}{i % 5 * 'C'},{Y[i]}\n" for i in range(30))
    (tmp_path / "train.csv").write_text("dna,label\n" + rows)
    files.fit(str(tmp_path / "train.csv"), read, SMALL | {"runs": tmp_path / "runs"}).save(tmp_path / "model")
    (tmp_path / "new.csv").write_text("dna\nACGT\nacgt\n")
    paths = [str(tmp_path / name) for name in ("model", "new.csv", "out.csv")]
    assert run(["predict", *paths[:2], "-o", paths[2]]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "note: 1 of 2 sequences have letters that training lacks (row 2: 4 of 4 positions, 'a')" in said
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


def test_events_are_named_once(tmp_path):
    rows = [f"{i},{t},{'ab'[(i >> t) % 2]},{'xy'[i % 2]}" for i in range(40) for t in range(6)]
    (tmp_path / "train.csv").write_text("\n".join(["id,t,event,label", *rows]) + "\n")
    read = ImportOptions(id="id", time="t", value="event", label="label")
    model = files.fit(str(tmp_path / "train.csv"), read, SMALL | {"runs": tmp_path / "runs"})
    (tmp_path / "new.csv").write_text("id,t,event\n1,1,a\n1,2,c\n")
    with pytest.warns(UserWarning) as said:
        new = files.read_new(tmp_path / "new.csv", model)
        assert len(model.predict_proba(model.examples(files.usable(model, new, skip_bad=False)))) == 1
    assert len(said) == 1 and "hold events that training lacks, such as 'c'" in str(said[0].message)
    assert np.isfinite(model.predict_proba([[0, 1]])).all()


def test_an_exported_model_says_what_its_symbols_are(model, tokens, monkeypatch):
    monkeypatch.setattr(export, "export", lambda *_: 0.0)
    for each, said in (
        (model, "every sequence begins with 2 and ends with 3"),
        (
            tokens,
            "inputs are the symbols of the data plus 3 and every sequence begins with 1 and ends with 2",
        ),
    ):
        with pytest.warns(UserWarning, match=f"of the exported model, {said}"):
            each.export("model.pt2")
