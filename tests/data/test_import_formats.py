"""The same data come in by every door as the same set, whatever the pieces they are read in."""

import csv
import gzip
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet
from scipy.io import wavfile

from imports import bring
from selfpretrain.data.importing import importer, tables
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.spec import SPLITS, Classes, Reals, Tokens, Values
from selfpretrain.errors import DataError

WORDS = ["spam", "eggs", "tö\u0304st"]
EASY = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


pytestmark = pytest.mark.usefixtures("home")


def texts(made):
    return [made.whole.sequence(row).tobytes() for row in range(len(made.split))]


def numbers(made):
    return [made.whole.sequence(row).tolist() for row in range(len(made.split))]


def labels(made):
    return [made.form.target.names[y] if y >= 0 else None for y in made.whole.targets.tolist()]


def write(path, columns):
    """A table in the format that the name of its file tells of."""
    table = pa.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=7)
    elif path.suffix == ".feather":
        feather.write_feather(table, path, chunksize=5)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table, max_chunksize=5)
    elif path.suffix == ".jsonl":
        rows = [json.dumps(row, ensure_ascii=False) for row in table.to_pylist()]
        path.write_text("\n".join(rows), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            out.writerow(table.column_names)
            out.writerows(table.to_pylist() and zip(*(c.to_pylist() for c in table.columns), strict=True))
    return path


ALL = ["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.feather", "t.arrow"]
cell = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=9)


@pytest.mark.parametrize("name", ALL)
@EASY
@given(st.lists(cell, min_size=40, max_size=60, unique=True), st.integers(1, 60))
def test_texts_come_out_as_they_went_in(name, tmp_path, monkeypatch, said, piece):
    monkeypatch.setattr(tables, "ROWS", piece)
    monkeypatch.setattr(tables, "BATCH", 64 * piece)
    y = [WORDS[i % 3] for i in range(len(said))]
    made = bring(
        write(tmp_path / name, {"id": range(len(y)), "say": said, "label": y}), sequence="say", kind="text"
    )
    assert texts(made) == [text.encode() for text in said]
    assert labels(made) == y
    assert made.form.signal == Tokens(256)
    assert made.form.length == max(len(text.encode()) for text in said)


real = st.floats(-1e6, 1e6, width=32)


@pytest.mark.parametrize("name", ALL)
@EASY
@given(st.lists(st.lists(real, min_size=4, max_size=4), min_size=40, max_size=50), st.integers(1, 60))
def test_wide_tables_come_out_as_they_went_in(name, tmp_path, monkeypatch, rows, piece):
    monkeypatch.setattr(tables, "ROWS", piece)
    x = np.array(rows, dtype=np.float64) + np.arange(len(rows))[:, None] + 0.5
    columns = {f"t{i}": x[:, i] for i in range(4)}
    made = bring(write(tmp_path / name, columns | {"label": [WORDS[i % 2] for i in range(len(x))]}))
    assert isinstance(made.form.signal, Values)
    np.testing.assert_array_equal(np.array(numbers(made))[..., 0], x.astype(np.float32))


def test_wide_tables_leave_out_what_only_numbers_the_rows(tmp_path):
    x = np.random.default_rng(0).random((40, 3))
    columns = {"id": range(40)} | {f"t{i}": x[:, i] for i in range(3)} | {"label": [0, 1] * 20}
    made = bring(write(tmp_path / "t.csv", columns))
    assert made.form.length == 3
    assert bring(tmp_path / "t.csv", sequence="t1,t2").form.length == 2
    assert bring(tmp_path / "t.csv", sequence="t*").form.length == 3


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet", "t.feather"])
def test_lists_are_tokens_or_values_and_several_are_channels(tmp_path, name):
    x = [[i % 7] * (1 + i % 4) + [i % 13] for i in range(40)]
    half = [[v / 2 for v in row] for row in x]
    y = [WORDS[i % 2] for i in range(40)]
    path = write(tmp_path / name, {"x": x, "half": half, "label": y})
    made = bring(path, sequence="x")
    assert made.form.signal == Tokens(13)
    assert numbers(made) == x
    assert isinstance(bring(path, sequence="x", kind="values").form.signal, Values)
    both = bring(path, sequence="x,half")
    assert both.form.signal.channels == 2
    pairs = zip(x, half, strict=True)
    assert numbers(both) == [[[a, b] for a, b in zip(p, q, strict=True)] for p, q in pairs]
    x = np.random.default_rng(0).integers(-9, 9, (40, 5, 3)).astype(np.int16)
    made = bring(write(tmp_path / name, {"x": x.tolist(), "label": [0, 1] * 20}))
    assert numbers(made) == x.tolist()
    assert made.form.signal.channels == 3


@pytest.mark.parametrize(
    ("full", "empty", "options", "last"),
    [
        ({"x": [5, 1], "y": "a"}, {"x": None, "y": "a"}, {}, []),
        ({"x": [5, 1], "y": "a"}, {"x": [], "y": "a"}, {}, []),
        ({"x": [[5, 1], [2, 3]], "y": "a"}, {"x": [], "y": "a"}, {}, []),
        ({"x": [[5, 1], [2, 3]], "y": "a"}, {"x": None, "y": "a"}, {}, []),
        ({"x": 5, "z": 1, "y": "a"}, {"x": None, "z": 1, "y": "a"}, {"sequence": "x,z"}, [None, 1]),
        ({"x": [5, 1], "y": ["a", "b"]}, {"x": [7, 1], "y": None}, {"target": "sets"}, [7, 1]),
        ({"x": [5, 1], "y": ["a", "b"]}, {"x": [7, 1], "y": []}, {"target": "sets"}, [7, 1]),
    ],
)
def test_a_batch_in_which_a_column_is_empty_says_nothing_of_its_type(
    tmp_path, monkeypatch, full, empty, options, last
):
    monkeypatch.setattr(tables, "ROWS", 3)
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in [full] * 6 + [empty] * 3))
    read = ImportOptions(**{"label": "y", "sequence": "x"} | options)
    found = importer.plan_import(str(tmp_path / "t.jsonl"), read).sequences
    size = len(found.flat[: found.lengths[0]])
    assert found.flat[:size].ravel().tolist() == list(np.ravel(full["x"] if "z" not in full else [5, 1]))
    tail = found.flat[len(found.flat) - found.lengths[-1] :].ravel()
    assert [None if np.isnan(value) else value for value in tail.tolist()] == last
    assert found.lengths.tolist() == [size] * 6 + [len(last)] * 3
    assert found.columns["label"].to_pylist() == [full["y"]] * 6 + [empty["y"]] * 3


@pytest.mark.parametrize("style", ["[{}]", "{}", "({})"])
def test_numbers_written_in_a_cell(tmp_path, style):
    x = [[i, i / 4, -1.5][: 2 + i % 2] for i in range(40)]
    cells = [style.format(", ".join(map(str, row))) for row in x]
    made = bring(write(tmp_path / "t.csv", {"seq": cells, "label": [0, 1] * 20}))
    assert isinstance(made.form.signal, Values)
    assert [[v for (v,) in row] for row in numbers(made)] == x
    whole = bring(
        write(tmp_path / "t.csv", {"seq": [f"1 2 {i}" for i in range(39)] + ["4,5"], "label": [0, 1] * 20})
    )
    assert whole.form.signal == Tokens(39)
    assert isinstance(bring(tmp_path / "t.csv", sequence="seq", kind="text").form.signal, Tokens)


@EASY
@given(st.permutations(range(120)))
def test_long_tables_are_sorted(tmp_path, order):
    rows = [(f"p{i % 20:02d}", i // 20, i / 4, i / 8, "ab"[i % 2]) for i in range(120)]
    who, time, a, b, label = zip(*(rows[i] for i in order), strict=True)
    path = write(tmp_path / "t.csv", {"who": who, "time": time, "a": a, "b": b, "label": label})
    made = bring(path, id="who", time="time", value="a,b")
    assert len(made.split) == 20
    assert numbers(made)[3] == [[i / 4, i / 8] for i in range(3, 120, 20)]
    assert labels(made) == ["a", "b"] * 10


@pytest.mark.parametrize(
    ("header", "row", "options"),
    [
        ("who,time,{},label", "p{i},0,1,2,a", {"id": "who", "time": "time", "value": "x,y"}),
        ("{},label", "{i},2,a", {"sequence": "x,y"}),
        ("{},label", "{i} 1,2 2,a", {"sequence": "x,y"}),
    ],
)
def test_a_test_file_with_columns_in_another_order_is_refused(tmp_path, header, row, options):
    for name, columns in {"a": "x,y", "b": "y,x"}.items():
        rows = [row.format(i=i) for i in range(5)]
        (tmp_path / f"{name}.csv").write_text("\n".join([header.format(columns), *rows]) + "\n")
    read = ImportOptions(label="label", test=str(tmp_path / "b.csv"), **options)
    with pytest.raises(
        DataError, match=r"b\.csv has the columns of its sequences in another order than .*a\.csv"
    ):
        importer.plan_import(str(tmp_path / "a.csv"), read)


def test_long_tables_of_events_and_dates(tmp_path):
    rows = [
        (i, f"2024-01-{d:02d} 10:00:00", ["in", "buy", "out"][(i * d) % 3], "ab"[i % 2])
        for d in (3, 2, 1)
        for i in range(40)
    ]
    who, when, what, label = zip(*rows, strict=True)
    path = write(tmp_path / "t.csv", {"who": who, "when": when, "what": what, "label": label})
    made = bring(path, id="who", time="when", value="what")
    assert made.form.signal == Tokens(3)
    by_who = sorted(map(str, range(40)))
    names = ["buy", "in", "out"]
    assert [[names[v] for v in row] for row in numbers(made)] == [
        [["in", "buy", "out"][(int(i) * d) % 3] for d in (1, 2, 3)] for i in by_who
    ]


def series(path, lengths=(5, 9), target=False, missing=False):
    random = np.random.default_rng(0)
    kind = "@targetLabel true" if target else "@classLabel true a b"
    lines = ["#by nobody", "@problemName X", "@timeStamps false", "@dimensions 2", kind, "@data"]
    kept = []
    for i in range(40):
        x = random.integers(0, 99, (int(random.integers(*lengths, endpoint=True)), 2)) / 8
        kept.append(x.tolist())
        said = [[str(v) for v in x[:, c]] for c in range(2)]
        if missing and i == 7:
            said[1][3] = "?"
        lines.append(":".join([*(",".join(part) for part in said), str(i / 8) if target else "ab"[i % 2]]))
    path.write_text("\n".join(lines) + "\n")
    return kept


@pytest.mark.parametrize("lengths", [(5, 9), (6, 6)])
@pytest.mark.parametrize("target", [False, True])
def test_time_series_files(tmp_path, lengths, target):
    x = series(tmp_path / "waves.ts", lengths, target)
    made = bring(tmp_path / "waves.ts")
    assert numbers(made) == x
    assert isinstance(made.form.target, Reals if target else Classes)


def test_time_series_with_missing_values_and_of_train_and_test(tmp_path):
    series(tmp_path / "waves.ts", missing=True)
    with pytest.raises(importer.DataError, match=r"waves\.ts, line 14: dimension 1, position 3 is missing"):
        bring(tmp_path / "waves.ts")
    assert len(bring(tmp_path / "waves.ts", missing="drop").split) == 39
    assert bring(tmp_path / "waves.ts", missing="mask").form.signal.channels == 4
    (tmp_path / "x").mkdir()
    for part in ("TRAIN", "TEST"):
        series(tmp_path / "x" / f"X_{part}.ts")
    assert [len(bring(tmp_path / "x").examples(split)) for split in SPLITS] == [34, 6, 40]


def test_classes_of_time_series_in_latin_letters_stay_apart(tmp_path):
    cases = [f"{i},{i + 1}:{'für' if i % 2 else 'fär'}" for i in range(24)]
    lines = ["@classLabel true für fär", "@data", *cases]
    (tmp_path / "waves.ts").write_text("\n".join(lines), encoding="latin-1")
    assert labels(bring(tmp_path / "waves.ts")) == ["fär", "für"] * 12


@pytest.mark.parametrize("kind", ["uint8", "int16"])
def test_small_whole_numbers_may_be_missing_in_some_files(tmp_path, kind):
    for name, first in (("a", 7), ("b", None)):
        x = pa.array([[first, i, 2 * i] for i in range(12)], pa.list_(pa.type_for_alias(kind)))
        parquet.write_table(pa.table({"x": x, "label": ["u", "v"] * 6}), tmp_path / f"{name}.parquet")
    made = bring(tmp_path, kind="values", missing="fill")
    assert np.ravel(numbers(made)[13]).tolist() == [1, 1, 2]
    with pytest.raises(importer.DataError, match=r"b\.parquet, row 1: column 'x', position 0 is missing"):
        bring(tmp_path, kind="values")


def recordings(root, suffix=".wav"):
    random = np.random.default_rng(0)
    kept = {}
    for i in range(24):
        name = f"{'yes' if i % 2 else 'no'}/{('anna', 'bob', 'cleo', 'dan')[i // 6]}_{i}{suffix}"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        kept[name] = random.integers(-999, 999, int(random.integers(20, 40))).astype(np.int16)
        if suffix == ".wav":
            wavfile.write(root / name, 8000, kept[name])
        else:
            pytest.importorskip("soundfile").write(root / name, kept[name], 8000)
    return kept


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_folders_of_recordings(tmp_path, suffix):
    kept = recordings(tmp_path / "speech", suffix)
    made = bring(tmp_path / "speech", group=r"/([a-z]+)_")
    assert [np.ravel(x).tolist() for x in numbers(made)] == [kept[name].tolist() for name in sorted(kept)]
    assert labels(made) == [name.split("/")[0] for name in sorted(kept)]
    assert made.whole.flat.numpy().dtype == np.int16
    assert len(made.whole.groups.unique()) == 4


def test_bad_recordings_are_named_or_left_out(tmp_path):
    recordings(tmp_path / "speech")
    (tmp_path / "speech" / "no" / "broken.wav").write_bytes(b"RIFFnothing")
    with pytest.raises(importer.DataError, match=r"no/broken\.wav cannot be read.*--skip-bad"):
        bring(tmp_path / "speech")
    made = bring(tmp_path / "speech", skip_bad=True)
    assert len(made.split) == 24
    said = "cannot be read: 1 of 25 files, the first: no/broken.wav cannot be read: "
    assert said in made.meta["about"]["notes"][-1]
    wavfile.write(tmp_path / "speech" / "no" / "broken.wav", 16000, np.zeros(9, np.int16))
    with pytest.raises(importer.DataError, match="16000 samples per second, others 8000"):
        bring(tmp_path / "speech", skip_bad=True)


def test_folders_of_texts_may_be_divided_already(tmp_path):
    for i in range(60):
        place = tmp_path / "films" / ("train", "test")[i % 3 == 0] / ("good", "bad")[i % 2] / f"{i:02d}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"film {i} was ö")
    made = bring(tmp_path / "films")
    assert [len(made.examples(split)) for split in SPLITS] == [34, 6, 20]
    assert set(labels(made)) == {"good", "bad"}
    assert "ö".encode() in texts(made)[0]


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "koi8-r"])
def test_folders_of_texts_become_utf_8_as_strings_do(tmp_path, code):
    said = "Дом" if code == "koi8-r" else "Größe"
    for i in range(24):
        place = tmp_path / "films" / ("good", "bad")[i % 2] / f"{i:02d}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(f"{said} {i:02}".encode(code))
    made = bring(tmp_path / "films", encoding=code if code == "koi8-r" else "")
    assert sorted(texts(made)) == [f"{said} {i:02}".encode() for i in range(24)]
    noted = [note for note in made.meta["about"]["notes"] if "texts are no UTF-8" in note]
    assert len(noted) == (code in ("utf-16", "latin-1"))
    (tmp_path / "films" / "bad" / "01.txt").write_bytes(b"\x81 \xff")
    with pytest.raises(DataError, match=r"01\.txt is not windows-1252; give --encoding, e\.g\. latin-1"):
        bring(tmp_path / "films")


def test_codes_with_leading_zeros_are_events_of_their_own(tmp_path):
    codes = ["007", "7", "12"]
    rows = [(i, t, codes[(i * t + i // 3) % 3]) for i in range(40) for t in range(4)]
    columns = dict(zip(("id", "time", "code"), map(list, zip(*rows, strict=True)), strict=True))
    columns |= {"label": ["ab"[i % 2] for i, _, _ in rows]}
    path = write(tmp_path / "t.csv", columns)
    told = {"id": "id", "time": "time", "value": "code"}
    plan = importer.plan_import(str(path), ImportOptions(**told, kind="tokens"))
    assert plan.layout["events"] == ["007", "12", "7"] and set(plan.sequences.flat.tolist()) == {0, 1, 2}
    plain = importer.plan_import(str(path), ImportOptions(**told))
    note = "column 'code' holds '007', which is read as 7; --kind tokens takes codes for names"
    assert note in plain.notes and set(plain.sequences.flat[:, 0].tolist()) == {7, 12}


@pytest.mark.parametrize("anew", [False, True])
def test_ids_that_several_files_of_a_folder_share_are_doubted(tmp_path, anew):
    for part in range(2):
        ids = [i // 4 + 30 * part * (not anew) for i in range(120)]
        columns = {"id": ids, "time": [i % 4 + 4 * part for i in range(120)]}
        columns |= {"v": [i * 7 % 61 / 8 for i in range(120)], "label": ["ab"[i % 2] for i in ids]}
        write(tmp_path / f"part-{part}.csv", columns)
    plan = importer.plan_import(str(tmp_path), ImportOptions(id="id", time="time", value="v"))
    assert len(plan.sequences.lengths) == (30 if anew else 60)
    assert any(note.startswith("30 ids are in several files: all rows") for note in plan.notes) == anew


@pytest.mark.parametrize("names", [("series", "time"), ("id", "t"), ("patient", "Hour")])
def test_a_long_table_that_is_read_as_a_wide_one_is_doubted(tmp_path, names):
    columns = {names[0]: [i // 6 for i in range(120)], names[1]: [i % 6 for i in range(120)]}
    columns |= {"u": [i * 7 % 61 / 8 for i in range(120)], "v": [i * 11 % 61 / 8 for i in range(120)]}
    columns |= {"label": ["ab"[i // 6 % 2] for i in range(120)]}
    notes = importer.plan_import(str(write(tmp_path / "t.csv", columns))).notes
    assert any("repeats; if rows are positions of sequences, give --id, --time" in note for note in notes)


def read_as(tmp_path, columns, **options):
    """The sequences and the notes of a table of 40 rows with two classes."""
    plan = importer.plan_import(
        str(write(tmp_path / "t.csv", columns | {"label": ["a", "b"] * 20})),
        ImportOptions(**{"label": "label"} | options),
    )
    return plan.found["sequence"], plan.notes


def test_an_hour_beside_positions_is_no_doubt(tmp_path):
    columns = {f"t{t}": [i * (t + 3) % 11 / 2 for i in range(40)] for t in range(4)}
    _, notes = read_as(tmp_path, columns | {"hour": [i * 5 % 24 for i in range(40)]})
    assert not any("repeats" in note for note in notes)


def test_lines_of_a_log_are_text_and_dates_are_not(tmp_path):
    lines = [f"2024-01-01 10:00:{i:02} ERROR disk {i} of the array is full" for i in range(40)]
    numbers_beside = {"pid": [7 * i % 13 for i in range(40)], "host": [i % 3 for i in range(40)]}
    assert read_as(tmp_path, {"message": lines} | numbers_beside)[0].startswith("message")
    stamps = [f"2024-01-01T10:00:{i:02}.5Z" for i in range(40)]
    assert read_as(tmp_path, {"message": stamps} | numbers_beside)[0].startswith("pid, host")


@pytest.mark.parametrize("odd", ["7", "unknown"])
def test_lists_in_some_cells_do_not_make_a_column_the_sequences_beside_a_text(tmp_path, odd):
    reviews = [f"a long review, number {i}, of a film" for i in range(40)]
    pages = [odd if i % 5 == 0 else "12 14" for i in range(40)]
    assert read_as(tmp_path, {"text": reviews, "pages": pages})[0].startswith("text")


def test_a_text_that_is_left_out_by_its_name_is_said(tmp_path):
    proteins = {"target": ["MKVLAA" * (3 + i % 4) for i in range(40)]}
    beside = {"u": [i * 3 % 7 / 2 for i in range(40)], "v": [i * 5 % 9 / 2 for i in range(40)]}
    said, notes = read_as(tmp_path, proteins | beside)
    assert said.startswith("u, v") and any("--sequence target takes it" in note for note in notes)
    assert not any("takes it" in note for note in read_as(tmp_path, proteins | beside, sequence="u,v")[1])


def test_columns_of_two_files_may_have_two_names_where_each_has_one(tmp_path):
    for name, column in {"train": "sequence", "test": "seq"}.items():
        write(tmp_path / f"{name}.csv", {column: [f"text {i}" for i in range(30)], "label": ["a", "b"] * 15})
    both = ImportOptions(test=str(tmp_path / "test.csv"), label="label")
    assert len(importer.plan_import(str(tmp_path / "train.csv"), both).sequences.lengths) == 60


def test_times_that_are_no_number_are_missing(tmp_path):
    columns = {"who": ["p", "p", "q"], "time": [0.5, float("nan"), 0.5], "v": [1, 2, 3], "label": ["a"] * 3}
    path = write(tmp_path / "t.parquet", columns)
    with pytest.raises(DataError, match="row 2: time is empty; every row needs one"):
        importer.plan_import(str(path), ImportOptions(id="who", time="time", value="v"))


def test_a_wrong_number_in_a_list_of_lists_is_found(tmp_path):
    rows = [[["1", "2"]], [["3", "4"], ["5", "x"]]]
    path = write(tmp_path / "t.parquet", {"x": rows, "label": ["a", "b"]})
    with pytest.raises(DataError, match="row 2, position 1: column 'x' holds 'x', not a number"):
        importer.plan_import(str(path), ImportOptions(sequence="x"))


def test_folders_of_tables_as_the_hub_has_them(tmp_path):
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}
    meta = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    for split, n in (("train", 30), ("validation", 10), ("test", 10)):
        table = pa.table({"text": [f"{split} {i}" for i in range(n)], "label": [i % 2 for i in range(n)]})
        place = tmp_path / "set" / split / "data-00000-of-00001.arrow"
        place.parent.mkdir(parents=True)
        schema = table.schema.with_metadata(meta)
        with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_stream(sink, schema) as out:
            out.write_table(table)
    made = bring(tmp_path / "set")
    assert made.form.target == Classes(("neg", "pos"))
    assert [len(made.examples(split)) for split in SPLITS] == [30, 10, 10]


@EASY
@given(st.lists(st.integers(1, 9), min_size=30, max_size=40), st.sampled_from([(), (2,)]))
def test_arrays_come_out_as_they_went_in(lengths, channels):
    x = [np.arange(i, i + n) for i, n in enumerate(lengths)]
    if channels:
        x = [np.stack([row, row / 8], axis=1).astype(np.float32) for row in x]
    made = importer.import_arrays("mine", x, [WORDS[i % 2] for i in range(len(x))])
    assert numbers(made) == [row.tolist() for row in x]
    assert labels(made) == [WORDS[i % 2] for i in range(len(x))]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_labels_missing_in_a_table(tmp_path, name):
    y = ["a", None, "b", "NA", ""] * 12
    made = bring(write(tmp_path / name, {"text": [f"text {i}" for i in range(60)], "label": y}))
    assert labels(made) == ["a", None, "b", None, None] * 12
    assert "36 sequences have no label; they serve pretraining" in made.meta["about"]["notes"]


@pytest.mark.slow
@pytest.mark.needs_data("imdb")
def test_reviews_divided_by_film(needs_data):
    made = bring(needs_data / "imdb" / "train.parquet", label="label", group="movie")
    assert len(made.split) > 24_900
    assert made.form.target == Classes(("0", "1"))
    films = [set(made.examples(split).groups.tolist()) for split in SPLITS]
    assert not (films[0] & films[1] or films[0] & films[2] or films[1] & films[2])
    digests = [set(made.examples(split).digests()) for split in SPLITS]
    assert sum(map(len, digests)) == len(set().union(*digests))


def test_times_may_name_their_zone(tmp_path):
    times = [f"2024-05-01T{12 + zone:02}:{minute:02}:00{zone:+03}:00" for zone in (2, 0) for minute in (9, 0)]
    rows = [f"{i},{time},{at},{'ab'[i % 2]}" for i in range(30) for at, time in enumerate(times)]
    (tmp_path / "t.csv").write_text("\n".join(["id,time,v,label", *rows]) + "\n")
    options = ImportOptions(id="id", time="time", value="v")
    with pytest.raises(DataError, match=r"id '0' has two rows at time .*2024-05-01 12:00:00"):
        importer.plan_import(str(tmp_path / "t.csv"), options)
    zulu = [row.replace("+02:00", "+01:00").replace("+00:00", "Z") for row in rows]
    (tmp_path / "t.csv").write_text("\n".join(["id,time,v,label", *zulu]) + "\n")
    plan = importer.plan_import(str(tmp_path / "t.csv"), options)
    assert plan.sequences.flat[:4, 0].tolist() == [3, 2, 1, 0]
    (tmp_path / "t.csv").write_text("\n".join(["id,time,v,label", *zulu]).replace("Z,", ",") + "\n")
    with pytest.raises(DataError, match=r"all or none of them with a zone such as Z"):
        importer.plan_import(str(tmp_path / "t.csv"), options)


@pytest.mark.parametrize("name", ["__index_level_0__", "sample"])
def test_the_index_of_a_frame_of_pandas_is_no_position(tmp_path, name):
    columns = {f"t{i}": np.arange(30.0) % 7 + i for i in range(4)}
    table = pa.table(columns | {"label": ["a", "b"] * 15, name: np.arange(100, 130)})
    noted = {"index_columns": [name]} if name == "sample" else {}  # Hugging Face drops these metadata
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(noted)}), tmp_path / "t.parquet")
    plan = importer.plan_import(str(tmp_path / "t.parquet"))
    assert plan.layout["sequence"] == ["t0", "t1", "t2", "t3"] and plan.found["not used"] == name
    named = importer.plan_import(str(tmp_path / "t.parquet"), ImportOptions(sequence=f"t*,{name}"))
    assert named.layout["sequence"] == ["t0", "t1", "t2", "t3", name]


@pytest.mark.parametrize("name", ALL)
def test_true_and_false_are_1_and_0(tmp_path, name):
    marks = [[i % 3 == 0, i % 2 == 0, i % 5 == 0] for i in range(60)]
    columns = dict(zip(("a", "b", "c"), zip(*marks, strict=True), strict=True))
    found = bring(
        write(
            tmp_path / name, {key: list(cells) for key, cells in columns.items()} | {"label": WORDS[:2] * 30}
        )
    )
    assert numbers(found) == [[[int(mark)] for mark in row] for row in marks]
    rows = {"id": [i // 3 for i in range(180)], "t": list(range(180)), "x": [i / 4 for i in range(180)]}
    rows |= {"on": [mark for row in marks for mark in row], "label": np.repeat(WORDS[:2] * 30, 3).tolist()}
    found = bring(write(tmp_path / name, rows), id="id", time="t", value="x,on")
    assert [[on for _, on in row] for row in sorted(numbers(found))] == marks
    if name.endswith("sv"):
        written = [str([bool(i >> k & 1) for k in range(6)]) for i in range(60)]
        found = bring(write(tmp_path / name, {"x": written, "label": WORDS[:2] * 30}))
        assert numbers(found)[3][:3] == [1, 1, 0]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl"])
def test_text_tables_may_be_packed(tmp_path, name):
    columns = {"x": [f"naïve {i}, or so" for i in range(40)], "label": WORDS[:2] * 20}
    path = write(tmp_path / name, columns)
    plain = bring(path)
    packed = path.with_name(f"{name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    for origin in (packed, tmp_path):
        made = bring(origin)
        assert (texts(made), labels(made)) == (texts(plain), labels(plain))
    assert importer.suggested_name(str(packed)) == "t"
    packed.write_bytes(packed.read_bytes()[:-30])
    with pytest.raises(DataError, match=rf"{name}\.gz: it cannot be read \(Compressed file ended before"):
        bring(packed)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            pa.array([[("a", 1.0)]] * 9, pa.map_("string", "float64")),
            "'x' holds map<string, double.*; sequences",
        ),
        (
            pa.array([b"\xff\xfe"] * 9),
            "'x' holds bytes that are no text in UTF-8; .* --kind text takes every byte",
        ),
    ],
)
def test_columns_of_other_types_are_named(tmp_path, cells, said):
    path = write(tmp_path / "t.parquet", {"x": cells, "label": list("abcabcabc")})
    for read in ({}, {"sequence": "x"}):
        with pytest.raises(DataError, match=said):
            importer.plan_import(str(path), ImportOptions(**read))
    times = {"id": list("abcabcabc"), "t": cells, "x": [0.5] * 9, "label": list("abcabcabc")}
    write(path, times)
    with pytest.raises(DataError, match=r"'t' holds neither numbers nor times|two rows at time"):
        bring(path, id="id", time="t", value="x")


def test_decimals_and_dictionaries_are_read(tmp_path):
    x = [[Decimal(i) / 4, Decimal(1)] for i in range(40)]
    path = write(tmp_path / "t.parquet", {"x": x, "label": pa.array(WORDS[:2] * 20).dictionary_encode()})
    assert numbers(bring(path))[3] == [[0.75], [1]]


def test_ids_and_groups_that_look_alike_are_told(tmp_path):
    rows = {"id": [f"{i // 4}{'.0' * (i % 2)}" for i in range(240)], "t": list(range(240))}
    rows |= {"x": [i * 7 % 61 / 8 for i in range(240)], "label": np.repeat(WORDS[:2] * 30, 4).tolist()}
    path = write(tmp_path / "t.csv", rows)
    assert "different ids are equal as numbers: '0', '0.0'" in str(
        importer.plan_import(str(path), ImportOptions(id="id", time="t", value="x")).notes
    )
    rows = {"who": [f"{'Pp'[i % 2]}{i // 2}" for i in range(60)], "label": WORDS[:2] * 30}
    path = write(
        tmp_path / "t.csv", rows | {f"t{t}": [i * t % 61 / 8 for i in range(60)] for t in range(1, 5)}
    )
    assert "different groups are written almost alike: 'P0', 'p0'" in str(
        bring(path, group="who").meta["about"]
    )


def test_spaces_around_names_of_columns_are_dropped(tmp_path):
    lines = [f"{i}, {i % 7}, {'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["t0, t1, label ", *lines]))
    made = bring(tmp_path / "t.csv")
    assert made.form.target.names == ("a", "b") and numbers(made)[8] == [[8], [1]]


@pytest.mark.parametrize(
    "described",
    [
        {"patient": [i // 5 for i in range(60)]},
        {"Speaker_ID": [i // 5 for i in range(60)]},
        {"sample_id": [i * 7 % 60 for i in range(60)]},
        {"label_id": [i // 30 for i in range(60)]},
        {"class": [i // 30 for i in range(60)]},
        {"split": [i % 3 for i in range(60)]},
        {"No.": list(range(1, 61))},
        {"measured": [1_700_000_000 + i for i in range(60)]},
        {"Timestamp": [1_700_000_000 + 60 * i for i in range(60)]},
    ],
)
def test_what_tells_a_row_or_its_class_is_no_position(tmp_path, described):
    columns = {f"t{t}": [i * t % 61 / 8 for i in range(60)] for t in range(1, 5)}
    path = write(tmp_path / "t.csv", described | columns | {"state": ["a"] * 30 + ["b"] * 30})
    made = bring(path, label="state")
    assert numbers(made)[9] == [[9 * t % 61 / 8] for t in range(1, 5)]
    assert next(iter(described)) in made.meta["about"]["notes"][0]
    named = bring(path, label="state", sequence=",".join([*described, "t*"]))
    assert len(numbers(named)[9]) == 5


def test_a_pattern_of_columns_of_sequences_never_means_the_label_or_group(tmp_path):
    columns = {f"t{t}": [i * t % 61 / 8 for i in range(60)] for t in range(1, 4)}
    columns |= {"trial": [i // 6 for i in range(60)], "target": [i % 2 for i in range(60)]}
    path = write(tmp_path / "t.csv", columns)
    made = bring(path, sequence="t*", group="trial")
    assert numbers(made)[9] == [[9 * t % 61 / 8] for t in range(1, 4)]
    with pytest.raises(DataError, match="column 'target' is the label; sequences that hold it would tell"):
        bring(path, sequence="t1,t2,target")
    rows = {"id": [i // 5 for i in range(300)], "time": [i % 5 for i in range(300)]}
    rows |= {"v": [i * 7 % 61 / 8 for i in range(300)], "label": [i // 5 % 2 for i in range(300)]}
    path = write(tmp_path / "long.csv", rows)
    assert bring(path, id="id", time="time", value="*").form.signal.channels == 1
    with pytest.raises(DataError, match="column 'label' is the label"):
        bring(path, id="id", time="time", value="v,label")


@pytest.mark.parametrize(
    "described",
    [
        {"id": [f"sample-of-a-long-name-{i}" for i in range(60)]},
        {"patient": [f"patient number {i // 5} of the ward" for i in range(60)]},
        {"Sample_ID": [f"a{i:039x}" for i in range(60)]},
        {"measured": [f"2024-01-01 12:00:{i:02}.000+01:00" for i in range(60)]},
    ],
)
def test_text_that_tells_a_row_is_no_sequence_where_there_are_others(tmp_path, described):
    columns = {f"t{t}": [i * t % 61 / 8 for i in range(60)] for t in range(1, 5)}
    states = {"state": ["a"] * 30 + ["b"] * 30}
    made = bring(write(tmp_path / "t.csv", described | columns | states), label="state")
    assert numbers(made)[9] == [[9 * t % 61 / 8] for t in range(1, 5)]
    alone = bring(write(tmp_path / "t.csv", described | states), label="state")
    assert alone.meta["about"]["kind"] == "text"


def test_names_of_recordings_are_sequences_whatever_their_column_is_called(tmp_path):
    columns = {f"t{t}": [i * t % 61 / 8 for i in range(60)] for t in range(1, 5)}
    columns |= {"recording": [f"{i}.WAV" for i in range(60)], "label": ["a", "b"] * 30}
    path = str(write(tmp_path / "t.csv", columns))
    with pytest.raises(DataError, match=r"t\.csv names files such as '0\.WAV', which are not in"):
        importer.plan_import(path)
    plan = importer.plan_import(path, ImportOptions(kind="text"))
    assert plan.found["sequence"] == "recording (as bytes of UTF-8)"


def test_columns_of_numbers_beside_a_text_are_told(tmp_path):
    columns = {f"t{t}": [i * t % 61 / 8 for i in range(60)] for t in range(1, 5)}
    columns |= {"comment": [f"slept well, {i}" for i in range(60)], "label": ["a", "b"] * 30}
    path = write(tmp_path / "t.csv", columns)
    note = "the sequences are text; columns of numbers are not used: t1, t2, t3, t4"
    assert note in bring(path).meta["about"]["notes"]
    assert not any("text" in note for note in bring(path, sequence="comment").meta["about"]["notes"])


def test_a_test_file_in_which_another_text_is_the_longest_is_refused(tmp_path):
    for name, size in (("train", 9), ("test", 30)):
        texts = {"review": [f"r{i:019}" for i in range(30)], "summary": [f"s{i:0{size}}" for i in range(30)]}
        write(tmp_path / f"{name}.csv", texts | {"label": ["a", "b"] * 15})
    both = {"test": str(tmp_path / "test.csv"), "label": "label"}
    with pytest.raises(DataError, match=r"sequences are column 'review' of .*, but 'summary' of"):
        importer.plan_import(str(tmp_path / "train.csv"), ImportOptions(**both))
    named = importer.plan_import(str(tmp_path / "train.csv"), ImportOptions(**both, sequence="review"))
    assert set(named.sequences.lengths.tolist()) == {20}


def test_columns_that_rise_together_are_positions(tmp_path):
    columns = {f"t{t}": [i + t for i in range(60)] for t in range(4)}
    assert numbers(bring(write(tmp_path / "t.csv", columns | {"label": ["a", "b"] * 30})))[9][3] == [12]


@pytest.mark.parametrize("others", [("t0", "t1"), ("t0", "t1", "t2", "age"), ("t1", "t2", "t3")])
def test_a_test_file_with_other_positions_is_refused(tmp_path, others):
    for name, columns in {"a": ("t0", "t1", "t2"), "b": others}.items():
        table = {column: [i * 5 % 7 for i in range(30)] for column in columns}
        write(tmp_path / f"{name}.csv", table | {"label": ["a", "b"] * 15})
    with pytest.raises(DataError, match="is a position in only one of"):
        importer.plan_import(str(tmp_path / "a.csv"), ImportOptions(test=str(tmp_path / "b.csv")))


@pytest.mark.parametrize(
    ("cell", "read", "said"),
    [
        ("0.5", [[0.5]], ""),
        ("[0.5]", [[0.5]], ""),
        ("[np.float64(0.5), np.float64(1e-3)]", [[0.5], [0.001]], ""),
        ("[0.5, nan, 1.5]", [[0.5], [1.0], [1.5]], ""),
        ("[0.5 0.25 ... 1.5]", [], r"t\.csv, line 5, position 2: .* x\.tolist\(\) has all; --kind text"),
        (
            "[0.5, None]",
            [],
            r"t\.csv, line 5, position 1: .* holds 'None', not a number; write NaN .*; --kind text",
        ),
        ("not measured", [], r"t\.csv, line 5, position 0: .* holds 'not', not a number; --kind text"),
    ],
)
def test_one_odd_cell_among_lists_of_numbers_does_not_make_them_text(tmp_path, cell, read, said):
    cells = [f"{i / 8} {i} -1" for i in range(30)]
    cells[3] = cell
    path = write(tmp_path / "t.csv", {"x": cells, "label": ["a", "b"] * 15})
    assert bring(path, kind="text").meta["about"]["kind"] == "text"
    if said:
        with pytest.raises(DataError, match=said):
            bring(path)
    else:
        made = bring(path, missing="fill")
        assert numbers(made)[2] == [[0.25], [2], [-1]]
        assert numbers(made)[3] == np.float32(read).tolist()


def test_lists_as_numpy_writes_its_numbers(tmp_path):
    cells = [f"[np.float64({i / 8}), np.float32(-{i})]" for i in range(30)]
    made = bring(write(tmp_path / "t.csv", {"x": cells, "label": ["a", "b"] * 15}))
    assert numbers(made)[3] == [[0.375], [-3]]


@pytest.mark.parametrize("cell", ["1_000", "\uff11\uff12", "0x10"])
def test_what_only_python_takes_for_a_number_is_named_by_its_line(tmp_path, cell):
    columns = {f"t{t}": [str(i + t / 8) for i in range(30)] for t in range(3)} | {"label": ["a", "b"] * 15}
    columns["t1"][4] = cell
    with pytest.raises(DataError, match=f"t.csv, line 6: column 't1' holds '{cell}', not a number"):
        bring(write(tmp_path / "t.csv", columns))


def test_one_of_several_columns_of_written_numbers_must_be_named(tmp_path):
    cells = {name: [f"1 {i + 100}" for i in range(30)] for name in ("left", "right")}  # 1100 in France
    path = write(tmp_path / "t.tsv", cells | {"label": ["a", "b"] * 15})
    with pytest.raises(DataError, match="several columns hold lists; give --sequence: left, right"):
        bring(path)
    assert numbers(bring(path, sequence="left,right"))[0] == [[1, 1], [100, 100]]


def test_a_folder_tells_which_columns_are_not_read(tmp_path):
    table = {"t0": [i / 8 for i in range(30)], "t1": [0.5] * 30, "label": ["a", "b"] * 15}
    write(tmp_path / "a.csv", table)
    write(tmp_path / "b.csv", {"t2": [9] * 30} | table)
    note = "columns that a.csv lacks are not read in other files: t2"
    assert note in bring(tmp_path, sequence="t*").meta["about"]["notes"]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow"])
def test_categories_of_pandas_are_what_they_stand_for(tmp_path, name):
    def category(values, kind):
        return pa.array(values, kind).dictionary_encode()

    who, when = [i % 25 for i in range(100)], [3 - i // 25 for i in range(100)]
    what = [chr(97 + (5 * t + i) % 26) for i, t in zip(who, when, strict=True)]
    columns = {"id": category(who, pa.int16()), "time": category(when, pa.int64())}
    columns |= {"what": category(what, pa.string())}
    columns |= {"label": category(["xy"[i % 2] for i in who], pa.large_string())}
    made = bring(write(tmp_path / name, columns), id="id", time="time", value="what")
    row = sorted(map(str, range(25))).index("4")
    assert numbers(made)[row] == [4, 9, 14, 19] and labels(made)[row] == "x"


def test_texts_of_polars_are_read(tmp_path):
    columns = {"say": [f"text {i}" for i in range(30)], "label": ["a", "b"] * 15}
    views = {name: pa.array(cells).cast(pa.string_view()) for name, cells in columns.items()}
    made = bring(write(tmp_path / "t.arrow", views))
    assert texts(made)[3] == b"text 3" and labels(made)[3] == "b"


def test_decimals_of_databases_are_numbers(tmp_path):
    cells = [f"{i * 11 % 30}.25" for i in range(30)]
    columns = {"t0": pa.array(cells).cast(pa.decimal128(9, 2)), "t1": [i * 7 % 30 / 8 for i in range(30)]}
    columns |= {"t2": [0.5] * 30, "label": ["a", "b"] * 15}
    made = bring(write(tmp_path / "t.parquet", columns))
    assert numbers(made)[3] == [[3.25], [21 / 8], [0.5]]
