"""The files beside a study: golden tables, a CSV that comes back, a page that stands alone."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from selfpretrain.errors import StoreError
from selfpretrain.report import format, page
from selfpretrain.report import old_results as results
from selfpretrain.report.analysis import analyse
from selfpretrain.report.figures import style
from selfpretrain.report.old_results import Metric
from selfpretrain.report.render.latex import escaped
from selfpretrain.report.write import show, write

GOLDEN = Path(__file__).with_name("golden")
VOID = {"meta", "link", "br"}


def scenes(scene: type) -> dict:
    return {
        "three": scene(missing=frozenset({("s4d", "scratch, tied", 2)})),
        "reals": scene(
            kind="reals", seeds=6, rows={"attention": (0.40, 0.42, 0.55), "s4d": (0.70, 0.705, 0.71)},
            baselines={"ridge on means": 0.31},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["three", "reals"])
def test_tables_are_golden(make: Callable, scene: type, name: str) -> None:
    """After a deliberate change: copy the files that this test names over those in golden/."""
    made = write(make(scenes(scene)[name]))
    for kind, end in {"markdown": "md", "latex": "tex"}.items():
        assert made[kind].read_text() == (GOLDEN / f"{name}.{end}").read_text(), made[kind]


def test_markdown_says_the_same_as_latex(make: Callable, scene: type) -> None:
    made = write(make(scenes(scene)["reals"]))
    plain = re.compile(r"\d\.\d{3}")
    body = made["markdown"].read_text().split("## Test R²")[1].split("## Notes")[0]
    latex = made["latex"].read_text().split("\\begin", 1)[1]
    assert sorted(plain.findall(body)) == sorted(plain.findall(latex))


def test_csv_comes_back(make: Callable, scene: type) -> None:
    folder = make(scenes(scene)["three"])
    with write(folder)["csv"].open(newline="") as file:
        lines = list(csv.DictReader(file))
    study = results.study(folder)
    assert len(lines) == len(study.cells)
    for line, cell in zip(lines, study.cells, strict=True):
        assert (line["row"], line["column"], int(line["seed"])) == (cell.row, cell.column, cell.seed)
        assert line["stages"].split(" ") == list(cell.paths)
        if not cell.finished:
            assert (line["state"], line["score"], line["flops"]) == ("missing", "", "")
            continue
        assert float(line["score"]) == cell.score == float(line["test_accuracy"])
        assert float(line["val_loss"]) == cell.scored.scores["val"]["loss"]
        assert (float(line["flops"]), float(line["seconds"])) == (cell.flops, cell.seconds)
        assert (int(line["best_step"]), int(line["parameters"])) == (
            cell.scored.best_step,
            cell.scored.cost.parameters,
        )


class Page(HTMLParser):
    """Open tags, attributes that could fetch something, and whether tags close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.addresses += [v or "" for k, v in attrs if k in {"src", "href", "srcset", "data", "action"}]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [v or "" for k, v in attrs if k in {"src", "href"}]

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_page_stands_alone(make: Callable, scene: type) -> None:
    folder = make(scene(seeds=6))
    text = write(folder)["html"].read_text()
    page = Page()
    page.feed(text)
    assert page.stack == [] and {"svg", "table", "script", "style"} <= page.seen
    assert set(page.addresses) <= {"data:,"}
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttp", text)
    assert len(text.encode()) < 400_000
    for phrase in ("Does self-pretraining beat", "spt compare stdlib", "PSF-2.0", "train/test 0",
                   "2.13.0+cpu", "same grid of 3 learning rates", "best step", "byte n-grams"):  # fmt: skip
        assert phrase in text
    assert text.index('class="verdict"') < text.index("<table")


def test_a_big_study_stays_small(make: Callable, scene: type) -> None:
    rows = {f"mixer {at}": (0.5, 0.52, 0.6 + at / 100) for at in range(10)}
    folder = make(scene(rows=rows, seeds=6, test=50))
    lines = [json.dumps({"kind": "val", "step": step, "score": step % 7 / 10}) for step in range(300)]
    for log in folder.parent.glob("stages/*/log.jsonl"):
        log.write_text("\n".join(lines))
    assert write(folder)["html"].stat().st_size < 400_000


def test_names_cannot_break_a_page(make: Callable, scene: type) -> None:
    title = "Is <script>alert(1)</script> & $x_1^2$ 50 % | better?"
    folder = make(scene(rows={"a_b<i>|$x$": (0.5, 0.52, 0.6)}, seeds=2, test=100, title=title))
    made = write(folder)
    html = made["html"].read_text()
    assert "<script>alert" not in html and "b<i>" not in html
    assert "a\\_b\\textless{}i\\textgreater{}\\textbar{}\\$x\\$" in made["latex"].read_text()
    assert "a\\_b\\<i>\\|$x$" in made["markdown"].read_text()


def test_writing_twice_gives_the_same_bytes(make: Callable, scene: type) -> None:
    folder = make(scene())
    first = {kind: path.read_bytes() for kind, path in write(folder).items()}
    assert {kind: path.read_bytes() for kind, path in write(folder).items()} == first
    assert not list(folder.glob(".*")), "no temporary files stay behind"


def test_a_folder_that_cannot_be_written(make: Callable, scene: type) -> None:
    folder = make(scene(seeds=1))
    (folder / "table.md").mkdir()
    with pytest.raises(StoreError, match=r"cannot write .*table\.md"):
        write(folder)
    assert not list(folder.glob(".*"))


def test_nothing_finished_still_reports(make: Callable, scene: type) -> None:
    columns = ("scratch", "scratch, tied", "SPT")
    gone = frozenset((row, column, 0) for row in ("attention", "s4d") for column in columns)
    text = write(make(scene(seeds=1, missing=gone)))["html"].read_text()
    assert "Nothing can be said yet" in text and "Learning curves" not in text


@pytest.mark.parametrize("width", [60, 120])
def test_terminal_shows_every_number(make: Callable, scene: type, width: int) -> None:
    study = results.study(make(scenes(scene)["three"]))
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(show(study))
    text = console.export_text()
    gain = analyse(study).headline[0].estimate
    assert format.signed(study.plan.metric, gain.mean) in text
    assert "1 of 18 cells" in " ".join(text.split()) and "…" not in text


def test_figures_are_svg_and_the_same_each_time(make: Callable, scene: type) -> None:
    analysis = analyse(results.study(make(scene())))
    drawn = [style.gain_plot(analysis), *style.learning_curves(analysis).values()]
    assert drawn == [style.gain_plot(analysis), *style.learning_curves(analysis).values()]
    for svg in drawn:
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    ids = [name for svg in drawn for name in re.findall(r'<(?:clipPath|path) id="([^"]+)"', svg)]
    assert len(ids) == len(set(ids)), "figures on one page must not share names"


def test_numbers_on_axes_are_whole(make: Callable, scene: type) -> None:
    """Coordinates are cut to a tenth of a point, letters are not: 0.025 stays 0.025."""
    rows = {"s4d": (0.70, 0.70, 0.75)}
    svg = style.gain_plot(analyse(results.study(make(scene(kind="reals", rows=rows)))))
    ticks = re.findall(r">([\d.\N{MINUS SIGN}]+)</text>", page.themed(svg))
    assert "0.025" in ticks and len(ticks) == len(set(ticks))
    assert not re.search(r'd="[^"]*\d\.\d\d', page.themed(svg))


def test_spt_starts_after_its_pretraining(make: Callable, scene: type) -> None:
    study = results.study(make(scene(seeds=1)))
    spt = style._path(study.at("s4d", "SPT")[0], True, 1.0)
    scratch = style._path(study.at("s4d", "scratch")[0], True, 1.0)
    assert spt[30][0] - scratch[30][0] == pytest.approx(0.9e12)
    assert spt[600][0] == pytest.approx(2.3e12)
    assert style._path(study.at("s4d", "SPT")[0], False, 1.0)[30][0] == 430


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1 k"), (84232, "84.2 k"), (999_999, "1 M"), (1.2e12, "1.2 T")],
)
def test_quantities(value: float, text: str) -> None:
    assert format.quantity(float(value)) == text


def test_numbers() -> None:
    metric = Metric("accuracy", "%", 100.0, 1, 0.01)
    assert [format.signed(metric, x) for x in (0.061, -0.061, -0.0001, 0.0)] == [
        "+6.1",
        f"{format.MINUS}6.1",
        "0.0",
        "0.0",
    ]
    assert [format.seconds(x) for x in (3.21, 31.4, 303.0, 7440.0)] == [
        "3.2 s",
        "31 s",
        "5 min 3 s",
        "2 h 4 min",
    ]
    assert [format.flops(x) for x in (0.0, 12.0, 1.2e12)] == [format.NONE, "12 FLOP", "1.2 TFLOP"]
    assert format.listing(["a", "b", "c"]) == "a, b and c"
    assert escaped("50 % ± 2 & [x]") == r"50 \% $\pm$ 2 \& {[}x{]}"


def test_importing_reports_is_light() -> None:
    code = (
        "import sys, selfpretrain.report.write;"
        "print([m for m in ('torch', 'scipy', 'matplotlib', 'jinja2', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
