"""Rows of text files never vanish, and their numbers are what was written: they are read so, or refused."""

import csv
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selfpretrain.data.importing.importer import import_to_memory, plan_import
from selfpretrain.data.importing.options import ImportOptions
from selfpretrain.data.importing.tables import open_table
from selfpretrain.errors import DataError

EASY = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def rows_of(path, **options):
    table = open_table(path, **options)
    return [list(row.values()) for batch in table.batches(table.columns) for row in batch.to_pylist()]


def written(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


def test_a_folder_has_all_its_rows_whichever_columns_are_read(tmp_path):
    written(tmp_path / "train.csv", "word", "one", "two", "three")
    written(tmp_path / "test.csv", "word", "four", "five")
    table = open_table(tmp_path)
    for columns in (["split"], ["word"], ["split", "word"]):
        rows = [row for batch in table.batches(columns) for row in batch.to_pylist()]
        assert len(rows) == 5 and all(list(row) == columns for row in rows)
    assert [row["split"] for row in rows].count("test") == 2


def test_rows_of_a_folder_are_named_by_file_and_line(tmp_path):
    for split in ("train", "test"):
        (tmp_path / "set" / split).mkdir(parents=True)
        rows = [f"{i},{i + 1},{'ab'[i % 2]}" for i in range(5)]
        written(tmp_path / "set" / split / "part.csv", "t0,t1,label", *rows, "", "7,8,a")
    notes = plan(tmp_path / "set").notes
    assert [note for note in notes if "lines hold" in note] == [
        f"{split}/part.csv: 7 lines hold 6 rows; the others are empty or comments"
        for split in ("test", "train")
    ]
    written(tmp_path / "set" / "train" / "part.csv", "t0,t1,label", "1,2,a", "3,x,b")
    with pytest.raises(DataError, match=r"^train/part\.csv, line 3: column 't1' holds 'x', not a number"):
        plan(tmp_path / "set")
    written(tmp_path / "set" / "train" / "part.csv", "t0,label", "1,a", "3,b")
    with pytest.raises(DataError, match=r"^train/part\.csv: there is no column 't1'"):
        plan(tmp_path / "set")


def plan(path, **options):
    return plan_import(str(path), ImportOptions(**options))


def sequences(path, **options):
    made = import_to_memory(plan(path, **options))
    return [made.whole.sequence(row).reshape(-1).tolist() for row in range(len(made.split))], made


# Quotes


letters = st.text(st.sampled_from("ab\",;\t|\n\r' 1é"), max_size=6)
table_cells = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(letters, min_size=width, max_size=width), min_size=2, max_size=8)
)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@EASY
@given(table_cells)
def test_tables_of_any_dialect_are_read_as_written_or_refused_by_line(tmp_path, separator, quoting, rows):
    path = tmp_path / ("t.tsv" if separator == "\t" else "t.csv")
    names = [f"name {i}" for i in range(len(rows[0]))]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator, quoting=quoting).writerows([names, *rows])
    try:
        assert rows_of(path) == rows
    except DataError as error:
        assert separator == "\t" and ", line " in str(error)


@pytest.mark.parametrize("separator", [",", "\t"])
@EASY
@given(st.lists(st.tuples(letters, st.sampled_from("ab")), min_size=2, max_size=8))
def test_lines_written_without_quoting_keep_their_rows_or_are_refused(tmp_path, separator, rows):
    rows = [[text.translate(str.maketrans("\n\r\t,", "    ")), kind] for text, kind in rows]
    path = written(
        tmp_path / ("t.tsv" if separator == "\t" else "t.csv"),
        f"text{separator}kind",
        *map(separator.join, rows),
    )
    try:
        found = rows_of(path)
    except DataError as error:
        assert ", line " in str(error)
    else:
        if separator == "\t" and any(text.startswith('"') for text, _ in rows):
            assert len(found) == len(rows)
        assert len(found) == len(rows) or open_notes(path)


def open_notes(path):
    table = open_table(path)
    list(table.batches(table.columns))
    return table.notes()


def test_a_quote_that_is_not_closed_is_a_letter_between_tabs_and_an_error_between_commas(tmp_path):
    lines = [f"{'ab'[i % 2]}\t{chr(34) if i == 40 else ''}message {i}" for i in range(100)]
    path = written(tmp_path / "t.tsv", "kind\ttext", *lines)
    assert rows_of(path) == [line.split("\t") for line in lines]
    path = written(tmp_path / "t.csv", "kind,text", *(line.replace("\t", ",") for line in lines))
    with pytest.raises(DataError, match=r"t\.csv, line 42: a quote that is not closed"):
        rows_of(path)


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        (
            "t.tsv",
            ["kind\ttext", "a\tone", 'b\t"two', 'a\tthree"', "b\tfour"],
            r"line 3: a quote .* 1 lines below",
        ),
        ("t.tsv", ["text", '"one', 'two"', "three"], "line 2: a quote that opens here"),
        ("t.csv", ["text,kind", "one,a", '"two" three,b'], "line 3: a cell in quotes goes on"),
        ("t.csv", ["text", '"one', "two", "three"], "line 2: a quote that is not closed"),
    ],
)
def test_quotes_that_may_have_swallowed_rows_are_refused(tmp_path, name, lines, said):
    with pytest.raises(DataError, match=said):
        rows_of(written(tmp_path / name, *lines))


def test_line_breaks_in_quoted_cells_are_read_and_counted(tmp_path):
    path = written(
        tmp_path / "t.csv", "\ufefftext,kind", '"two\nlines",a', '"say ""hi"", b\n\nc",b', "", "one,a"
    )
    assert rows_of(path) == [["two\nlines", "a"], ['say "hi", b\n\nc', "b"], ["one", "a"]]
    assert open_notes(path) == ["t.csv: 7 lines hold 3 rows; the row in line 4 has 3 lines"]
    assert open_notes(written(tmp_path / "t.csv", "text,kind", "one,a", "two,b")) == []


def test_an_empty_line_is_an_empty_cell_where_there_is_one_column(tmp_path):
    assert rows_of(written(tmp_path / "t.csv", "text", "one", "", "two", "", "")) == [["one"], [""], ["two"]]


@pytest.mark.parametrize("odd", ["", "7"])
def test_columns_without_name_and_content_are_left_out(tmp_path, odd):
    rows = [f"{i};{i / 2};{'ab'[i % 2]};{odd};{odd}" for i in range(30)]
    path = written(tmp_path / "t.csv", "t0;t1;label;;", *rows)
    if odd:
        with pytest.raises(DataError, match="two columns called ''; rename one"):
            plan(path)
    else:
        assert sequences(path)[0][3] == [3, 1.5]


def test_rows_are_named_by_their_lines(tmp_path):
    path = written(tmp_path / "t.csv", "1,2,a", "", "3,4,b", '5,6,"c\nd"', "7,x,a")
    with pytest.raises(DataError, match=r"t\.csv, line 6: column 'c2' holds 'x'"):
        import_to_memory(plan(path, header=False, label="c3"))
    rows = [
        json.dumps({"text": "film " + ("\ud83d" if i == 3 else ""), "label": "ab"[i % 2]}) for i in range(6)
    ]
    path = written(tmp_path / "t.jsonl", "", *rows)
    with pytest.raises(DataError, match=r"line 5: column 'text' holds '\\ud83d', half of a letter"):
        rows_of(path)


# Separators


@pytest.mark.parametrize(
    ("name", "lines", "rows"),
    [
        ("t.tsv", ["a\tone, two, three", "b\tone"], [["a", "one, two, three"], ["b", "one"]]),
        ("t.csv", ["a\tone, two", "b\tthree, four"], [["a", "one, two"], ["b", "three, four"]]),
        ("t.csv", ["0,5;1,5;2,5", "1,5;0,25;3,0"], [["0,5", "1,5", "2,5"], ["1,5", "0,25", "3,0"]]),
        ("t.csv", ["a;b;well, yes", "a;c;no"], [["a", "b", "well, yes"], ["a", "c", "no"]]),
        ("t.csv", ["1;2;3,a", "1;2,b"], [["1;2;3", "a"], ["1;2", "b"]]),
        ("t.csv", ["a,b|c", "d,e|f"], [["a", "b|c"], ["d", "e|f"]]),
        ("t.csv", ["1 2 3,0", "4 5 6,1"], [["1 2 3", "0"], ["4 5 6", "1"]]),
        (
            "t.txt",
            ["  1.0e+00  -7.1e-01   2 ", "   2.0 3   4", ""],
            [["1.0e+00", "-7.1e-01", "2"], ["2.0", "3", "4"]],
        ),
        ("t.txt", ["1 0,5 0,7", "2 0,25 1,5"], [["1", "0,5", "0,7"], ["2", "0,25", "1,5"]]),
        ("t.csv", ["good morning", "good night"], [["good morning"], ["good night"]]),
    ],
)
def test_separators_are_what_makes_rows_equally_long(tmp_path, name, lines, rows):
    assert rows_of(written(tmp_path / name, *lines), header=False) == rows


# Decimal commas


def table_of(values, separator, decimal, labels=None):
    labels = labels or ["ab"[i % 2] for i in range(len(values))]
    names = [*(f"t{i}" for i in range(len(values[0]))), "label"]
    rows = [
        [*(str(v).replace(".", decimal) for v in row), label]
        for row, label in zip(values, labels, strict=True)
    ]
    return [separator.join(row) for row in [names, *rows]]


numbers = st.one_of(
    st.integers(-999, 999), st.integers(-(10**6), 10**6).map(lambda i: i / 1000), st.just(1.5e-7)
)
tables_of_numbers = st.lists(
    st.lists(numbers, min_size=3, max_size=3), min_size=12, max_size=12, unique_by=tuple
)


@EASY
@given(st.sampled_from([";", "\t", ",", " "]), tables_of_numbers, st.booleans())
def test_decimal_commas_are_read_as_written_or_refused(tmp_path, separator, values, real_target):
    labels = [f"{i},25" for i in range(12)] if real_target else None
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        rows = [line.split("\0") for line in table_of(values, "\0", ",", labels)]
        csv.writer(file, delimiter=separator).writerows(rows)
    try:
        found, made = sequences(path)
    except DataError:
        clear = any(
            "." in str(v) and not (abs(v) >= 1 and len(str(v).split(".")[1]) == 3)
            for row in values
            for v in row
        )
        assert separator in ", " or not (clear or real_target)
    else:
        np.testing.assert_allclose(found, values, rtol=1e-6)
        assert made.form.target.kind == ("reals" if real_target else "classes")
        if real_target:
            np.testing.assert_allclose(made.whole.targets, np.arange(12) + 0.25)


VALUES = [[i + 0.5, i / 4, -i] for i in range(12)]


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (
            table_of([[f"{i},{j}34" for j in range(1, 4)] for i in range(1, 13)], ";", "."),
            {},
            "'1,134', not a number",
        ),
        (
            table_of([[f"1,{i}34,567", "1,000", "3"] for i in range(1, 10)], ";", "."),
            {},
            "'1,134,567', not a number",
        ),
        (
            table_of([["0,5", "1.5", str(i)] for i in range(9)], ";", "."),
            {},
            "'0,5', not a number; write decimals",
        ),
        (
            [*table_of(VALUES, ";", ","), "1,5;1.234;2;a"],
            {},
            r"line 14: column 't1' holds '1\.234', but other",
        ),
        ([*table_of(VALUES, ";", ","), "1,5;1.234,5;2;a"], {}, r"line 14: column 't1' holds '1\.234,5'"),
        (table_of(VALUES, ";", ","), {"sequence": "t0", "kind": "values"}, "one per cell; name several"),
        (["x;label", *(f"0,5 0,{i};a" for i in range(9))], {}, "separate numbers by commas or by spaces"),
        (["text,label", *(f'text {i},"0,{i}"' for i in range(1, 9))], {}, "label '0,1' may be a number"),
    ],
)
def test_commas_of_unclear_meaning_are_refused(tmp_path, lines, options, said):
    with pytest.raises(DataError, match=said):
        import_to_memory(plan(written(tmp_path / "t.csv", *lines), **options))


AMOUNTS = [f"{i + 1}.120,50;{i},5;{'ab'[i % 2]}" for i in range(12)]


@pytest.mark.parametrize("options", [{}, {"sequence": "t*"}])
def test_numbers_with_signs_between_thousands_are_no_lists(tmp_path, options):
    path = written(tmp_path / "t.csv", "t0;t1;label", *AMOUNTS)
    with pytest.raises(DataError, match=r"'t0' separates thousands; write 1120\.50"):
        plan(path, **options)
    path = written(tmp_path / "t.csv", "t0;t1;label", *(f"{i + 1}.120;{i};{'ab'[i % 2]}" for i in range(12)))
    assert "numbers such as 1.120 have a decimal point; if it separates" in plan(path).notes[0]
    path = written(tmp_path / "t.csv", "t0;t1;label", *(f"{i + 1}.12;{i};{'ab'[i % 2]}" for i in range(12)))
    assert plan(path).notes == []


@pytest.mark.parametrize(
    "cell",
    ["{} mV", "{}%", "\u2212{}.5", "1\u00a0{}", "1'{}", "1 {},5", "[[{}, 1], [2, 3]]", "array([{}, 2.5])"],
)
def test_numbers_in_a_form_that_is_not_read_are_no_text_and_no_events(tmp_path, cell):
    rows = [f"p{i // 4};{i};{cell.format(100 + i)};{i % 7};{i % 5};{'ab'[i // 4 % 2]}" for i in range(80)]
    path = written(tmp_path / "t.csv", "id;time;t0;t1;t2;label", *rows)
    for options in ({"sequence": "t0"}, {"id": "id", "time": "time", "value": "t0"}):
        with pytest.raises(DataError, match=r"column 't0' (holds .* not read as a number|separates thous)"):
            plan(path, **options)
        assert plan(path, **options, kind="text" if "sequence" in options else "tokens").signal == "tokens"
    rows = [f"{i % 5 + 1} %;{';'.join(str(i * t % 7) for t in range(1, 6))};{'ab'[i % 2]}" for i in range(40)]
    path = written(tmp_path / "t.csv", "t0;t1;t2;t3;t4;t5;label", *rows)
    assert plan(path).notes[0].startswith("column 't0' is not used: it holds '1 %', which is not read")


def test_a_column_with_spaces_between_thousands_is_no_column_of_lists(tmp_path):
    rows = [f"{i} 120;{i};{i % 5};{'ab'[i % 2]}" for i in range(1, 40)]
    path = written(tmp_path / "t.csv", "t0;t1;t2;label", *rows)
    with pytest.raises(DataError, match="column 't0' may hold numbers with spaces between thousands"):
        plan(path)
    assert sequences(path, sequence="t0")[0][4] == [5, 120]


@pytest.mark.parametrize("missing", ["nan", "NaN", "null"])
def test_lists_that_all_lack_a_number_are_lists(tmp_path, missing):
    rows = [f"[{i}.5, {missing}, 1.5];{'ab'[i % 2]}" for i in range(40)]
    path = written(tmp_path / "t.csv", "x;label", *rows)
    with pytest.raises(DataError, match="line 2: column 'x', position 1 is missing"):
        sequences(path)
    assert sequences(path, missing="fill")[0][5] == [5.5, 3.5, 1.5]


@pytest.mark.parametrize("date", ["{:02}.01.2024 12:30", "1/{}/2024 1:30 PM", "2024/01/{:02}"])
def test_dates_of_all_countries_are_no_sequences_beside_numbers(tmp_path, date):
    rows = [f"{date.format(i % 28 + 1)};{i % 7};{i % 5};{'ab'[i % 2]}" for i in range(40)]
    made = plan(written(tmp_path / "t.csv", "when;t1;t2;label", *rows))
    assert made.layout["sequence"] == ["t1", "t2"]


def test_columns_that_are_named_are_read_or_refused(tmp_path):
    path = written(tmp_path / "t.csv", "t1;t2;label", *(f"{i} 2 3;{i};{'ab'[i % 2]}" for i in range(12)))
    with pytest.raises(DataError, match=r"'t1' holds lists, but 't2' does not; give --sequence one kind"):
        plan(path, sequence="t*")


def test_columns_of_json_may_begin_after_many_lines(tmp_path):
    rows = [
        {"x": [i, 1, 2]} | ({"label": "ab"[i % 2], "split": "test"} if i > 199 else {}) for i in range(240)
    ]
    made = plan(written(tmp_path / "t.jsonl", *map(json.dumps, rows)))
    assert made.found["not used"] == "split"
    assert made.sequences.columns["label"].null_count == 200


def test_the_first_line_may_tell_excel_the_separator(tmp_path):
    for line in ("sep=;", '"sep=;"'):
        path = written(
            tmp_path / "t.csv", line, "t0;t1;label", *(f"0,5;{i},25;{'ab'[i % 2]}" for i in range(12))
        )
        assert plan(path).found["file"] == "t.csv (semicolons, utf-8)"


@pytest.mark.parametrize("code", ["utf-16-le", "utf-16-be", "windows-1252"])
def test_encodings_are_known_without_a_mark(tmp_path, code):
    lines = ["label,text", *(f"{'ab'[i % 2]},“naïve” · {i} €" for i in range(12))]
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode(code))
    made = sequences(tmp_path / "t.csv")[1]
    assert made.whole.sequence(0).tobytes().decode() == "“naïve” · 0 €"


@pytest.mark.parametrize("code", ["", "utf-8", "UTF-8", "utf8", "utf-16", "utf-16-le"])
def test_the_mark_of_an_encoding_is_no_part_of_the_first_name(tmp_path, code):
    lines = ["t0,t1,t2,label", *(f"{i},{i * i},{-i},{'ab'[i % 2]}" for i in range(12))]
    text = "\n".join(["\ufeff" * (code != "utf-16") + lines[0], *lines[1:]])
    (tmp_path / "t.csv").write_bytes(text.encode(code or "utf-8"))
    assert plan(tmp_path / "t.csv", encoding=code, sequence="t*").layout["sequence"] == ["t0", "t1", "t2"]


def test_zeros_at_the_end_of_a_file_are_not_taken_for_utf_16(tmp_path):
    rows = "".join(f"some text {i},{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "t.csv").write_bytes(f"text,label\n{rows}".encode() + bytes(4096))
    with pytest.raises(DataError, match=r"t\.csv, line 14: 1 cells where the header has 2"):
        plan(tmp_path / "t.csv")


def test_bytes_that_are_not_of_the_encoding_are_named_with_it(tmp_path):
    rows = "".join(f"für {i},{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "t.csv").write_bytes(f"text,label\n{rows}".encode("cp850"))
    with pytest.raises(DataError, match=r"which is not windows-1252; give --encoding"):
        plan(tmp_path / "t.csv")


@pytest.mark.parametrize("said", ["-", "None", "unknown"])
def test_classes_that_may_mean_a_missing_label_are_noted(tmp_path, said):
    label = ["a", "b", said, "n/a", "#N/A", "<NA>"]
    path = written(tmp_path / "t.csv", "text,label", *(f"some text {i},{label[i % 6]}" for i in range(60)))
    made = sequences(path)[1]
    assert set(made.form.target.names) == {"a", "b", said}
    notes = made.meta["about"]["notes"]
    assert f"'{said}': a class like any other; empty such cells if the label is missing there" in notes


@pytest.mark.parametrize("code", ["utf-16", "latin-1"])
def test_json_of_another_encoding_says_what_to_do(tmp_path, code):
    rows = "".join(f'{{"text": "naïve {i}", "label": {i % 2}}}\n' for i in range(12))
    (tmp_path / "t.jsonl").write_bytes(rows.encode(code))
    with pytest.raises(DataError, match=r"^t\.jsonl: .*it holds bytes that are not utf-8; save it as UTF-8"):
        plan(tmp_path / "t.jsonl")


def test_strings_of_json_with_decimal_commas_are_no_lists(tmp_path):
    rows = [{"a": f"0,{i}", "b": f"1,{i}", "label": "ab"[i % 2]} for i in range(10, 30)]
    path = written(tmp_path / "t.jsonl", *map(json.dumps, rows))
    with pytest.raises(DataError, match="'0,10', not a number; write decimals with a point"):
        import_to_memory(plan(path))


def test_commas_of_sets_and_lists_stay_what_they_are(tmp_path):
    sets = table_of(VALUES, ";", ".", ["0,1", "1", "0,2", "2"] * 3)
    made = sequences(written(tmp_path / "t.csv", *sets), target="sets")[1]
    assert made.form.target.names == ("0", "1", "2")
    lists = ["seq;label", *(f"{i},2,3;{'ab'[i % 2]}" for i in range(12))]
    assert sequences(written(tmp_path / "t.csv", *lists))[0][5] == [5, 2, 3]


def test_long_tables_have_decimal_commas(tmp_path):
    rows = [f"p{i % 12};{i // 12},5;{i},25;{'ab'[i % 2]}" for i in range(36)]
    path = written(tmp_path / "t.csv", "who;when;what;label", *rows)
    found, _ = sequences(path, id="who", time="when", value="what")
    assert [0.25, 12.25, 24.25] in found


# ARFF


def arff(path, *data, attributes=("text string", "kind {a,b}")):
    return written(path, "@relation r", *(f"@attribute {name}" for name in attributes), "@data", *data)


escapable = st.text(st.sampled_from("ab',\"\\% {}é"), min_size=1, max_size=8)


@EASY
@given(st.lists(escapable, min_size=1, max_size=8), st.sampled_from("'\""))
def test_quoted_cells_of_arff_are_read_without_their_quotes(tmp_path, cells, quote):
    def quoted(cell):
        return quote + cell.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote

    data = [line for cell in cells for line in (f"{quoted(cell)}, a", "% a comment", "")]
    assert rows_of(arff(tmp_path / "t.arff", *data)) == [[cell, "a"] for cell in cells]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{0 1.5, 2 a}", "sparse ARFF is not read"),
        ("'open,a", "a quote that is not closed"),
        ("'one' two,a", "a quote that is not closed, or"),
        ("one,a % note", "or % in a cell"),
        ("'one','two',a", "3 cells where the header has 2"),
    ],
)
def test_errors_of_arff_name_the_line(tmp_path, line, said):
    path = arff(tmp_path / "t.arff", "'fine',a", "% a comment", "", line)
    with pytest.raises(DataError, match=rf"t\.arff, line 8: .*{said}" if "cells" not in said else said):
        rows_of(path)


def test_attributes_of_arff_with_one_name_are_refused(tmp_path):
    lines = ["@attribute x numeric", "@attribute x numeric", "@attribute class {a,b}", "@data", "1,2,a"]
    with pytest.raises(DataError, match=r"t\.arff has two attributes called 'x'; rename one"):
        rows_of(written(tmp_path / "t.arff", *lines))


# Labels of positions


def test_labels_per_letter_say_that_letters_may_be_several_positions(tmp_path):
    words = [f"naïve{i}" for i in range(9)]
    path = written(tmp_path / "t.csv", "text,label", *(f"{word},{'x' * len(word)}" for word in words))
    with pytest.raises(
        DataError, match=r"line 2: 6 labels for 7 positions.*outside ASCII is 2 to 4 positions"
    ):
        import_to_memory(plan(path, target="positions"))
