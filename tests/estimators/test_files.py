"""Estimators that are trained on a file: symbols in their alphabet, as those that are given in Python."""

import gzip
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from selfpretrain import SequenceClassifier
from selfpretrain.data.importing import long_tables
from selfpretrain.data.importing.importer import import_arrays, import_data, plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.importing.tables import ROWS
from selfpretrain.data.sequences import Sequences
from selfpretrain.data.spec import Tokens, Values
from selfpretrain.errors import DataError, SpecError
from selfpretrain.estimators import files
from selfpretrain.estimators.in_memory import with_test_split
from selfpretrain.estimators.inputs import ETX, STX, Alphabet, on_scale

pytestmark = pytest.mark.usefixtures("rough_flops")

SMOKE = {"scale": "smoke", "mixer": "attention"}
SPLIT = ["train"] * 24 + ["val"] * 4 + ["test"] * 4


def fitted(tmp_path, column, rows, **options):
    path = tmp_path / "data.csv"
    lines = [f'"{row}",{"ab"[i % 2]},{SPLIT[i]}' for i, row in enumerate(rows)]
    path.write_text("\n".join([f"{column},label,split", *lines]) + "\n", encoding="utf-8")
    read = ImportOptions(sequence=column, label="label", split="split", **options)
    return files.fit(str(path), read, SMOKE | {"runs": tmp_path / "runs"}), path


def test_imported_data_are_the_same_task_by_name_as_their_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    words = [f"word{i:02}" if i % 2 else f"{i:02}" for i in range(32)]
    model, path = fitted(tmp_path, "word", words)
    import_data(path, "words", ImportOptions(sequence="word", label="label", split="split"))
    named = files.fit("words", ImportOptions(), SMOKE | {"runs": tmp_path / "runs"})
    assert named.task_ == model.task_ and named.alphabet_ == model.alphabet_
    assert named.scores_ == model.scores_
    np.testing.assert_array_equal(model.predict_proba("words"), model.predict_proba(model.task_))
    path.write_text(path.read_text().replace(",a,", ",c,"))
    import_data(path, "others", ImportOptions(sequence="word", label="label", split="split"))
    for use in (model.score, model.evaluate):
        with pytest.raises(SpecError, match="classes of this task are b, c; those of training are a, b"):
            use("others")


def test_notes_on_a_file_are_written_before_training(tmp_path, monkeypatch, capsys):
    rows = tmp_path / "data.csv"
    rows.write_text("word,label\n" + "".join(f"w{i:02},{'ab'[i % 2]}\n" for i in range(30)) + "w00,a\nx,\n")

    def ended(*_):
        raise InterruptedError

    monkeypatch.setattr(SequenceClassifier, "fit", ended)
    for verbose, said in ((True, ["copies of others", "have no label"]), (False, [])):
        with pytest.raises(InterruptedError):
            files.fit(str(rows), ImportOptions(sequence="word", label="label"), SMOKE | {"verbose": verbose})
        written = capsys.readouterr().err.splitlines()
        read = "sequence: word (as bytes of UTF-8); label: label; group: none; not used: nothing"
        assert (read in written) == verbose
        notes = [line for line in written if line.startswith("note: ")]
        assert len(notes) == len(said) and all(map(str.__contains__, notes, said)), notes


def stored(model):
    whole = model.task_.data().whole
    return [whole.sequence(row).tolist() for row in range(len(whole))]


def test_texts_get_signs(tmp_path):
    words = [f"word{i:02}" if i % 2 else f"{i:02}" for i in range(32)]
    model, path = fitted(tmp_path, "word", words)
    assert stored(model) == [[STX, *word.encode(), ETX] for word in words]
    assert model.task_.form.length == 8
    assert with_test_split(model.task_, 1) is model.task_  # the file has one
    from_file = model.examples(model.readable(files.read_new(path, model).sequences))
    np.testing.assert_array_equal(model.predict_proba(from_file), model.predict_proba(words))


def test_tokens_get_signs_and_those_of_test_alone_are_unknown(tmp_path):
    rows = [[5, i % 3] for i in range(28)] + [[9, 0]] * 4
    model, _ = fitted(tmp_path, "tokens", rows, kind="tokens")
    assert replace(model.alphabet_, seen=()) == Alphabet(9, shift=3, unknown=0, begin=1, end=2)
    assert stored(model)[:2] == [[1, 8, 3, 2], [1, 8, 4, 2]]
    assert stored(model)[-1] == [1, 0, 3, 2]
    probabilities = model.predict_proba([[9, 0], [7000, 0]])  # read as tokens, as those of the file
    np.testing.assert_allclose(*probabilities, rtol=1e-6)
    again = SequenceClassifier.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba([[9, 0], [7000, 0]]), probabilities)


def test_signs_can_be_left_out(tmp_path):
    path = tmp_path / "words.csv"
    lines = [f"{i:0{3 + i % 2}},{'ab'[i % 2]}" for i in range(60)]
    path.write_text("\n".join(["word,label", *lines]) + "\n")
    read = ImportOptions(sequence="word", label="label", kind="text")
    model = files.fit(str(path), read, SMOKE | {"runs": tmp_path / "runs", "signs": False})
    assert sorted(map(len, stored(model))) == [3] * 30 + [4] * 30


@pytest.mark.parametrize(("stride", "signed"), [(None, True), (2, False)])
def test_windows_that_overlap_are_left_as_they_are(tmp_path, stride, signed):
    rows = [[i % 5, 1, 2, 3, 4, 1, 2, 3] for i in range(32)]
    model, _ = fitted(tmp_path, "tokens", rows, kind="tokens", window=4, stride=stride)
    assert (model.alphabet_ is not None) == signed
    assert model.task_.form.length == (6 if signed else 4)
    assert model.predictor_.model.pooling == ("last" if signed else "mean")


def test_tokens_with_the_numbers_of_all_bytes_are_no_text(tmp_path):
    model, _ = fitted(tmp_path, "tokens", [[255 - i, i, 255] for i in range(32)], kind="tokens")
    assert model.signal == "tokens" and model.alphabet_.shift == 3
    assert model.predict_proba([[255, 0]]).shape == (1, 2)


TOKENS = [[255 - i, i, 255] for i in range(32)]


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    """Imported tokens that use all numbers to 255."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    labels, split = np.arange(32) % 2, np.array(SPLIT)
    return import_arrays("numbers", np.array(TOKENS), labels, groups=np.arange(32) // 2, split=split)


def test_imported_tokens_are_no_text_by_their_name_either(tokens, tmp_path):
    model = files.fit("numbers", ImportOptions(), SMOKE | {"runs": tmp_path / "runs"})
    assert model.signal == "tokens" and model.alphabet_.shift == 3
    assert stored(model)[3] == [1, 255, 6, 258, 2]
    again = SequenceClassifier.load(model.save(tmp_path / "model"))
    assert again.data_facts_["signal"] == "tokens"


def test_a_model_of_imported_tokens_does_not_read_files_as_text(tokens, tmp_path):
    model = SequenceClassifier(**SMOKE, runs=tmp_path / "runs").fit("numbers")
    assert model.predictor_.form.signal == Tokens(256)
    (tmp_path / "new.txt").write_text("hello")
    with pytest.raises(DataError, match="does not know how such a file is to be read"):
        files.read_new(tmp_path / "new.txt", SequenceClassifier.load(model.save(tmp_path / "model")))
    model.data_facts_.pop("signal")  # as of models saved before these were noted
    model.reading_ = None
    assert files.read_new(tmp_path / "new.txt", model).sequences.flat.tobytes() == b"hello"


def test_the_vocabulary_of_a_fold_of_tokens_is_that_of_its_training_rows(tokens):
    split = np.where(tokens.whole.targets.numpy() == 0, 0, 2)
    whole = replace(tokens.whole, flat=tokens.whole.flat.clamp(max=254))
    assert replace(tokens, whole=whole).with_split(split).form.signal == Tokens(255)


def test_data_stored_before_their_kind_was_are_what_they_seemed_to_be(tokens, tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("\n".join(["word,label", *(f"word {i},{'ab'[i % 2]}" for i in range(32))]))
    text = import_data(path, "words", ImportOptions())
    assert text.is_text and not tokens.is_text

    def before(made, **options):
        about = {key: value for key, value in made.meta["about"].items() if key != "kind"}
        about["options"] = about["options"] | options
        return replace(made, meta={**made.meta, "about": about})

    assert before(text).is_text and before(tokens).is_text
    assert not before(tokens, kind="tokens").is_text and not before(tokens, id="who").is_text
    assert before(text).digest == text.digest


def test_texts_and_tokens_are_not_put_together(tmp_path):
    rows = {"words": [f"word {i}" for i in range(32)], "numbers": TOKENS}
    for name, cells in rows.items():
        lines = [json.dumps({"x": cell, "label": "ab"[i % 2]}) for i, cell in enumerate(cells)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    with pytest.raises(
        DataError, match=r"words\.jsonl holds text, .*numbers\.jsonl tokens; they must be alike"
    ):
        plan_import(str(tmp_path / "words.jsonl"), ImportOptions(test=str(tmp_path / "numbers.jsonl")))


def test_columns_with_the_names_of_answers_are_replaced_and_told(tmp_path):
    model, _ = fitted(tmp_path, "word", [f"word{i:02}" for i in range(32)])
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    new.write_text("word,prediction,näme\nword01,x,ä\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="answers take the place of these columns: prediction$"):
        files.predict(model, files.read_new(new, model), out, skip_bad=False)
    header, row = out.read_text(encoding="utf-8").splitlines()
    assert header == "prediction,näme,p(a),p(b)" and row.split(",")[0] in ("a", "b")


def read_like(path, channels=1, **layout):
    """The sequences of a file, read for a model of this layout; without channels it is one of text."""
    reading = {"kind": "values", "encoding": "", "header": True, "decimal": "."} | layout
    model = SequenceClassifier()
    model.predictor_ = SimpleNamespace(
        form=SimpleNamespace(signal=Values(channels) if channels else Tokens(256))
    )
    model.offsets_ = SimpleNamespace(values=())
    model.reading_, model.alphabet_ = reading, None
    return files.read_new(path, model).sequences


@pytest.mark.parametrize(
    ("layout", "header", "row"),
    [
        ({"form": "long", "sequence": ["x", "y,z"], "id": "id", "time": "t"}, 'id,t,"y,z",x', "a,0,2,1"),
        ({"form": "wide", "sequence": ["x", "y"]}, "y,x", "2,1"),
        ({"form": "written", "sequence": ["x", "y"]}, "y,x", '"[2]","[1]"'),
    ],
)
def test_columns_of_new_data_have_the_order_of_training(tmp_path, layout, header, row):
    path = tmp_path / "new.csv"
    path.write_text(f"{header}\n{row}\n")
    channels = 1 if layout["form"] == "wide" else 2
    assert read_like(path, channels, **layout).flat.ravel().tolist() == [1, 2]


def test_times_of_nanoseconds_beside_the_sequences_do_not_matter(tmp_path):
    when = pa.array([1, 2_000], pa.timestamp("ns"))  # the first is none of Python
    parquet.write_table(pa.table({"x": [1, 3], "y": [2, 4], "when": when}), tmp_path / "new.parquet")
    found = read_like(tmp_path / "new.parquet", form="wide", sequence=["x", "y"])
    assert found.flat.ravel().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("code", "rows", "told"),
    [("utf-8", "süß", True), ("windows-1252", "süß", False), ("ascii", "sweet", False)],
)
def test_new_files_in_utf_8_are_read_as_such_whatever_training_had(tmp_path, code, rows, told, recwarn):
    for path in (tmp_path / "new.csv", tmp_path / "some" / "new.csv", tmp_path / "texts" / "new.txt"):
        path.parent.mkdir(exist_ok=True)
        content = rows if path.suffix == ".txt" else f"x\n{rows}\n"
        path.write_bytes(content.encode(code))
        layout = {"form": "texts" if path.suffix == ".txt" else "text", "sequence": ["x"], "kind": "tokens"}
        found = read_like(
            path.parent if path.parent != tmp_path else path, 0, encoding="windows-1252", **layout
        )
        assert found.flat.tobytes().decode() == rows
    said = [
        str(each.message) for each in recwarn if "is read as UTF-8, not as windows-1252" in str(each.message)
    ]
    assert len(said) == 3 * told


@pytest.mark.parametrize("events", [[], ["cough", "rest"]])
def test_a_bad_row_of_a_long_table_costs_its_sequence_alone(tmp_path, events):
    good, other, bad = ("rest", "cough", "") if events else (1, 2, "oops")
    rows = [f"{who},{at},{good}" for who in "abcdef" for at in range(3)] + [f"g,0,{other}", f"e,1,{good}"]
    rows[7] = f"c,1,{bad}"
    (tmp_path / "new.csv.gz").write_bytes(gzip.compress("\n".join(["id,t,x", *rows]).encode()))
    layout = {"form": "long", "sequence": ["x"], "id": "id", "time": "t"}
    found = read_like(
        tmp_path / "new.csv.gz", **layout, **({"kind": "tokens", "events": events} if events else {})
    )
    assert found.rows.tolist() == [0, 1, 3, 5, 6] and found.lengths.tolist() == [3, 3, 3, 3, 1]
    assert found.flat.ravel().tolist() == ([1] * 12 + [0] if events else [1] * 12 + [2])
    assert found.wrong[2].startswith("new.csv.gz, line 9: column 'x' h") and sorted(found.wrong) == [2, 4]
    assert found.wrong[4].startswith(
        "id 'e' has two rows at time 1 (new.csv.gz, line 15; new.csv.gz, line 21)"
    )


def test_numbers_of_a_long_table_are_parsed_once(tmp_path, monkeypatch):
    parsed = []
    read = long_tables.read_numbers
    monkeypatch.setattr(long_tables, "read_numbers", lambda *asked: parsed.append(asked) or read(*asked))
    (tmp_path / "new.csv").write_text("id,t,x\na,0,1\na,1,2\nb,0,3\n")
    found = read_like(tmp_path / "new.csv", form="long", sequence=["x"], id="id", time="t")
    assert found.flat.ravel().tolist() == [1, 2, 3] and len(parsed) == 1


@pytest.mark.parametrize(("missing", "read"), [("refuse", [1, 2, 3]), ("fill", [1, 2, 3, 3])])
def test_missing_values_at_the_end_are_filled_where_training_had_it(tmp_path, missing, read):
    path = tmp_path / "new.csv"
    path.write_text("a,b,c,d\n1,,3,\n")
    with pytest.warns(
        UserWarning, match=r"the first in new\.csv, line 2: column 'b'; these are interpolated"
    ):
        found = read_like(path, form="wide", sequence=list("abcd"), missing=missing)
    assert found.flat.ravel().tolist() == read


@pytest.mark.parametrize("label", ["", ":no"])
def test_series_are_predicted_with_and_without_labels(tmp_path, label):
    path = tmp_path / "new.ts"
    path.write_text(f"@classLabel {'true no yes' if label else 'false'}\n@data\n1,2:3,4{label}\n")
    assert read_like(path, channels=2, form="series").flat.tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize("form", ["lists", "written"])
@pytest.mark.parametrize("cell", ["[1, 2, 3]", "1 2 3", [1, 2, 3], [[1], [2], [3]]])
def test_lists_and_written_numbers_are_read_whichever_training_had(tmp_path, form, cell):
    (tmp_path / "new.jsonl").write_text(json.dumps({"x": cell}))
    found = read_like(tmp_path / "new.jsonl", form=form, sequence=["x"])
    assert found.flat.ravel().tolist() == [1, 2, 3]


def test_a_path_that_cannot_be_looked_at_is_an_error_of_one_line(tmp_path):
    path = tmp_path / f"{'x' * 300}.csv"
    for read in (lambda: read_like(path, form="text"), lambda: files.fit(str(path), ImportOptions(), {})):
        with pytest.raises(DataError, match=r"cannot read .*x\.csv: File name too long"):
            read()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("lists", "column 'x' holds int64, not lists of numbers"),
        ("written", "column 'x' holds int64, not lists of numbers"),
        ("text", "column 'x' holds int64, not text"),
    ],
)
def test_new_cells_of_another_type_are_named(tmp_path, form, said):
    (tmp_path / "new.jsonl").write_text('{"x": 12345}')
    with pytest.raises(DataError, match=f"line 1: {said}"):
        read_like(tmp_path / "new.jsonl", form=form, sequence=["x"])


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [("lists", [1, 2], "oops"), ("lists", [1, 2], 5), ("text", "word", [1]), ("wide", 1, "oops")],
)
def test_a_cell_of_another_type_costs_its_row_alone(tmp_path, form, good, bad):
    cells = [good, good, bad, good]
    (tmp_path / "new.jsonl").write_text("\n".join(json.dumps({"x": cell, "y": cell}) for cell in cells))
    columns = ["x", "y"] if form == "wide" else ["x"]
    found = read_like(tmp_path / "new.jsonl", int(form != "text"), form=form, sequence=columns)
    assert found.rows.tolist() == [0, 1, 3] and "column 'x' holds " in found.wrong[2]


def test_events_of_another_type_than_those_before_are_told_in_a_line(tmp_path):
    rows = ({"id": i // 8, "t": i, "x": i if i < ROWS else "oops"} for i in range(ROWS + 8))
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"^new\.jsonl cannot be read: .*incompatible types"):
        read_like(tmp_path / "new.jsonl", form="long", sequence=["x"], id="id", time="t")


def test_the_ending_of_new_arrays_may_be_in_capitals(tmp_path):
    with (tmp_path / "NEW.NPZ").open("wb") as file:
        np.savez(file, x=np.ones((2, 3)))
    assert read_like(tmp_path / "NEW.NPZ").lengths.tolist() == [3, 3]


def channels_of(table, long):
    """Columns a and b, as the channels of sequences in a frame."""
    if not long:
        return table
    ids = table["id"].unique().to_pylist()
    return [table.filter(pc.equal(table["id"], each)).select(["a", "b"]) for each in ids]


@pytest.mark.parametrize("long", [True, False])
def test_channels_of_a_file_are_found_by_name_in_a_frame(tmp_path, long):
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 30, 6)).tolist()
    labels = ["x", "y"] * 15
    table = pa.table({"a": a, "b": b, "label": labels})
    options = ImportOptions(sequence="a,b")
    if long:
        table = pa.table({name: np.ravel(each) for name, each in (("a", a), ("b", b))})
        table = table.append_column("id", pa.array(np.repeat(np.arange(30), 6)))
        table = table.append_column("time", pa.array(np.tile(np.arange(6), 30)))
        table = table.append_column("label", pa.array(np.repeat(labels, 6)))
        options = ImportOptions(id="id", time="time", value="a,b")
    parquet.write_table(table, tmp_path / "t.parquet")
    model = files.fit(str(tmp_path / "t.parquet"), options, SMOKE)
    model = SequenceClassifier.load(model.save(tmp_path / "model"))
    expected = model.predict_proba(list(np.stack([a, b], axis=-1)))
    columns = ["a", "b", "id"] if long else ["a", "b"]
    for order in (columns, columns[::-1]):
        found = channels_of(table.select(order), long)
        found = [each.select(["b", "a"]) for each in found] if long and order != columns else found
        np.testing.assert_allclose(model.predict_proba(found), expected, atol=1e-6)


def test_positions_of_a_wide_table_are_asked_for_in_its_order(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(30, 6)), columns=list("abcdef"))
    parquet.write_table(pa.table({**frame, "label": ["x", "y"] * 15}), tmp_path / "t.parquet")
    model = files.fit(str(tmp_path / "t.parquet"), ImportOptions(), SMOKE)
    model = SequenceClassifier.load(model.save(tmp_path / "model"))
    from_file = files.read_new(tmp_path / "t.parquet", model).sequences
    expected = model.predict_proba(model.examples(model.readable(from_file)))
    np.testing.assert_allclose(model.predict_proba(frame), expected, atol=1e-6)
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[frame.columns[::-1]])


def test_values_on_another_scale_than_in_training_are_noted():
    signal = Values(2, centre=(0.0, 5.0), spread=(1.0, 2.0))
    flat = np.random.RandomState(0).randn(40, 2).astype(np.float32) * [1, 2] + [0, 5]
    found = Sequences("values", flat, np.full(4, 10), np.arange(4))
    assert on_scale(found, signal) == "" == on_scale(found.take(np.zeros(4, dtype=bool), "none"), signal)
    note = on_scale(replace(found, flat=flat * [1, 1000]), signal)
    assert note.startswith("channel 2: values lie 2,") and "standard deviations of training" in note
    kelvin = replace(found, flat=flat + np.array([273.15, 0]))
    assert on_scale(kelvin, signal).startswith("channel 1: values lie 273 standard deviations")


def test_rare_events_are_on_the_scale_of_training():
    outlier = np.random.RandomState(0).randn(1000, 1)
    outlier[7] = 1e5
    found = Sequences("values", outlier, np.full(10, 100), np.arange(10))
    assert on_scale(found, Values(1)) == ""
    marks = (np.arange(1000)[:, None] % 30 == 0).astype(
        np.float32
    )  # of missing values, as --missing mask has
    assert on_scale(replace(found, flat=marks), Values(1, centre=(1e-4,), spread=(0.01,))) == ""
