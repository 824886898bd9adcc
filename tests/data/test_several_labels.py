"""Sets of labels and labels of positions, from whatever files people keep them in."""

import csv
import json

import numpy as np
import pytest

from selfpretrain.data.importing.importer import import_arrays, import_to_memory, plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.spec import ClassSets, PositionClasses
from selfpretrain.data.store import open_dataset
from selfpretrain.errors import DamagedData, DataError

L = 12
random = np.random.RandomState(0)
ROWS = [random.randn(L).round(2).tolist() for _ in range(40)]
SETS = [["up"], ["up", "down"], [], ["down"]] * 10
MARKS = [(["H"] * 4 + ["E"] * 8) if i % 2 else ["C"] * L for i in range(40)]


def table(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def lines(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def taken(origin, **options):
    return import_to_memory(plan_import(origin, ImportOptions(**options)))


def rows_of(found):
    """Targets in the order of the file, which splits do not change."""
    return found.whole.targets.tolist()


TIMES = [f"t{i}" for i in range(L)]


def test_sets_may_stand_in_one_cell_in_lists_or_in_columns_of_zeros_and_ones(tmp_path):
    cells = [[*row, "; ".join(told)] for row, told in zip(ROWS, SETS, strict=True)]
    one = taken(table(tmp_path / "one.csv", [*TIMES, "kinds"], cells), label="kinds", target="sets")
    objects = [{"x": row, "kinds": told} for row, told in zip(ROWS, SETS, strict=True)]
    lists = taken(lines(tmp_path / "l.jsonl", objects), label="kinds", sequence="x", target="sets")
    cells = [[*row, int("up" in told), int("down" in told)] for row, told in zip(ROWS, SETS, strict=True)]
    path = table(tmp_path / "many.csv", [*TIMES, "is_up", "is_down"], cells)
    many = taken(path, label="is_*", sequence="t*", target="sets")
    cells = [[*row, "up" in told, "down" in told] for row, told in zip(ROWS, SETS, strict=True)]
    path = table(tmp_path / "flags.csv", [*TIMES, "is_up", "is_down"], cells)  # as pandas.get_dummies has it
    assert rows_of(taken(path, label="is_*", sequence="t*", target="sets")) == rows_of(many)
    assert lists.form.target == ClassSets(("down", "up"))
    assert many.form.target == ClassSets(("is_up", "is_down"))  # the order of the table
    expected = [[int("down" in told), int("up" in told)] for told in SETS]
    assert rows_of(lists) == [row[::-1] for row in rows_of(many)] == expected
    unlabelled = [row if any(row) else [-1, -1] for row in expected]  # an empty cell says nothing
    assert rows_of(one) == unlabelled
    assert one.whole.labelled.tolist() == [any(row) for row in expected]


def test_columns_of_zeros_and_ones_keep_their_order_and_a_column_of_zeros_its_class(tmp_path):
    names = [f"is_{k}" for k in (10, 9, 2)]
    y = np.array([[i % 2, 0, int(i % 3 > 0)] for i in range(40)])
    cells = [[*row, *marks] for row, marks in zip(ROWS, y.tolist(), strict=True)]
    columns = taken(table(tmp_path / "t.csv", [*TIMES, *names], cells), label="is_*", target="sets")
    np.savez(tmp_path / "a.npz", x=np.array(ROWS), y=y)
    arrays = taken(str(tmp_path / "a.npz"), target="sets")
    for found, classes in ((columns, tuple(names)), (arrays, ("0", "1", "2"))):
        assert found.form.target == ClassSets(classes) and rows_of(found) == y.tolist()
        assert f"classes without any example: {classes[1]}" in found.meta["about"]["notes"]


def test_a_test_file_that_lacks_a_column_of_labels_is_refused(tmp_path):
    cells = [[*row, i % 2, i % 3 % 2] for i, row in enumerate(ROWS)]
    train = table(tmp_path / "train.csv", [*TIMES, "is_up", "is_down"], cells)
    test = table(tmp_path / "test.csv", [*TIMES, "is_up", "is_other"], cells)
    with pytest.raises(DataError, match="column 'is_down' is a label in only one of"):
        taken(train, test=test, label="is_*", sequence="t*", target="sets")


def test_labels_of_positions_may_be_letters_words_lists_or_a_column_of_a_long_table(tmp_path):
    expected = [["CEH".index(mark) for mark in marks] for marks in MARKS]
    for join in ("", " ", ","):
        cells = [[*row, join.join(marks)] for row, marks in zip(ROWS, MARKS, strict=True)]
        path = table(tmp_path / "letters.csv", [*TIMES, "marks"], cells)
        found = taken(path, label="marks", target="positions")
        assert rows_of(found) == expected and found.form.target == PositionClasses(("C", "E", "H"))
    greek = str.maketrans("CEH", "βδψ")
    cells = [[*row, "".join(marks).translate(greek)] for row, marks in zip(ROWS, MARKS, strict=True)]
    found = taken(table(tmp_path / "greek.csv", [*TIMES, "marks"], cells), label="marks", target="positions")
    assert rows_of(found) == expected and found.form.target.names == ("β", "δ", "ψ")
    objects = [{"x": row, "marks": marks} for row, marks in zip(ROWS, MARKS, strict=True)]
    objects[3]["marks"] = None
    objects[4]["marks"] = [None, *MARKS[4][1:]]
    found = taken(lines(tmp_path / "m.jsonl", objects), label="marks", sequence="x", target="positions")
    assert rows_of(found)[3] == [-1] * L and rows_of(found)[4] == [-1, *expected[4][1:]]
    long = [
        [i, t, ROWS[i][t], MARKS[i][t]]
        for i in range(40)
        for t in random.permutation(L).tolist()
        if t < 9 + i % 4
    ]
    path = table(tmp_path / "long.csv", ["who", "when", "what", "mark"], long)
    told = {"id": "who", "time": "when", "value": "what", "label": "mark", "target": "positions"}
    with pytest.raises(DataError, match=r"there is no column 'ma.'"):
        taken(path, **told | {"label": "ma*", "target": "sets"})
    found = taken(path, **told)
    order = sorted(range(40), key=str)  # as ids are sorted
    assert rows_of(found) == [expected[i][: 9 + i % 4] + [-1] * (3 - i % 4) for i in order]


def test_labels_may_be_lists_as_python_and_json_write_them(tmp_path):
    told = [["red, dark"], ["it's; blue", "red, dark"], [], ["grey"]] * 10
    for write in (repr, json.dumps):
        cells = [[*row, write(labels)] for row, labels in zip(ROWS, told, strict=True)]
        cells[3][-1] = "grey"
        found = taken(table(tmp_path / "t.csv", [*TIMES, "kinds"], cells), label="kinds", target="sets")
        names = ("grey", "it's; blue", "red, dark")
        assert found.form.target == ClassSets(names)
        assert rows_of(found) == [[int(name in labels) for name in names] for labels in told]
        cells = [[*row, write(marks)] for row, marks in zip(ROWS, MARKS, strict=True)]
        found = taken(table(tmp_path / "t.csv", [*TIMES, "marks"], cells), label="marks", target="positions")
        assert found.form.target == PositionClasses(("C", "E", "H"))
        assert rows_of(found) == [["CEH".index(mark) for mark in marks] for marks in MARKS]


@pytest.mark.parametrize("join", ["", " "])
def test_a_letter_that_stands_for_a_missing_label_is_no_class(join, tmp_path):
    some = [["?", *marks[1:]] for marks in MARKS]
    cells = [[*row, join.join(marks)] for row, marks in zip(ROWS, some, strict=True)]
    path = table(tmp_path / "letters.csv", [*TIMES, "marks"], cells)
    found = taken(path, label="marks", target="positions")
    assert found.form.target == PositionClasses(("C", "E", "H"))
    assert rows_of(found) == [[-1, *("CEH".index(mark) for mark in marks[1:])] for marks in MARKS]
    assert "'?' counts as a missing label or name" in found.meta["about"]["notes"]


def test_windows_and_cut_sequences_take_their_labels_along(tmp_path):
    arrays = {"x": np.array(ROWS), "y": np.array([["CEH".index(m) for m in marks] for marks in MARKS])}
    np.savez(tmp_path / "a.npz", **arrays)
    found = taken(str(tmp_path / "a.npz"), target="positions", window=5, stride=4)
    starts = found.whole.starts[0].numpy()
    for start, row in zip(starts.tolist(), rows_of(found), strict=True):
        assert row == arrays["y"].reshape(-1)[start : start + 5].tolist()
    cut = taken(str(tmp_path / "a.npz"), target="positions", length=7)
    assert rows_of(cut) == arrays["y"][:, :7].tolist()


@pytest.mark.parametrize(
    ("y", "target", "kind"),
    [
        (np.array([[1, 0], [0, 1], [1, 1], [0, 0]] * 10), "sets", ClassSets(("0", "1"))),
        (np.array([[0, 1] * 6, [1, 1] * 6] * 20), "positions", PositionClasses(("0", "1"))),
    ],
)
def test_several_labels_are_kept_on_disk_and_checked(y, target, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    found = import_arrays("mine", np.array(ROWS), y, options=ImportOptions(target=target))
    assert found.form.target == kind and rows_of(found) == y.tolist()
    assert found.whole.targets.numpy().dtype == np.int16
    folder = tmp_path / "own" / "mine"
    again = open_dataset(folder)
    assert again.form == found.form and again.digest == found.digest
    meta = json.loads((folder / "meta.json").read_text())
    meta["form"]["target"]["names"] = ["0"] if target == "positions" else ["0", "1", "2"]
    meta.pop("content_sha256")
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DamagedData, match=r"targets (are 0 to 1, of 1 classes|is int16 .*, not int16)"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("objects", "options", "said"),
    [
        ([{"y": ["a", "b"]}], {}, "y holds lists; say --target sets, or --target positions"),
        ([{"y": ["a", "b"]}], {"target": "positions"}, "line 1: 2 labels for 12 positions"),
        ([{"y": "AB"}], {"target": "positions"}, "line 1: 2 labels for 12 positions"),
        ([{"y": "A" * L}], {"target": "positions", "missing": "cut"}, "--missing cut leaves labels"),
        (
            [{"y": 2, "z": 1}],
            {"target": "sets", "label": "y,z"},
            "line 1: columns of labels hold 0 and 1, not 2",
        ),
        ([{"y": 1, "z": 1}], {"target": "sets", "label": "y,q"}, "there is no column 'q'"),
    ],
)
def test_mistakes_are_named(objects, options, said, tmp_path):
    objects = [{"x": row} | objects[0] for row in ROWS]
    with pytest.raises(DataError, match=said):
        taken(lines(tmp_path / "m.jsonl", objects), **{"label": "y", "sequence": "x"} | options)


def test_tables_that_do_not_fit_and_classes_that_training_lacks_are_refused(tmp_path):
    for y, target, said in (
        (np.zeros((40, 2), int), "auto", "say --target sets for a table of 0 and 1"),
        (np.zeros((3, 2), int), "sets", r"`y` has shape \(3, 2\), but there are 40 sequences"),
        (np.zeros((40, 5), int), "positions", "sequence 0: 5 labels for 12 positions"),
    ):
        np.savez(tmp_path / "a.npz", x=np.array(ROWS), y=y)
        with pytest.raises(DataError, match=said):
            taken(str(tmp_path / "a.npz"), target=target)
    objects = [
        {"x": row, "y": ["rare"] if i > 36 else ["a", "b"][: 1 + i % 2], "s": "test" if i > 35 else "train"}
        for i, row in enumerate(ROWS)
    ]
    with pytest.raises(DataError, match="class 'rare' is in val or test but not in train"):
        taken(lines(tmp_path / "m.jsonl", objects), label="y", sequence="x", split="s", target="sets")


def test_tokens_in_two_columns_are_refused(tmp_path):
    cells = [["1 2 3", "3 2 1", "same" if i % 2 else "other"] for i in range(40)]
    path = table(tmp_path / "pairs.csv", ["a", "b", "label"], cells)
    with pytest.raises(DataError, match="the sequences have 2 channels, and tokens have none; name one"):
        taken(path, sequence="a,b", kind="tokens")
