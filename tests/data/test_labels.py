"""Labels stay what they are: no two words become one class, and what is changed is told."""

import enum
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from imports import bring
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.data.importing.label_columns import LabelColumn
from selfpretrain.data.importing.source import MISSING
from selfpretrain.data.labels import classes_of, doubts
from selfpretrain.data.sequences import Sequences
from selfpretrain.data.spec import Classes, Reals
from selfpretrain.errors import DataError

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def labelled(tmp_path):
    """A table whose labels are these words in turn, imported."""

    def labelled(words, **options):
        rows = [f'text {i},"{words[i % len(words)]}"' for i in range(24 * len(words))]
        (tmp_path / "t.csv").write_text("\n".join(["text,y", *rows]) + "\n", encoding="utf-8")
        return bring(tmp_path / "t.csv", **options)

    return labelled


def notes(made):
    return " | ".join(made.meta["about"]["notes"])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["01", "1", "1.0", "1e0"], ("1", "01", "1.0", "1e0")),
        (["1_000", "1000", "1e3"], ("1000", "1_000", "1e3")),
        (["9007199254740992", "9007199254740993"], ("9007199254740992", "9007199254740993")),
        (["02134", "02135", "94110"], ("02134", "02135", "94110")),
        (["1", "+1", "-1", "-01"], ("-1", "-01", "1", "+1")),
        (["inf", "-inf", "a"], ("-inf", "a", "inf")),
        (["1", "\N{FULLWIDTH DIGIT ONE}"], ("1", "\N{FULLWIDTH DIGIT ONE}")),
        (["10", "9", "8"], ("8", "9", "10")),
        (["true", "TRUE"], ("TRUE", "true")),
        (["caf\u00e9", "cafe\u0301"], ("cafe\u0301", "caf\u00e9")),
    ],
    ids=lambda value: "-".join(value).encode("ascii", "replace").decode() if isinstance(value, list) else "",
)
@pytest.mark.parametrize("target", ["auto", "classes"])
def test_every_word_is_a_class(labelled, words, names, target):
    made = labelled(words, target=target)
    assert made.form.target == Classes(names)
    assert made.whole.targets.bincount().tolist() == [24] * len(words)


def test_classes_that_may_be_one_are_told(labelled):
    assert "different classes are equal as numbers: '1', '01', '1.0'" in notes(labelled(["01", "1", "1.0"]))
    assert "written almost alike: 'Spam', 'spam'" in notes(labelled(["Spam", "spam", "eggs"]))
    assert "almost alike: 'cafe\u0301', 'caf\u00e9'" in notes(labelled(["caf\u00e9", "cafe\u0301"]))
    for words in (["1", "2", "3"], ["spam", "eggs"], ["9007199254740992", "9007199254740993"]):
        assert "write them alike" not in notes(labelled(words))


def test_spaces_and_missing_words_are_told(labelled):
    made = labelled(["a", " a", "b\t", "NA", "", "?"])
    assert made.form.target == Classes(("a", "b"))
    assert made.whole.targets[:6].tolist() == [0, 0, 1, -1, -1, -1]
    assert "spaces around 2 labels or names are dropped: ' a' is 'a'" in notes(made)
    assert "'?', 'NA' count as a missing label" in notes(made)
    assert "spaces" not in notes(labelled(["a", "b", ""]))


def test_real_numbers_are_told_and_names_among_them_refused(labelled):
    numbers = [str(i * 10) for i in range(1, 200)]
    made = labelled(numbers)
    assert isinstance(made.form.target, Reals)
    assert "y is taken for real numbers; --target classes makes it classes" in notes(made)
    assert "taken for" not in notes(labelled(numbers, target="reals"))
    with pytest.raises(DataError, match=r"t.csv, line 201: y is '0210', which is not .* --target classes"):
        labelled([*numbers, "0210"])
    assert isinstance(labelled([*numbers, "0210"], target="reals").form.target, Reals)
    assert len(labelled([*numbers, "0210"], target="classes").form.target.names) == 200
    codes = [f"{i:05d}" for i in range(300)]
    assert labelled(codes).form.target == Classes(tuple(codes))
    with pytest.raises(DataError, match="1e39"):
        labelled([*numbers, "1e39"], target="reals")
    with pytest.raises(DataError, match="1_0"):
        labelled([*numbers, "1_0"], target="reals")


def test_rounding_is_told(labelled, tmp_path):
    large = [str((1 << 53) + 1 + 1_000_000_007 * i) for i in range(150)]
    assert "whole numbers are rounded to float32, e.g. 9007199254740993" in notes(labelled(large))
    assert labelled(large, target="classes").form.target.names == tuple(large)
    small = [str(1 << i) for i in range(24)] + [str(i) for i in range(100_000, 100_100)]
    assert "rounded" not in notes(labelled(small))
    times = np.arange(60 * 4).reshape(60, 4) * 70_000_001
    made = import_arrays("mine", times.astype(float), np.arange(60) % 2)
    assert "whole numbers among the values are rounded to float32" in notes(made)
    made = import_arrays("mine", times / 1e9, np.arange(60) % 2)
    assert "rounded" not in notes(made)


@pytest.mark.parametrize("kind", ["int64", "uint64", "float64", "float32", "decimal128(20, 2)"])
def test_columns_of_numbers_keep_their_digits(tmp_path, kind):
    base = {"float64": 1 << 52, "float32": 1 << 23, "decimal128(20, 2)": 7}.get(kind, (1 << 62) + 1)
    values = [None if i % 10 == 9 else base + i % 3 for i in range(90)]
    column = pa.array(values, pa.decimal128(20, 2) if "decimal" in kind else kind)
    parquet.write_table(
        pa.table({"text": [f"text {i}" for i in range(90)], "label": column}), tmp_path / "t.parquet"
    )
    made = bring(tmp_path / "t.parquet")
    ends = ".00" if "decimal" in kind else ""
    assert made.form.target == Classes(tuple(f"{base + i}{ends}" for i in range(3)))


def test_numbers_that_json_writes_in_two_ways_are_one_and_those_of_nobody_else_are_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [json.dumps({"x": [i, 1], "label": i % 2 if i < 2000 else float(i % 2)}) for i in range(3000)]
    path.write_text("\n".join(rows))
    assert bring(path).form.target == Classes(("0", "1"))
    rows = [json.dumps({"x": [i, 1], "label": (1 << 60) + i % 2}) for i in range(100)]
    for x, label in (([1, 2], (1 << 64) + 1), ([1, (1 << 64) + 1], 1), ([1, 2], 0.5)):
        path.write_text("\n".join([*rows, json.dumps({"x": x, "label": label})]))
        with pytest.raises(DataError, match=r"t.jsonl, line 101: column '(x|label)' holds"):
            bring(path)


def test_names_of_classes_must_suffice(tmp_path):
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}
    meta = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    for last, said in ((7, "row 60: label 7, but the file names 2 classes"), (1.5, "not the numbers of 2")):
        table = pa.table({"text": [f"t {i}" for i in range(60)], "label": [*([0, 1] * 29), 0, last]})
        parquet.write_table(table.replace_schema_metadata(meta), tmp_path / "t.parquet")
        with pytest.raises(DataError, match=said):
            bring(tmp_path / "t.parquet")


def test_times_of_long_tables_keep_their_digits(tmp_path):
    first = 1_700_000_000_000_000_000
    rows = [f"{i % 20},{first + i},{i},{'ab'[i % 2]}" for i in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["who,when,v,label", *reversed(rows)]) + "\n")
    made = bring(tmp_path / "t.csv", id="who", time="when", value="v")
    assert made.whole.sequence(0)[:, 0].tolist() == [0, 20, 40, 60]


word = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=6).map(str.strip)
number = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)).map(str)
digits = st.from_regex(r"[-+]?[0-9]{1,4}\.?[0-9]{0,3}(e[0-9])?", fullmatch=True)


@given(st.lists(st.one_of(word, number, digits), min_size=2, max_size=60, unique=True))
def test_no_two_words_ever_become_one(said):
    said = [each for each in said if each not in MISSING]
    labels = LabelColumn("classes")
    ones = np.ones(2 * len(said), dtype=np.int64)
    words = pa.array([*said, *said[::-1]], pa.large_string())
    if len(said) > 1:
        encoded = labels.encode(
            Sequences("tokens", ones, ones, np.arange(len(ones)), columns={"label": words}), str
        )
        assert sorted(encoded.names) == sorted(said)
        assert [encoded.names[target] for target in encoded.targets] == [*said, *said[::-1]]


def test_members_of_an_enum_are_not_cut_to_one_word():
    Kind = enum.Enum("Kind", {"A1": "ant", "A2": "bee", "B": "cat"}, type=str)
    codes, classes = classes_of([Kind.B, Kind.A1, Kind.A2, Kind.A1])
    assert classes.tolist() == [Kind.A1, Kind.A2, Kind.B] and codes.tolist() == [2, 0, 1, 0]


@pytest.mark.parametrize(
    ("classes", "doubted"),
    [
        ([-1, 0, 1], True),
        ([-100, 0, 1, 2], True),
        ([-1, 1], False),
        ([-2, -1, 0], False),
        ([0, 1, 2], False),
        (["-1", "0", "1"], False),
    ],
)
def test_a_number_that_often_means_missing_is_told_to_be_a_class(classes, doubted):
    assert bool(doubts(np.array(classes))) == doubted
