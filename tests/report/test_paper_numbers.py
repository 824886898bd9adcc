"""Reported numbers are those of the papers, row by row, and their slips are marked."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from selfpretrain.errors import UnknownName
from selfpretrain.report.paper_numbers import FOLDER, PAPERS, PaperNumber, look_up, reported

TEXTS = {
    "amos2024": "amos-2024-never-train-from-scratch.txt",
    "coser2025": "coser-orvieto-2025-understanding-self-pretraining.txt",
    "gu2022": "gu-2022-s4-appendix-d.txt",
    "tay2021": "gu-2022-s4-appendix-d.txt",  # which quotes it
}
ABSTRACT = "amos-2025-extended-abstract.txt"
ELSEWHERE = {("gu2022", "Table 2"), ("gu2022", "Table 3"), ("gu2022", "Table 5")}
"""Tables of pages that are not among the texts."""
COUNTS = {
    "amos2024": {"Table 1": 70, "Table 2": 64, "Table 3": 24, "Table 7": 40, "Table 8": 16, "Table 9": 20},
    "coser2025": {"Table 1": 25, "Table 2": 39, "Table 3": 25, "Table 4": 10, "Table 5": 48},
    "gu2022": {"Table 2": 18, "Table 3": 16, "Table 5": 30, "Table 10": 119},
    "tay2021": {"Table 1": 66},
}
RECOMPUTED = re.compile(r"recomputed(?: over its five scores)?: ([-+]?[\d.]+)")


def lines(paper):
    with (FOLDER / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows(paper):
    """Values as printed, by table and row."""
    found = {}
    for line in lines(paper):
        found.setdefault((line["table"], line["row"]), []).append(line["value"])
    return found


@pytest.fixture
def papers():
    folder = Path(__file__).resolve().parents[3] / "shared" / "papers"
    if not folder.is_dir():
        pytest.skip("needs the texts of the papers")
    return folder


def occurs(values, text):
    """Whether the values stand on one line of a text, in this order, with no other number between them."""
    printed = [r"(?<![\d.])" + re.escape(value) + r"(?![\d])" for value in values if value]
    return re.search(r"[^\d\n]*?(?:\^[^\n]*?)?".join(printed), text) is not None


@pytest.mark.parametrize("paper", PAPERS)
def test_every_row_stands_in_the_paper(paper, papers):
    text = (papers / TEXTS[paper]).read_text()
    told = {at: values for at, values in rows(paper).items() if (paper, at[0]) not in ELSEWHERE}
    if paper == "coser2025":
        # the gain of the first depth and the cost, in prose, are checked number by number
        told = {at: values for at, values in told.items() if at[0] != "Footnote 3"}
    assert [at for at, values in told.items() if not occurs(values, text)] == []


def test_the_extended_abstract_prints_the_same_tables(papers):
    text = (papers / ABSTRACT).read_text()
    told = {
        at: values for at, values in rows("amos2024").items() if at[0] in ("Table 1", "Table 2", "Table 3")
    }
    assert [at for at, values in told.items() if not occurs(values, text)] == []


def test_the_cost_of_an_epoch_stands_in_the_paper(papers):
    text = (papers / TEXTS["coser2025"]).read_text().partition("<sup>3</sup>")[2]
    for at, values in rows("coser2025").items():
        if at[0] == "Footnote 3":
            assert all(re.search(rf"(?<![\d.]){re.escape(v)} ?(s|m|min)\b", text) for v in values), at


@pytest.mark.parametrize("paper", PAPERS)
def test_no_cell_is_missing_or_twice(paper):
    found = Counter(line["table"] for line in lines(paper))
    assert {table: n for table, n in found.items() if table.startswith("Table")} == COUNTS[paper]
    assert len(reported(paper)) == sum(found.values())


@pytest.mark.parametrize("paper", ["amos2024", "gu2022"])
def test_averages_are_right_or_marked(paper):
    for (table, row, column), printed in reported(paper).items():
        if column != "Avg.":
            continue
        others = {c: n for (t, r, c), n in reported(paper).items() if (t, r) == (table, row)}
        counted = [n for c, n in others.items() if c not in ("Avg.", "PathX-256")]
        fifty = row != "Pythia 70M (Rand Init)" and "over its five" not in printed.remark
        values = [50.0 if n.value is None else n.value for n in counted if fifty or n.value is not None]
        mean, said = sum(values) / len(values), RECOMPUTED.search(printed.remark)
        assert (said is None) == (abs(mean - printed.value) <= 0.0101), (table, row)
        if said:
            assert mean == pytest.approx(float(said[1]), abs=0.0051)


def test_gains_are_right_or_marked():
    numbers = reported("coser2025")
    for (table, row, column), gain in numbers.items():
        if not column.endswith(", gain"):
            continue
        after = numbers[table, row, column.removesuffix(", gain")]
        control = {
            "Table 1": ("from scratch", column.removesuffix(", gain")),
            "Table 2": ("0 epochs", column.removesuffix(", gain")),
            "Table 5": (f"{row.partition(',')[0]}, from scratch, test", column.removesuffix(", gain")),
        }.get(table, (row, "from scratch"))
        truth, said = after.value - numbers[table, *control].value, RECOMPUTED.search(gain.remark)
        assert (said is None) == (abs(truth - gain.value) <= 0.0101), (table, row, column)
        if said:
            assert truth == pytest.approx(float(said[1]), abs=0.0051)


def test_papers_that_quote_each_other_agree():
    tay, gu, amos = (reported(paper) for paper in ("tay2021", "gu2022", "amos2024"))
    assert all(gu["Table 10", row, column].value == n.value for (_, row, column), n in tay.items())
    for (table, row, column), n in amos.items():
        if "quoted from Tay" in n.remark:
            assert gu["Table 10", row, column].value == n.value
        if table == "Table 2" and "quoted from Gu" in n.remark:
            assert gu["Table 10", "S4 (updated)", column].value == n.value
        if table == "Table 7" and row.startswith("S4") and row in ("S4", "S4 + SPT") and column != "Avg.":
            assert amos["Table 2", row.replace("SPT", "Masked SPT"), column].value == n.value
        if table == "Table 9" and column == "3M":
            place = "Table 2", row.replace("Transformer+Rotary", "Transformers + Rotary"), "Image"
            assert amos[place].value == n.value


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_not_a_number_says_why(paper):
    for n in reported(paper).values():
        assert n.value is not None or n.remark
        assert n.unit in ("%", "", "ms", "MB", "x", "M", "s", "min")


def test_every_file_is_a_paper():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(PAPERS)


def test_a_cross_is_no_number():
    place = "Table 1", "Transformer", "PathX"
    remark = "quoted from Tay et al. (2021); chance accuracy"
    assert look_up("amos2024", place) == PaperNumber("amos2024", *place, None, "%", remark)


@pytest.mark.parametrize(
    ("paper", "place", "said"),
    [
        ("amos2023", ("Table 1", "S4", "Text"), "did you mean 'amos2024'?"),
        ("amos2024", ("Table 99", "S4", "Text"), "there is no table 'Table 99'; did you mean 'Table 9'?"),
        ("amos2024", ("Table 2", "S4 + SPT", "Text"), "no row 'S4 + SPT'; did you mean 'S4 + Masked SPT'?"),
        ("amos2024", ("Table 2", "S4", "Txt"), "Table 2, S4: there is no column 'Txt'; did you mean 'Text'?"),
    ],
)
def test_an_unknown_name_gets_one_line(paper, place, said):
    with pytest.raises(UnknownName) as caught:
        look_up(paper, place)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
