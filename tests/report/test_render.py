"""The files beside an experiment: golden pages, a CSV that comes back, a page that stands alone."""

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from selfpretrain.errors import StoreError
from selfpretrain.report import format
from selfpretrain.report.analysis import analyse, analyse_task
from selfpretrain.report.figures import charts, style
from selfpretrain.report.page import compose, write
from selfpretrain.report.render import html
from selfpretrain.report.render.latex import escaped
from selfpretrain.report.results import Metric, read
from selfpretrain.report.tables import spent
from selfpretrain.system.events import format_duration

GOLDEN = Path(__file__).with_name("golden")
VOID = {"meta", "link", "br"}


def scenes(scene):
    return {
        "three": [scene(missing=frozenset({("s4d", "scratch (matched)", 2)}))],
        "reals": [scene(
            kind="reals", seeds=6, rows={"attention": (0.40, 0.42, 0.55), "s4d": (0.70, 0.705, 0.71)},
            baselines={"ridge on means": 0.31},
        )],
    }  # fmt: skip


def alone(folder):
    (task,) = read(folder).tasks
    return task


@pytest.mark.parametrize("name", ["three", "reals", "several"])
def test_a_page_is_golden(make, scene, whole, name):
    """After a deliberate change: copy the files that this test names over those in golden/."""
    folder = whole if name == "several" else make(*scenes(scene)[name])
    if name != "several":
        write(folder)
    for made in (folder / "report.md", folder / "report.tex"):
        assert made.read_text() == (GOLDEN / f"{name}{made.suffix}").read_text(), made


def test_markdown_says_the_same_as_latex_and_html(whole):
    files = {"markdown": "report.md", "latex": "report.tex", "html": "report.html"}
    made = {kind: (whole / name).read_text() for kind, name in files.items()}
    of_tables = re.compile(r"^\|.*\|$", re.MULTILINE)
    plain = re.compile(r"\d+\.\d+")
    cells = plain.findall("\n".join(of_tables.findall(made["markdown"])))
    rows = "\n".join(line for line in made["latex"].splitlines() if line.endswith("\\\\"))
    assert cells == plain.findall(rows) != []
    assert made["latex"].count("\\begin{table}") == made["markdown"].count("\n### ")
    assert len(set(re.findall(r"\\label{([^}]+)}", made["latex"]))) == made["latex"].count("\\label")
    scores = re.compile(r"\d+\.\d ± \d+\.\d \(\d\)")
    assert scores.findall(made["html"]) == scores.findall(made["markdown"]) != []
    assert "It is, a <strong>little</strong>." in made["html"] and "Is <em>it</em>?" in made["html"]


def test_numbers_are_sorted_as_numbers(whole, make, scene):
    """A number with a sign, an interval or a unit has a key: the page sorts other texts by their letters."""
    tasks = [scene(task=f"task {at}", noise=0.02, test=200) for at in range(7)]
    made = [compose(analyse(read(folder))) for folder in (whole, make(*tasks))]
    tables = [table for each in made for section in each.sections for table in section.tables]
    assert {"gains", "gains-over-tasks", "models-over-tasks"} <= {
        table.name for table in tables if table.rows
    }
    plain = re.compile(r"\d+(\.\d+)?")
    for table in tables:
        for row in table.rows:
            for heading, entry in list(zip(table.headings, row, strict=True))[table.words :]:
                number = re.match(rf"[+\[{format.MINUS}]*\d", entry.text) and not plain.fullmatch(entry.text)
                other_unit = heading == "paper"  # not comparable with the numbers above it
                assert not number or other_unit or entry.key is not None, (table.name, heading, entry.text)


def test_rows_that_sum_up_stay_below_the_others(make, scene):
    """In a foot of their own, which sorting a table does not move."""
    models = {name: (0.6, 0.6, 0.7) for name in ("attention", "s4d", "lstm")}
    tasks = [scene(task=f"task {at}", rows=models, seeds=1, test=50) for at in range(7)]
    text = html.document(compose(analyse(read(make(*tasks)))))
    feet = re.findall(r"<tfoot>(.*?)</tfoot>", text, re.DOTALL)
    assert any("critical difference" in foot for foot in feet), feet
    assert any("spent, each stage once" in foot for foot in feet), feet
    bodies = "".join(re.findall(r"<tbody>(.*?)</tbody>", text, re.DOTALL))
    assert "critical difference" not in bodies and "spent, each" not in bodies and "attention" in bodies


def test_what_was_spent_and_where_is_of_every_finished_stage(make, scene):
    """Also of a cell whose last stage is missing; and pretraining may have been on another device."""
    folder = make(scene())
    runs = folder.parent / "stages"
    before = analyse(read(folder))
    (runs / "toy-s4d-SPT-2-classify" / "result.json").unlink()
    place = runs / "toy-attention-SPT-0-masked" / "environment.json"
    found = json.loads(place.read_text())
    place.write_text(json.dumps(found | {"device": "cuda H200", "git": found["git"] | {"dirty": True}}))
    after = analyse(read(folder))
    lost = spent(before).key - spent(after).key
    assert lost == pytest.approx(1.4e12), "the finetuning alone"
    said = " ".join(point for section in compose(after).sections for point in section.points)
    assert "Runs used different devices: cpu and cuda H200" in said and "uncommitted changes" in said
    facts = dict(fact for section in compose(after).sections for fact in section.facts)
    assert set(facts["device"].split(", ")) == {"cpu", "cuda H200"}


def test_csv_has_every_cell_and_the_paper(whole):
    lines = list(csv.DictReader((whole / "results.csv").open(newline="")))
    assert len(lines) == 72 and {line["task"] for line in lines} == {"digits", "bidmc"}
    of_paper = {(line["task"], line["row"], line["printed_value"], line["printed_unit"]) for line in lines}
    assert {("digits", "attention", "84.95", "%"), ("bidmc", "s4d", "1.31", "breaths")} <= of_paper
    assert sum(line["printed_table"] == "Table 8" for line in lines) == 24
    assert [line["state"] for line in lines].count("missing") == 2


def test_tasks_of_one_name_are_told_apart_by_their_rows(make, scene):
    """As the lengths of one task in the study of growth; a task of another name keeps its own."""
    tasks = [scene(task="paths", label=f"Pathfinder, {at}", seeds=1, test=50) for at in (16, 36)]
    rows = read(make(*tasks, scene(task="digits", label="Image", seeds=1, test=50))).to_rows()
    assert {row["task"] for row in rows} == {"Pathfinder, 16 (paths)", "Pathfinder, 36 (paths)", "digits"}
    assert len({(row["task"], row["row"], row["column"], row["seed"]) for row in rows}) == len(rows)


def test_csv_comes_back(make, scene):
    folder = make(*scenes(scene)["three"])
    with write(folder)["csv"].open(newline="") as file:
        lines = list(csv.DictReader(file))
    study = alone(folder)
    assert len(lines) == len(study.cells)
    for line, cell in zip(lines, study.cells, strict=True):
        assert (line["row"], line["column"], int(line["seed"])) == (cell.row, cell.column, cell.seed)
        assert line["stages"].split(" ") == list(cell.folders)
        if not cell.finished:
            assert (line["state"], line["score"], line["flops"]) == ("missing", "", "")
            continue
        assert float(line["score"]) == cell.score == float(line["test_accuracy"])
        assert float(line["val_loss"]) == cell.scored.scores["val"]["loss"]
        assert (float(line["flops"]), float(line["seconds"])) == (cell.flops, cell.seconds)
        assert int(line["best_step"]) == cell.scored.best_step
        assert int(line["parameters"]) == cell.scored.cost.parameters


class Elements(HTMLParser):
    """Open tags, attributes that could fetch something, and whether tags close in order."""

    def __init__(self):
        super().__init__()
        self.stack: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.addresses += [v or "" for k, v in attrs if k in {"src", "href", "srcset", "data", "action"}]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.addresses += [v or "" for k, v in attrs if k in {"src", "href"}]

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


@pytest.mark.usefixtures("drawn_pictures")
def test_page_stands_alone(make, scene):
    folder = make(scene(seeds=6))
    text = write(folder)["html"].read_text()
    page = Elements()
    page.feed(text)
    assert page.stack == [] and {"svg", "table", "script", "style"} <= page.seen
    assert {address for address in page.addresses if not address.startswith("#")} <= {"data:,"}
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttp", text)
    assert len(text.encode()) < 400_000
    for phrase in ("Does self-pretraining beat", "selfpretrain compare stdlib", "PSF-2.0", "train/test 0",
                   "2.13.0+cpu", "same grid of 3 learning rates", "best validation",
                   "byte n-grams"):  # fmt: skip
        assert phrase in text
    assert text.index('class="verdict"') < text.index("<table")


@pytest.mark.usefixtures("drawn_pictures")
@pytest.mark.slow
def test_a_big_study_stays_small(make, scene):
    rows = {f"mixer {at}": (0.5, 0.52, 0.6 + at / 100) for at in range(10)}
    folder = make(scene(rows=rows, seeds=6, test=50))
    lines = [json.dumps({"kind": "val", "step": step, "score": step % 7 / 10}) for step in range(300)]
    for log in folder.parent.glob("stages/*/log.jsonl"):
        log.write_text("\n".join(lines))
    assert write(folder)["html"].stat().st_size < 400_000


def test_a_folder_that_cannot_be_written(make, scene):
    folder = make(scene(seeds=1))
    (folder / "report.md").mkdir()
    with pytest.raises(StoreError, match=r"cannot write .*report\.md"):
        write(folder)
    assert not list(folder.glob(".*"))


def test_inlined_figures_define_what_they_use(whole):
    """Names are unique on a page; what ``defs`` define is not drawn; every class has a rule."""
    text = (whole / "report.html").read_text()
    ids = re.findall(r'<(?:clipPath|path) id="([^"]+)"', text)
    assert text.count("<svg") == 7 and len(ids) == len(set(ids)) > 7
    figures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for svg in figures:
        defined = set(re.findall(r' id="([^"]+)"', "".join(re.findall(r"<defs>.*?</defs>", svg, re.DOTALL))))
        assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)) <= {
            *((name, "") for name in defined),
            *(("", name) for name in defined),
        }
        assert "<metadata" not in svg and "opacity: 0" not in svg and " style=" not in svg
    used = set(re.findall(r' class="(s\d+)"', "".join(figures)))
    assert used == set(re.findall(r"^\.(s\d+) {", text, re.MULTILINE)) != set()


def test_numbers_on_axes_are_whole(make, scene):
    """Coordinates are cut to a tenth of a point, letters are not: 0.025 stays 0.025."""
    rows = {"s4d": (0.70, 0.70, 0.75)}
    svg = charts.gain_plot(charts.gain_panel(analyse_task(alone(make(scene(kind="reals", rows=rows))))))
    ticks = re.findall(r">([\d.\N{MINUS SIGN}]+)</text>", html.themed(svg, {}))
    assert "0.025" in ticks and len(ticks) == len(set(ticks))
    assert not re.search(r'd="[^"]*\d\.\d\d', html.themed(svg, {}))


def test_numbers():
    metric = Metric("accuracy", "%", 100.0, 1, 0.01)
    signs = " ".join(format.signed(metric, x) for x in (0.061, -0.061, -0.0001, 0.0))
    assert signs == f"+6.1 {format.MINUS}6.1 0.0 0.0"
    times = ", ".join(map(format_duration, (3.21, 31.4, 303.0, 7440.0)))
    assert times == "3.2 s, 31 s, 5 min 3 s, 2 h 4 min"
    sizes = ", ".join(map(format.quantity, (0.0, 999.0, 1000.0, 84232.0, 999_999.0, 1.2e12)))
    assert sizes == "0, 999, 1 k, 84.2 k, 1 M, 1.2 T"
    assert [format.flops(x) for x in (0.0, 12.0, 1.2e12)] == [format.NONE, "12 FLOP", "1.2 TFLOP"]
    assert format.listing(["a", "b", "c"]) == "a, b and c"
    assert escaped("50 % ± 2 & [x]") == r"50 \% $\pm$ 2 \& {[}x{]}"


def test_fourteen_arms_look_different():
    looks = [style.curve_style(at) for at in range(14)]
    assert len({(each["color"], each["linestyle"], each["marker"]) for each in looks}) == 14
    assert len({(each["linestyle"], each["marker"]) for each in looks[:7]}) == 7  # in greyscale
