"""The page of a study over several tasks: golden text, the paper's numbers, and what must be said plainly."""

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from selfpretrain.errors import ForeignRun, StoreError
from selfpretrain.report import certainty, format, sheet, sheet_page, sheet_table
from selfpretrain.report import old_results as results
from selfpretrain.report.figures import charts
from selfpretrain.report.old_results import Metric, Printed
from selfpretrain.report.statistics import holm

GOLDEN = Path(__file__).with_name("golden") / "sheet.md"
ROWS = {"attention": (0.60, 0.61, 0.72), "s4d": (0.70, 0.705, 0.71), "lstm": (0.45, 0.47, 0.50)}
TWO = {name: ROWS[name] for name in ("attention", "s4d")}
MEASURE = {
    "title": "Attention distance", "x": "block", "y": "positions",
    "series": [{"label": "before", "x": [0, 1], "y": [3.2, 4.1]}],
}  # fmt: skip
Row = tuple[str, ...]


def printed(row: str, value: float | None, unit: str = "%", remark: str = "") -> dict[str, Any]:
    """What a paper's table says of a row."""
    place = {"paper": "amos2024", "table": "Table 8", "row": row, "column": "Image 40 %"}
    return place | {"value": value, "unit": unit, "remark": remark}


def texts(table: Any) -> list[Row]:
    return [tuple(entry.text for entry in row) for row in table.rows]


def markdown(found: Any) -> str:
    return sheet_page.as_markdown(found, sheet_page.sections(found))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, gather: Callable, scene: type) -> Path:
    """Two tasks with other metrics, six seeds, numbers of a paper, and one cell missing."""
    of_paper = {
        ("attention", "SPT"): printed("Transformer", 84.95),
        ("s4d", "SPT"): printed("S4", 0.8772, "", "as a fraction"),
        ("s4d", "scratch"): printed("S4", None, "", "did not learn"),
    }
    missing = frozenset({("attention", "SPT", 3), ("attention", "SPT", 5)})
    first = scene(rows=TWO, seeds=6, task="digits", printed=of_paper, missing=missing, test=300)
    rr = {("s4d", "SPT"): printed("S4", 1.31, "breaths")}
    second = scene(kind="reals", rows=TWO, seeds=6, task="bidmc", printed=rr, baselines={}, test=200)
    changes = {"measures": [MEASURE]}
    folder = gather(tmp_path_factory.mktemp("runs"), [first, second], ["Image", "BIDMC"], changes)
    sheet.write(folder)
    return folder


@pytest.fixture
def small(tmp_path: Path, gather: Callable, scene: type) -> Callable[..., Path]:
    """A sheet over some rows on as many tasks as asked for."""

    def made(rows: dict[str, Any], tasks: int = 1, seeds: int = 3, **changes: Any) -> Path:
        scenes = [scene(rows=rows, seeds=seeds, task=f"task {at}", test=200) for at in range(tasks)]
        return gather(tmp_path / "runs", scenes, [""] * tasks, changes)

    return made


def test_page_is_golden(whole: Path) -> None:
    """After a deliberate change: copy the file that this test names over the one in golden/."""
    assert (whole / "page.md").read_text() == GOLDEN.read_text(), whole / "page.md"


def test_figures_of_the_page_are_there(whole: Path) -> None:
    text = (whole / "page.md").read_text()
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert named == ["page.svg", "page-2.svg", "gain.svg", "gain-2.svg", "measure.svg"]
    assert {path.name for path in whole.glob("*.svg")} == set(named)
    for name in named:
        root = ElementTree.fromstring((whole / name).read_text())
        assert root[0].tag.endswith("rect") and root[0].attrib["fill"] == "#ffffff"


def test_html_stands_alone_and_says_the_same(whole: Path) -> None:
    html, text = (whole / "page.html").read_text(), (whole / "page.md").read_text()
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttp|src=|<link (?!rel=\"icon\")", html)
    assert len(html.encode()) < 300_000 and html.count("<svg") == 5
    ids = re.findall(r'<(?:clipPath|path) id="([^"]+)"', html)
    assert len(ids) == len(set(ids)), "figures on one page must not share names"
    plain = re.compile(r"\d+\.\d ± \d+\.\d \(\d\)")
    assert plain.findall(html) == plain.findall(text) != []
    assert "It is, a <strong>little</strong>." in html and "Is <em>it</em>?" in html


def test_latex_has_every_table(whole: Path) -> None:
    tex, text = (whole / "page.tex").read_text(), (whole / "page.md").read_text()
    assert tex.count("\\begin{table}") == text.count("\n### ") == 6
    assert len(set(re.findall(r"\\label{([^}]+)}", tex))) == 6


def test_csv_has_every_cell_and_the_paper(whole: Path) -> None:
    lines = list(csv.DictReader((whole / "results.csv").open(newline="")))
    assert len(lines) == 72 and {line["task"] for line in lines} == {"digits", "bidmc"}
    of_paper = {(line["task"], line["row"], line["printed_value"], line["printed_unit"]) for line in lines}
    assert ("digits", "attention", "84.95", "%") in of_paper and (
        "bidmc",
        "s4d",
        "1.31",
        "breaths",
    ) in of_paper
    assert sum(line["printed_table"] == "Table 8" for line in lines) == 24
    assert [line["state"] for line in lines].count("missing") == 2


def test_writing_twice_gives_the_same_bytes(small: Callable) -> None:
    folder = small(TWO, figure="lines")
    first = {kind: path.read_bytes() for kind, path in sheet.write(folder).items()}
    assert {kind: path.read_bytes() for kind, path in sheet.write(folder).items()} == first


def test_the_paper_stands_beside(whole: Path) -> None:
    found = sheet_table.results(sheet.read(whole))
    headings = ("model", "arm", "Image (digits), accuracy in %", "paper", "BIDMC, R²", "paper")
    assert found.headings == headings
    rows = {row[:2]: row for row in texts(found)}
    assert [rows[name, "SPT"][3] for name in TWO] == ["84.95", "87.72"]
    assert rows["s4d", "scratch"][3] == rows["attention", "scratch"][3] == format.NONE
    assert rows["s4d", "SPT"][5] == "1.31 breaths"
    assert found.caption.endswith("Paper: Amos et al. (2024), Table 8.")


@pytest.mark.parametrize(
    ("value", "unit", "metric", "shown"),
    [
        (84.95, "%", "%", 84.95),
        (0.48, "", "%", 48.0),
        (0.7, "", "", 0.7),
        (1.31, "breaths", "", None),
        (None, "%", "%", None),
    ],
)
def test_units_of_papers(value: float | None, unit: str, metric: str, shown: float | None) -> None:
    ours = Metric("accuracy", metric, 100.0, 1, 0.01)
    assert charts.comparable(Printed("amos2024", "Table 1", "a", "b", value, unit), ours) == shown
    assert charts.comparable(None, ours) is None


def test_missing_cells_are_named(whole: Path) -> None:
    found = sheet.read(whole)
    assert sheet_page.missing(found) == ["Image (digits): attention, SPT: seeds 3 and 5."]
    assert (found.state, found.seeds) == ("unfinished, 70 of 72 cells", 6)


def test_parts_that_were_never_planned(small: Callable, edit: Callable) -> None:
    folder = small(TWO)
    edit(folder / "sheet.json", lambda content: content["parts"].append("elsewhere"))
    found = sheet.read(folder)
    assert found.absent == ("elsewhere",) and found.state == "unfinished, 18 of 18 cells"
    assert "elsewhere: nothing has been planned yet." in markdown(found)


def test_nothing_run(small: Callable) -> None:
    folder = small(TWO, tasks=2, figure="lines", shared=None)
    for result in folder.parent.glob("stages/*/result.json"):
        result.unlink()
    sheet.write(folder)
    text = (folder / "page.md").read_text()
    assert "Nothing has been run yet." in text and "task 1: nothing has been run, 18 cells." in text
    assert "| not run |  |" in sheet.index([folder])


def test_smoke_proves_nothing(small: Callable) -> None:
    folder = small(TWO, scale="smoke", reading="")
    made = sheet.write(folder)
    shown = io.StringIO()
    Console(file=shown, width=100).print(sheet.show(folder))
    for text in (made["markdown"].read_text(), made["html"].read_text(), shown.getvalue()):
        assert "proves nothing" in " ".join(text.split()) and "is better for" not in text
    assert sheet.index([folder]).rstrip().endswith("| proves nothing |")


def test_terminal_shows_the_table(whole: Path) -> None:
    shown = io.StringIO()
    Console(file=shown, width=70).print(sheet.show(whole))
    text = " ".join(shown.getvalue().split())
    assert "84.95" in text and "It is, a **little**." in text and "seeds 3 and 5" in text and "…" not in text


def test_p_values_are_corrected_over_rows_and_tasks(whole: Path) -> None:
    found = sheet.read(whole)
    table = certainty.gains(found)
    every = [gain for part in found.parts for gain in part.analysis.gains]
    assert table.headings[-2:] == ("sign-flip p", "Holm p") and len(table.rows) == len(every) == 8
    for control in ("scratch", "scratch, tied"):
        at = [i for i, gain in enumerate(every) if gain.b[1] == control]
        assert [table.rows[i][-1].key for i in at] == holm([every[i].p for i in at])


def test_probability_of_an_improvement(whole: Path) -> None:
    rows = texts(certainty.certainty(sheet.read(whole)))
    assert [row[:2] for row in rows][-2:] == [("all tasks", "attention"), ("all tasks", "s4d")]
    assert rows[0][-1] == "1.00, no interval", "every run of SPT is above every run from scratch"
    means = [float(row[-1][:4]) for row in rows]
    assert means[-1] == pytest.approx((means[1] + means[3]) / 2, abs=0.006)


def test_two_seeds_give_no_probability_and_one_no_spread(small: Callable) -> None:
    assert texts(certainty.certainty(sheet.read(small(TWO, seeds=2)))) == []


def test_a_shared_stage_is_spent_once(small: Callable, edit: Callable) -> None:
    folder = small({"attention": ROWS["attention"]}, seeds=1)
    before = sheet.read(folder)

    def share(content: dict[str, Any]) -> None:
        """Let scratch, tied end in the very stage of scratch."""
        scratch, tied, _ = content["cells"]
        tied["stages"] = scratch["stages"]

    edit(folder.parent / before.plan.parts[0] / "study.json", share)
    rows = sheet_table.costs(sheet.read(folder)).rows
    all_runs = [row[-1].key or 0.0 for row in rows]
    assert all_runs[:3] == [1.4e12, 1.4e12, 2.3e12]
    assert all_runs[3] == pytest.approx(1.4e12 + 2.3e12)
    assert "9 stages, 7 of them different" in sheet_table.costs(before).caption


def test_rows_are_ranked_over_tasks_or_seeds(small: Callable, tmp_path: Path) -> None:
    found = sheet.read(small(ROWS, tasks=3))
    ranks = certainty.rankings(found)
    assert list(ranks) == ["SPT, over tasks", "scratch, tied, over tasks"]
    assert ranks["scratch, tied, over tasks"].sorted == [("s4d", 1.0), ("attention", 2.0), ("lstm", 3.0)]
    one = replace(found, parts=found.parts[:1])
    assert [r.blocks for r in certainty.rankings(one).values()] == [3, 3]
    assert texts(certainty.ranks(ranks))[0][0] == "attention"
    for title, of_title in ranks.items():
        svg = charts.ladder(of_title, title)
        words = "".join(ElementTree.fromstring(svg).itertext())
        assert "critical difference 1.91" in words and all(row in words for row in ROWS)


def settings() -> dict[str, tuple[float, float, float]]:
    return {f"{name} · {share} %": ROWS[name] for name in ("attention", "s4d") for share in (1, 10, 100)}


def test_lines_have_a_panel_per_group(small: Callable) -> None:
    found = sheet.read(small(settings(), figure="lines", seeds=2))
    panels = charts.panels(found.parts[0].analysis, found.parts[0].label, grouped=True)
    assert [panel.title for panel in panels] == ["task 0 · attention", "task 0 · s4d"]
    assert all(panel.places == ("1 %", "10 %", "100 %") for panel in panels)
    assert panels[0].limits == panels[1].limits
    assert certainty.rankings(found) == {}, "settings of a model do not compete"
    assert re.search(r"SPT against scratch, tied: \d", markdown(found))
    words = "".join(ElementTree.fromstring(charts.lines(panels[0])).itertext())
    assert all(word in words for word in ("1 %", "100 %", "scratch, tied", "test accuracy in %"))
    assert "paper" not in words


def test_colours_stay_with_their_arms(small: Callable) -> None:
    folder = small(settings(), figure="lines", seeds=1)
    for result in folder.parent.glob("stages/*s4d*-scratch-0-classify/result.json"):
        result.unlink()
    part = sheet.read(folder).parts[0]
    whole, gap = charts.panels(part.analysis, part.label, grouped=True)
    assert [line.arm for line in whole.lines] == [0, 1, 2] and [line.arm for line in gap.lines] == [1, 2]


def test_bars_start_at_zero_and_name_the_paper(whole: Path) -> None:
    part = sheet.read(whole).parts[0]
    (panel,) = charts.panels(part.analysis, part.label, grouped=False)
    assert panel.lines[2].printed == (84.95, pytest.approx(87.72))
    words = "".join(ElementTree.fromstring(charts.bars(panel)).itertext())
    assert "paper" in words and "020" in words.replace("\n", "").replace(" ", "")


def test_curves_along_names_or_numbers() -> None:
    by_name = charts.Measure(
        "Runs at chance", "", "share", (charts.Series("a", ("Text", "Image"), (1.0, 0.5)),)
    )
    words = "".join(ElementTree.fromstring(charts.curves(by_name)).itertext())
    assert "Text" in words and "Image" in words
    blocks = charts.Measure("Distance", "block", "positions", (charts.Series("a", (0.0, 2.0), (1.0, 5.0)),))
    ticks = re.findall(r">(\d[\d.]*)</text>", charts.curves(blocks))
    assert ticks[:3] == ["0", "1", "2"]


@pytest.mark.filterwarnings("error")
def test_long_names_leave_room_for_the_figure(small: Callable, edit: Callable) -> None:
    rows = {f"Transformer · {n} layers": ROWS["attention"] for n in (1, 2, 3)}
    folder = small(rows, seeds=2)

    def rename(content: dict[str, Any]) -> None:
        new = {"scratch, tied": "scratch, as long", "SPT": "SPT, other data", "scratch": "scratch"}
        for cell in content["cells"]:
            cell["column"] = new[cell["column"]]
        content["contrasts"] = [[new[a], new[b]] for a, b in 2 * content["contrasts"]]

    edit(folder.parent / sheet.read(folder).plan.parts[0] / "study.json", rename)
    assert len(sheet.write(folder)) == 6


def test_single_runs_have_no_band(small: Callable) -> None:
    part = sheet.read(small(TWO, seeds=1)).parts[0]
    (panel,) = charts.panels(part.analysis, part.label, grouped=True)
    assert all(line.halves == (None, None) for line in panel.lines)
    assert charts.bars(panel) and charts.lines(panel)


def test_index_lists_every_study(whole: Path, small: Callable) -> None:
    lines = sheet.index([whole, small(TWO, about={"Source": "Amos et al., | Table 9."})]).splitlines()
    assert len(lines) == 4 and lines[0].startswith("| paper | question | scale | seeds | state | outcome |")
    assert (
        "| [Amos et al. (2024), Table 8](toy-table-small/page.md) | Is it better? | small | 6 |" in lines[2]
    )
    assert "SPT against scratch, tied:" in lines[2] and "[Amos et al., \\| Table 9](" in lines[3]
    assert "| measured |" in lines[3]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"format": 2}, ForeignRun, "has format 2"),
        ({"figure": "pie"}, StoreError, "figure: Input should be 'none', 'bars' or 'lines'"),
        ({"parts": []}, StoreError, "at least one part"),
        ({"measures": [{"title": "x"}]}, StoreError, r"measures\.0\.x: Field required"),
        (
            {"measures": [MEASURE | {"series": [{"label": "a", "x": [1], "y": []}]}]},
            StoreError,
            "as many x as y",
        ),
    ],
)
def test_broken_sheets(small: Callable, edit: Callable, change: dict, error: type, words: str) -> None:
    folder = small({"attention": ROWS["attention"]}, seeds=1)
    edit(folder / "sheet.json", lambda content: content.update(change))
    with pytest.raises(error, match=words) as caught:
        sheet.read(folder)
    assert "\n" not in str(caught.value)


def test_no_sheet(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"holds no sheet\.json"):
        sheet.read(tmp_path)


def test_printed_numbers_are_read_and_checked(make: Callable, scene: type, edit: Callable) -> None:
    folder = make(scene(printed={("s4d", "SPT"): printed("S4", 87.72)}))
    cells = results.study(folder).cells
    assert {cell.printed.value for cell in cells if cell.printed} == {87.72}
    edit(folder / "study.json", lambda content: content["cells"][-1]["printed"].pop("table"))
    with pytest.raises(StoreError, match=r"printed\.table: Field required"):
        results.study(folder)


def test_names_cannot_break_a_page(small: Callable) -> None:
    bad = "a_b<i>|$x$"
    folder = small({bad: ROWS["attention"]}, title="Is <script>alert(1)</script> | *it*?", reading="<b>x</b>")
    made = sheet.write(folder)
    html, text = made["html"].read_text(), made["markdown"].read_text()
    assert "<script>alert" not in html and "b<i>" not in html and "<b>x</b>" not in html
    assert "a\\_b\\<i>\\|$x$" in text and "# Is \\<script>" in text


def test_importing_the_page_is_light() -> None:
    heavy = ("torch", "scipy", "matplotlib", "jinja2", "rich", "markdown_it", "pydantic")
    code = f"import sys, selfpretrain.report.sheet; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_optional_fields_may_be_left_out(small: Callable) -> None:
    """Curves may be lists of whole numbers, too."""
    folder = small(TWO, seeds=1, measures=[MEASURE])
    content = json.loads((folder / "sheet.json").read_text())
    for optional in ("shared", "reading", "labels", "about"):
        del content[optional]
    (folder / "sheet.json").write_text(json.dumps(content))
    found = sheet.read(folder)
    assert found.plan.measures[0].series[0].y == (3.2, 4.1) and found.plan.shared is None
    assert sheet_page.UNREAD in markdown(found)
