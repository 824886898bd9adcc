"""Folders of before are read as if they were written today."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from selfpretrain.errors import ForeignRun, StoreError
from selfpretrain.report import results

ROWS = {"attention": (0.60, 0.61, 0.72), "s4d": (0.70, 0.705, 0.71)}
MEASURE = {
    "title": "Attention distance", "x": "block", "y": "positions",
    "series": [{"label": "before", "x": [0, 1], "y": [3.2, 4.1]}],
}  # fmt: skip
PLACE = "Table 1", "Transformer", "Text"


@pytest.fixture
def new(make: Callable, scene: type) -> Path:
    """A study of two tasks; one of its cells stands beside a number of a paper."""
    first = scene(rows=ROWS, seeds=2, task="digits", test=50, label="Image", printed={("s4d", "SPT"): PLACE})
    second = scene(rows=ROWS, seeds=2, task="bidmc", test=50, kind="reals")
    return make(first, second, measures=[MEASURE], paper="amos2024")


@pytest.fixture
def old(new: Path, as_format1: Callable) -> Path:
    """The same study as it was written before."""
    return as_format1(new)


def test_nothing_is_lost(new: Path, as_format1: Callable) -> None:
    today = results.read(new)
    before = results.read(as_format1(new))
    assert replace(before.record, stamp="") == today.record
    assert before == today and (len(before.cells), before.missing, before.state) == (24, 0, "measured")


def test_a_comparison_is_an_experiment_of_one_task(make: Callable, scene: type, as_format1: Callable) -> None:
    found = results.read(as_format1(make(scene())))
    assert (found.record.name, found.record.scale, len(found.tasks)) == ("compare", "", 1)
    assert found.tasks[0].headline == ("SPT", "scratch, tied")
    assert found.tasks[0].at("attention", "SPT")[1].score is not None


def test_a_number_of_a_paper_is_looked_up_again(old: Path) -> None:
    (number,) = {cell.printed for cell in results.read(old).cells if cell.printed}
    assert (number.paper, number.table, number.column) == ("amos2024", "Table 1", "Text")
    assert (number.value, number.remark) == (64.27, "quoted from Tay et al. (2021)")


def test_tasks_of_a_study_are_not_listed_beside_it(
    old: Path, scene: type, make: Callable, as_format1: Callable
) -> None:
    alone, again = make(scene(seeds=1, task="text")), make(scene(seeds=1, task="listops"))
    as_format1(alone)
    assert set(results.experiments(old.parent)) == {old, alone, again}
    (part,) = old.parent.glob("toy-table-bidmc-*")
    assert results.experiments(part) == [part] and len(results.read(part).tasks) == 1


def test_a_task_that_is_gone_is_named(old: Path) -> None:
    (part,) = old.parent.glob("toy-table-bidmc-*")
    (part / "study.json").unlink()
    with pytest.raises(StoreError, match="toy-table-bidmc-1a2b3c4d5e is not there any more"):
        results.read(old)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"format": 9}, ForeignRun, "was written in format 9"),
        ({"figure": "pie"}, StoreError, "figure: Input should be 'none', 'bars' or 'lines'"),
        ({"parts": []}, StoreError, "at least one task"),
        ({"measures": [{"title": "x"}]}, StoreError, r"measures\.0\.x: Field required"),
        ({"measures": [MEASURE | {"series": [{"label": "a", "x": [1], "y": []}]}]}, StoreError, "as many x"),
    ],
)
def test_broken_sheets(old: Path, edit: Callable, change: dict, error: type, words: str) -> None:
    edit(old / "sheet.json", lambda content: content.update(change))
    with pytest.raises(error, match=words) as caught:
        results.read(old)
    assert "\n" not in str(caught.value)


def test_broken_tasks(old: Path, edit: Callable) -> None:
    (part,) = old.parent.glob("toy-table-digits-*")
    edit(part / "study.json", lambda content: content["cells"][-1]["printed"].pop("table"))
    with pytest.raises(StoreError, match=r"sheet\.json: tasks\.0\.cells\.11\.printed\.table: Field required"):
        results.read(old)
    edit(part / "study.json", lambda content: content["metric"].pop("tie"))
    with pytest.raises(StoreError, match=r"tasks\.0\.metric\.tie: Field required"):
        results.read(old)


def test_optional_fields_may_be_left_out(old: Path, edit: Callable) -> None:
    edit(
        old / "sheet.json",
        lambda content: [content.pop(key) for key in ("shared", "reading", "labels", "about")],
    )
    found = results.read(old)
    assert (found.record.asked, found.record.interpretation, found.record.about) == (0, "", {})
    assert [task.label for task in found.tasks] == ["digits", "bidmc"]
