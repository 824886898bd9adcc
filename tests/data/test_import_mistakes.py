"""What strangers' tables look like: they are imported, or refused in one line that names row and column."""

import errno
import os
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from imports import bring
from selfpretrain.cli import app
from selfpretrain.data import store
from selfpretrain.data.importing import importer, source
from selfpretrain.data.importing.columns import TableLayout, read_rows
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.importing.tables import open_table
from selfpretrain.data.paths import imported_datasets
from selfpretrain.errors import DataError

ROOT = Path(__file__).resolve().parents[2]


pytestmark = pytest.mark.usefixtures("home")


def left_behind(home):
    return [p.name for p in home.glob("own/*") if not p.name.startswith(".")]


KINDS = ["spam", "eggs", "toast", "ham"]


def odd_rows(sep=",", quote='"'):
    """Five classes of which one has two rows; quotes, separators and line ends in texts; labels missing."""
    for i in range(120):
        said = [f"naïve {i}", f"a {quote}{quote}b{quote}{quote}{sep} {i}", f"two\nlines {i}", f"Größe {i}"][
            i % 4
        ]
        yield f"{i}{sep}{quote}{said}{quote}{sep}{KINDS[i % 4] if i % 10 else ''}"
    yield f"{120}{sep}rare one{sep}rare"
    yield f"{121}{sep}rare two{sep}rare"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_a_strangers_table_is_imported(tmp_path, end, sep, code):
    said = end.join([f"id{sep}text{sep}label", *odd_rows(sep)]) + end
    (tmp_path / "t.csv").write_bytes(said.encode(code))
    made = bring(tmp_path / "t.csv")
    notes = made.meta["about"]["notes"]
    assert made.whole.sequence(0).tobytes() == "naïve 0".encode()
    assert made.whole.sequence(1).tobytes() == f'a "b"{sep} 1'.encode()
    assert made.form.target.names == ("eggs", "ham", "rare", "spam", "toast")
    assert "12 sequences have no label; they serve pretraining" in notes
    assert any("class 'rare' (2 examples) is not in val and test" in note for note in notes)


def table(*rows, header="text,label"):
    good = [f"text number {i},{'ab'[i % 2]}" for i in range(40)]
    return "\n".join([header, *good, *rows]) + "\n"


def wide(*rows):
    good = [f"{i},{i / 2},{i * 3},{'ab'[i % 2]}" for i in range(40)]
    return "\n".join(["t0,t1,t2,label", *good, *rows]) + "\n"


def lines(*rows):
    return "\n".join([*(f'{{"x": [{i}, 1], "label": "{"ab"[i % 2]}"}}' for i in range(40)), *rows]) + "\n"


def events(*rows):
    good = [f"{i % 20},{i // 20},{i / 4},{'ab'[i % 2]}" for i in range(80)]
    return "\n".join(["who,time,v,label", *good, *rows]) + "\n"


LONG = {"id": "who", "time": "time", "value": "v"}
TEXT, TOKENS, VALUES = {"kind": "text"}, {"kind": "tokens"}, {"kind": "values"}
ONE_TEXT = "text is one column, not title, body; name one, or join them in the file"
SPLIT = "text,label,is_test\n" + "".join(f"text {i},{'ab'[i % 2]},{i // 20}\n" for i in range(40))
SERIES = "@classLabel true a b\n@data\n"
MISTAKES = [
    ("t.csv", table("one, two, three"), {}, r"t\.csv, line 42: 3 cells where the header has 2"),
    ("t.csv", table("alone"), {}, r"t\.csv, line 42: 1 cells where the header has 2"),
    ("t.csv", table('"never closed,a'), {}, r"t\.csv.*quote"),
    ("t.csv", table(",a"), {}, "line 42: there is no sequence; --missing drop"),
    ("t.csv", "", {}, r"t\.csv is empty"),
    ("t.csv", "text,label\n", {}, "no rows"),
    ("t.csv", "text,text,label\n", {}, "two columns called 'text'"),
    ("t.csv", f"# my study\n{table()}", {}, "first line, '# my study', looks like a comment"),
    ("t.csv", f"#1\n#2\n{table().replace(',', ';')}", {}, "first line, '#1', looks like a comment"),
    ("t.csv", table(header="#text,label").replace("5,b", "5,b,c", 1), {}, "line 7: 3 cells where the header"),
    ("t.csv", table(header="text,kind"), {}, "which column holds the labels.*text, kind"),
    ("t.csv", table(), {"label": "lable"}, "no column 'lable'; did you mean 'label'"),
    ("t.csv", table(), {"group": "patient"}, "no column 'patient'"),
    ("t.csv", table(), {"sequence": "txt"}, "did you mean 'text'"),
    ("t.csv", table(), {"sequence": "x*"}, r"no column matches 'x\*'"),
    ("t.csv", table(), {"target": "reals"}, "line 2: label is 'a', which is not a finite number"),
    ("t.csv", table(), {"encoding": "klingon"}, "klingon"),
    ("t.csv", table(), {"id": "text"}, "a long table needs --id, --time and --value"),
    ("t.csv", table(), {"kind": "values", "sequence": "text"}, "line 2.*'text' holds 'text', not a number"),
    ("t.csv", table(header="title,body"), {"sequence": "title,body", "label": "title"} | TEXT, ONE_TEXT),
    ("t.csv", table(header="title,body"), {"sequence": "title,body", "label": "title"}, ONE_TEXT),
    ("t.csv", wide("1,x,3,a"), {}, "line 42: column 't1' holds 'x', not a number"),
    ("t.csv", wide('1,"2,5",3,a'), {}, "'2,5', not a number; write decimals with a point"),
    ("t.csv", wide("1,2,,a"), {}, "line 42: column 't2' is missing, inf.*--missing drop leaves the row out"),
    (
        "t.csv",
        wide("1,,3,a"),
        {"missing": "cut"},
        "line 42: column 't1' is missing.*cut .* where only missing values",
    ),
    ("t.csv", wide(), {"kind": "text"}, "column 't0' holds numbers, not text"),
    (
        "t.csv",
        wide(),
        {"label": "t0"},
        "every label of t0 is a class of its own, such as '0'; give --target rea",
    ),
    ("t.csv", wide(), {"split": "t0"}, "there is no split '3'"),
    ("t.csv", SPLIT, {"split": "is_test"}, r"is_test holds 0 \(train\) and 1 \(val\), .*; if 1 is test, wri"),
    ("t.jsonl", lines("{'x': 1}"), {}, r"t\.jsonl, line 41: this is not JSON"),
    ("t.jsonl", lines("[1, 2]"), {}, "line 41: this is not an object"),
    ("t.jsonl", lines('{"x": "y", "label": "a"}'), {}, "line 41: column 'x' holds 'y', other than rows bef"),
    ("t.jsonl", lines('{"x": [1, "y"], "label": "a"}'), {}, r"line 41: column 'x' holds .*y.*, other than"),
    ("t.jsonl", lines('{"x": [1, -2], "label": "a"}'), TOKENS, "line 41.*position 1 is -2, not a token"),
    ("t.jsonl", lines('{"x": null, "label": "a"}'), {}, "line 41: there is no sequence"),
    ("t.jsonl", lines('{"x": [1, null], "label": "a"}'), VALUES, "line 41: column 'x', position 1 is miss"),
    ("t.jsonl", lines('{"x": [1, 2], "label": {"a": 1}}'), {}, "line 41: column 'label' holds"),
    (
        "t.jsonl",
        '{"x": ["the", "cat"], "label": "a"}\n',
        {},
        "holds lists of words, such as 'the'; number the",
    ),
    (
        "t.jsonl",
        '{"x": [{"v": 1}], "label": "a"}',
        {},
        "'x' holds struct<v: int64>, not numbers; sequences are",
    ),
    ("t.jsonl", '{"x": {"v": 1}, "label": "a"}', {}, "column 'x' holds struct<v: int64>; sequences are num"),
    (
        "t.jsonl",
        '{"x": [0.5], "label": {"a": 1}}',
        {},
        "label must be words or numbers, not struct<a: int64>",
    ),
    ("t.jsonl", '{"x": [[0.5], [1, 2]], "label": "a"}', {}, r"line 1, position 1: .* \[1, 2\] channels"),
    ("t.csv.gz", "PK", {}, r"t\.csv\.gz: it cannot be read \(Not a gzipped file"),
    ("t.csv", wide("#DIV/0!,2,3,a"), {}, "column 't0' holds '#DIV/0!', not a number; write NaN where"),
    ("t.csv", wide('"1,234",2,3,a'), {}, "thousands without a sign"),
    (
        "t.csv",
        "subject,date,acc,label\np1,2024-01-01,1,a\np1,2024-01-02,2,a\n",
        {},
        "no column looks like seq",
    ),
    ("t.parquet", "PAR1 or not", {}, r"t\.parquet: it cannot be read"),
    ("t.feather", "ARROW or not", {}, r"t\.feather: it cannot be read"),
    ("t.xlsx", "PK", {}, r"t\.xlsx ends in none of \.csv.*; save it as one of these, e\.g\. with pandas$"),
    ("t.csv.bz2", "PK", {}, r"t\.csv\.bz2 ends in none of \.csv.*; unpack it first$"),
    (
        "t.csv",
        events("7,3,1,a"),
        LONG,
        r"id '7' has two rows at time 3 \(t.csv, line 69; t.csv, line 82\); leave",
    ),
    ("t.csv", events("NA,9,1,a"), LONG, "line 82: who is 'NA', which counts as empty; every row needs one"),
    ("t.csv", "timestamp,v,label\n1,2,a\n2,3,b\n", {}, "if rows are positions, --id, --time and --value"),
    ("t.csv", events("7,9,1,a"), LONG, "agree on label, 'a' and 'b'; .*, or --target positions"),
    ("t.csv", events(",9,1,a"), LONG, "line 82: who is empty"),
    ("t.csv", events("7,,1,b"), LONG, "line 82: time is empty"),
    ("t.csv", events("7,soon,1,b"), LONG, "column 'time' holds neither numbers nor times"),
    (
        "t.csv",
        events("7,9,err,b"),
        LONG,
        "line 82: column 'v' holds 'err', not a number; --kind tokens takes",
    ),
    ("t.csv", events("7,9,,b"), LONG, "id '7': column 'v', position 4 is missing"),
    ("t.csv", events("7,9,,b"), LONG | {"value": "w"}, "no column 'w'"),
    (
        "t.ts",
        f"{SERIES}1,2:a\n",
        {"group": "who"},
        r"t\.ts: --group is for tables, recordings, texts; leave it out$",
    ),
    ("t.ts", f"{SERIES}1,2:a\n", {"value": "v"}, r"t\.ts: --value is for long tables; leave it out$"),
    ("t.ts", "a,b:c\n", {}, "no @data line"),
    ("t.ts", "@timestamps true\n@classLabel true\n@data\n", {}, "time stamps"),
    ("t.ts", "@classLabel false\n@data\n1,2:a\n", {}, "neither @classLabel nor @targetLabel"),
    ("t.ts", f"{SERIES}1,2:3,4:a\n1,2:b\n", {}, "line 4: 1 dimensions, lines before have 2"),
    ("t.ts", f"{SERIES}1,2:3:a\n", {}, "line 3: dimensions of 1 to 2 positions"),
    ("t.ts", f"{SERIES}1,zwei:a\n", {}, "line 3, dimension 0: 'zwei' is not a number"),
]


@pytest.mark.parametrize(
    ("name", "said", "reading", "advice"), MISTAKES, ids=[advice for *_, advice in MISTAKES]
)
def test_a_strangers_mistake_is_named(tmp_path, home, name, said, reading, advice):
    (tmp_path / name).write_text(said)
    with pytest.raises(DataError, match=advice) as caught:
        bring(tmp_path / name, **reading)
    assert "\n" not in str(caught.value)
    assert left_behind(home) == []


def test_rows_that_cannot_be_read_are_left_out_and_explained_on_request(tmp_path):
    rows = [f"{i} {i + 1}" for i in range(9)]
    rows[3], rows[7] = "4 x 5", "y"
    (tmp_path / "t.csv").write_text("\n".join(["seq", *rows]))
    table = open_table(tmp_path / "t.csv")
    layout = TableLayout("written", ["seq"], "values")
    with pytest.raises(DataError, match=r"t\.csv, line 5, position 1: column 'seq' holds 'x', not a number"):
        read_rows(table, layout)
    found = read_rows(table, layout, wrong={})
    assert found.rows.tolist() == [0, 1, 2, 4, 5, 6, 8]
    assert found.flat[:6, 0].tolist() == [0, 1, 1, 2, 2, 3]
    assert list(found.wrong.values()) == [
        f"position {place}: column 'seq' holds '{word}', not a number" for place, word in ((1, "x"), (0, "y"))
    ]


def test_folders_that_hold_nothing_of_use(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no table"):
        bring(tmp_path / "empty")
    (tmp_path / "empty" / "a.txt").write_text("hello")
    with pytest.raises(DataError, match=r"a\.txt lies outside of class folders; .*give --label"):
        bring(tmp_path / "empty")
    with pytest.raises(DataError, match=r"a\.txt: --label x\(y\) finds nothing"):
        bring(tmp_path / "empty", label="x(y)")
    with pytest.raises(DataError, match="not a regular expression"):
        bring(tmp_path / "empty", label="x(y")


def test_letters_of_another_alphabet_late_in_a_file(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        table().encode() + b"%b,a\n" % (b"x" * 80) * 20_000 + "ö,b\n".encode("latin-1")
    )
    with pytest.raises(
        DataError,
        match=r"line 20042: column .* holds .*, which is not UTF-8; give --encoding, e\.g\. latin-1",
    ):
        bring(tmp_path / "t.csv")


def test_the_hub_is_not_waited_for(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("huggingface_hub.constants", "datasets.config"):  # which have read it, if they are imported
        if name in sys.modules:
            monkeypatch.setattr(sys.modules[name], "HF_HUB_OFFLINE", True)
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *server, **_: asked.append(server))
    with pytest.raises(DataError, match=r"pip install|not downloaded yet"):
        importer.plan_import("hf:nobody/nothing", ImportOptions(label="label"))
    assert asked == []


def test_a_full_disk_leaves_nothing_behind(tmp_path, home, monkeypatch):
    (tmp_path / "t.csv").write_text(table())
    first = bring(tmp_path / "t.csv").digest

    def full(*_, allow_pickle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.np, "save", full)
    with pytest.raises(
        DataError, match=r"mine: the disk is full; free some space .*, or set SELFPRETRAIN_DATA"
    ):
        bring(tmp_path / "t.csv")
    monkeypatch.undo()
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(home))
    assert store.open_dataset(imported_datasets()["mine"]).digest == first
    assert left_behind(home) == ["mine"]


@pytest.mark.parametrize("name", ["t.csv", "t.npy", "t.ts", "folder"])
def test_more_than_an_import_may_hold_in_memory_is_refused(tmp_path, home, monkeypatch, name):
    monkeypatch.setattr(source, "MAX_BYTES", 300)
    (tmp_path / "t.csv").write_text(table())
    np.save(tmp_path / "t.npy", np.ones((40, 9)))
    np.save(tmp_path / "t.y.npy", np.arange(40) % 2)
    (tmp_path / "t.ts").write_text("@classLabel true a b\n@data\n" + "1,2,3:a\n3,4,5:b\n" * 20)
    for i in range(40):
        place = tmp_path / "folder" / "ab"[i % 2] / f"{i}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"this is text {i}")
    with pytest.raises(DataError, match=r"holds more than 300 bytes of sequences, .*; import a part of it"):
        bring(tmp_path / name)
    assert left_behind(home) == []


def cli(*arguments):
    return app.run(["data", "import", *map(str, arguments)])


def test_the_command_shows_what_it_found_and_did_and_replaces_nothing_unasked(tmp_path, capsys, home):
    (tmp_path / "My Own.csv").write_text(table())
    assert cli(tmp_path / "My Own.csv", "--dry-run") == 0
    assert "text (as bytes of UTF-8)" in capsys.readouterr().out
    assert imported_datasets() == {}
    assert cli(tmp_path / "My Own.csv") == 0
    out = capsys.readouterr().out
    assert "28 train, 6 val, 6 test" in out
    assert "selfpretrain compare --task my-own" in out
    assert list(imported_datasets()) == ["my-own"]
    assert cli(tmp_path / "My Own.csv") == 2
    assert "--yes replaces them" in capsys.readouterr().err
    assert cli(tmp_path / "My Own.csv", "--yes") == 0


@pytest.mark.parametrize(
    ("label", "flags", "said"),
    [
        ("[0, 1]", (), "say --target sets, or --target positions"),
        ("[0, 1]", ("--target", "positions"), "one class per position"),
        ("1.5", (), "a real number per sequence"),
        ("1", (), "one class per sequence"),
    ],
)
def test_a_dry_run_says_what_is_predicted_or_why_it_cannot_be(tmp_path, capsys, home, label, flags, said):
    rows = "".join(f'{{"x": [0.5, {i}.5], "y": {label}}}\n' for i in range(9))
    (tmp_path / "t.jsonl").write_text(rows)
    code = cli(tmp_path / "t.jsonl", "--label", "y", "--dry-run", *flags)
    printed = capsys.readouterr()
    assert said in " ".join((printed.out + printed.err).split())
    assert code == (2 if said.startswith("say") else 0)


def test_copies_of_two_sequences_are_too_few(tmp_path, capsys, home):
    (tmp_path / "t.csv").write_text("text,label\n" + "aba,f\nbab,m\n" * 30)
    assert cli(tmp_path / "t.csv", "--label", "label") == 2
    assert "2 different sequences with a label cannot fill three splits" in capsys.readouterr().err
