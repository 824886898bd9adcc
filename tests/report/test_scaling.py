"""Slopes are those of power laws, and a figure is drawn from whatever was measured."""

import csv
import io
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from selfpretrain.report.figures import scaling
from selfpretrain.report.figures.scaling import Measurement, Report


def power(mixer, exponent, sizes=(256, 512, 1024), along="length"):
    where = [(n, 64) if along == "length" else (1024, n) for n in sizes]
    return [
        Measurement(mixer, *place, 4, 100, 1e-6 * n**exponent, round(1000 * n**exponent))
        for n, place in zip(sizes, where, strict=True)
    ]


FAILED = Measurement("attention", 2048, 64, 4, reason="out of memory [says libc]")
REPORT = Report((*power("attention", 2), FAILED, *power("s4", 1)))


def shown(report):
    console = Console(file=io.StringIO(), width=120)
    console.print(scaling.table(report))
    return console.file.getvalue()


@given(st.floats(-3, 3), st.floats(1e-6, 1e6), st.lists(st.integers(1, 10**6), min_size=2, unique=True))
def test_slope_of_a_power_law(exponent, factor, sizes):
    assert scaling.slope([(x, factor * x**exponent) for x in sizes]) == pytest.approx(exponent, abs=1e-6)
    assert scaling.slope([]) is scaling.slope([(8, 1.0), (8, 2.0)]) is None


def test_table_tells_slopes_and_failures():
    text = shown(REPORT)
    assert text.count("out of memory [says libc]") == 1
    ends = [line.split() for line in text.splitlines() if "slope" in line]
    found = [(words[0], *words[-2:]) for words in ends]
    assert found == [("attention", "2.00", "2.00"), ("s4", "1.00", "1.00")]


def test_width_may_grow_instead():
    report = Report(tuple(power("lssl", 3, (64, 128), "width")))
    assert report.along == "width"
    assert report.points("lssl", "seconds") == [(64, 1e-6 * 64**3), (128, 1e-6 * 128**3)]
    assert "width" in scaling.figures(report)["svg"].decode()
    readings = power("attention", 2, (256,)), power("s4", 1, (64,), "width")
    assert Report((*readings[0], *readings[1])).along == "length"


def test_csv_holds_everything():
    rows = list(csv.DictReader(io.StringIO(scaling.document(REPORT))))
    assert [row["reason"] for row in rows].count("out of memory [says libc]") == 1
    assert [float(row["seconds"] or -1) for row in rows] == [r.seconds or -1 for r in REPORT.readings]


def test_figures_are_images_and_the_same_each_time():
    drawn = scaling.figures(REPORT)
    assert drawn == scaling.figures(REPORT)
    assert drawn["png"].startswith(b"\x89PNG")
    text = "".join(ElementTree.fromstring(drawn["svg"]).itertext())
    assert text.count("attention, slope 2.00") == text.count("s4, slope 1.00") == 2
    assert all(size in text for size in ("256", "512", "1k", "2k"))
    assert "mathdefault" not in text


@pytest.mark.parametrize("readings", [(), (FAILED,), tuple(power("s4", 1, (64,)))])
def test_little_is_drawn_too(readings):
    assert set(scaling.figures(Report(readings))) == {"svg", "png"}
    assert "mixer" in shown(Report(readings))


WORDS = {
    (0.01214, 47_010_000): "12.1 ms  47 MB",
    (2.4, 0): "2,400 ms  0 MB",
    (5e-7, 999): "0.0005 ms  0.000999 MB",
}


def test_readings_in_words():
    for (seconds, size), words in WORDS.items():
        line = Measurement("s4", 1024, 128, 4, 1, seconds, size).line()
        assert line == f"s4  length 1024  width 128  {words}"
