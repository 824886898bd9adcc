"""The page of an experiment: which section has what, the paper's numbers, what must be said plainly."""

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from rich.console import Console

from scripts import script
from selfpretrain.report import diagnostics, format, page, pictures, tables
from selfpretrain.report.analysis import analyse
from selfpretrain.report.figures import charts
from selfpretrain.report.paper_numbers import PaperNumber
from selfpretrain.report.results import Measure, Series, read

INDEX = script("studies").index
ROWS = {"attention": (0.60, 0.61, 0.72), "s4d": (0.70, 0.705, 0.71), "lstm": (0.45, 0.47, 0.50)}
TWO = {name: ROWS[name] for name in ("attention", "s4d")}


def analysis(folder):
    return analyse(read(folder))


def section(found, title):
    return next(made for made in page.compose(found).sections if made.title == title)


def missing(found):
    return [line for line in section(found, "Before you trust this").points if line.startswith("Missing")]


def texts(table):
    return [tuple(entry.text for entry in row) for row in table.rows]


@pytest.fixture
def small(make, scene):
    """A study over some rows on as many tasks as asked for."""

    def made(rows, tasks=1, seeds=3, **changes):
        scenes = [scene(rows=rows, seeds=seeds, task=f"task {at}", test=200) for at in range(tasks)]
        return make(*scenes, **{"name": "toy-table"} | changes)

    return made


def test_figures_of_the_page_are_there(whole):
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (whole / "report.md").read_text())
    assert {path.name for path in whole.glob("*.svg")} == set(named)
    for name in named:
        root = ElementTree.fromstring((whole / name).read_text())
        assert root[0].tag.endswith("rect") and root[0].attrib["fill"] == "#ffffff"


def test_units_of_papers():
    place = ("amos2024", "Table 1", "a", "b")
    given = [(84.95, "%", "%"), (0.48, "", "%"), (0.7, "", ""), (1.31, "breaths", ""), (None, "%", "%")]
    shown = [PaperNumber(*place, value, unit).in_unit(metric) for value, unit, metric in given]
    assert shown == [84.95, 48.0, 0.7, None, None]


def test_a_model_without_any_run_is_named_once(small):
    folder = small(TWO)
    for result in folder.parent.glob("stages/*s4d*/result.json"):
        result.unlink()
    (line,) = missing(analysis(folder))
    assert line.endswith(": s4d: nothing has been run.")


def test_models_that_lack_the_same_are_named_together(small):
    folder = small(TWO)
    for result in folder.parent.glob("stages/*/result.json"):
        if "-0-" not in result.parent.name:
            result.unlink()
    lines = missing(analysis(folder))
    assert len(lines) == 1 and lines[0].count("attention and s4d") == 1 and "seeds 1 and 2" in lines[0], lines


def test_nothing_run(small):
    folder = small(TWO, tasks=2, figure="lines", asked=0)
    for result in folder.parent.glob("stages/*/result.json"):
        result.unlink()
    text = page.write(folder)["markdown"].read_text()
    assert "Nothing has been run yet." in text and "task 1: nothing has been run, 18 cells." in text
    assert "| not run |  |" in INDEX([folder])


def test_scores_are_always_drawn(small):
    for how, drawn in (("none", charts.points), ("bars", charts.points), ("lines", charts.lines)):
        made = pictures.scores(analysis(small(TWO, figure=how)))
        assert [picture.draw.func for picture in made] == [drawn]


def test_smoke_proves_nothing(small):
    folder = small(TWO, scale="smoke", interpretation="")
    made = page.write(folder)
    shown = io.StringIO()
    Console(file=shown, width=100).print(page.show(folder))
    for text in (made["markdown"].read_text(), made["html"].read_text(), shown.getvalue()):
        assert "proves nothing" in " ".join(text.split()) and "is better for" not in text
    assert INDEX([folder]).rstrip().endswith("| proves nothing |")
    assert "Nothing can be claimed yet." in made["claim"].read_text()


def test_terminal_shows_the_table(whole):
    shown = io.StringIO()
    Console(file=shown, width=70).print(page.show(whole))
    text = " ".join(shown.getvalue().split())
    assert "It is, a **little**." in text and "seeds 3 and 5" in text and "…" not in text


@pytest.mark.parametrize("tasks", [1, 2])
def test_no_cell_is_broken_in_80_columns(small, edit, tasks):
    folder = small(TWO, tasks=tasks)

    def rename(content):
        for cell in content["tasks"][0]["cells"]:
            cell["column"] = cell["column"].replace("SPT", "SPT, causal, of other data")

    contrasts = [["SPT, causal, of other data", "scratch (matched)"]]
    edit(folder / "study.json", lambda content: content["tasks"][0].update(contrasts=contrasts))
    edit(folder / "study.json", rename)
    found, shown = analysis(folder), io.StringIO()
    Console(file=shown, width=80).print(page.show(folder))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in shown.getvalue()
    for task in found.tasks:
        for (row, arm), mean in task.means.items():
            score = format.spread(task.metric, mean).removesuffix(" (3)")
            gains = [gain for gain in task.headline if gain.a == (row, arm)]
            gained = [format.interval(task.metric, gain.estimate.bounds) for gain in gains if gain.estimate]
            assert any(all(word in line for word in (arm, score, *gained)) for line in lines), (row, arm)


def test_bold_is_the_best_arm_of_a_model_and_nothing_else(small):
    folder = small(TWO, tasks=2, interpretation="It is.")
    found, made = analysis(folder), page.write(folder)
    table = tables.scores(found)

    bold = [entry.text for row in table.rows for entry in row if entry.bold]
    assert len(bold) == len(found.tasks) * len(TWO)
    for task in found.tasks:
        for row in TWO:
            means = {arm: task.means[row, arm].mean for arm in task.task.columns}
            assert [arm for arm in means if (row, arm) in task.best] == [max(means, key=means.__getitem__)]
    assert re.findall(r"\*\*(.+?)\*\*", made["markdown"].read_text()) == bold
    assert re.findall(r"<b>(.+?)</b>", made["html"].read_text()) == bold
    assert made["latex"].read_text().count("\\textbf{") == len(bold)
    console = Console(width=80)
    lines = console.render_lines(page.show(folder))
    shown = [part.text.strip() for line in lines for part in line if part.style and part.style.bold]
    assert sorted(filter(None, shown)) == sorted(text.removesuffix(" (3)") for text in bold)


def test_a_kind_of_caveat_is_one_line(small, edit):
    folder = small(TWO, tasks=2)
    for result in folder.parent.glob("stages/*-classify/result.json"):
        if "SPT" in result.parent.name or "task 1" in result.parent.name:
            edit(result, lambda content: content.update(best_step=content["steps"]))
    points = section(analysis(folder), "Before you trust this").points
    assert [line for line in points if "improving" in line] == [
        "Still improving at the end of training: task 0: SPT (6 of 6 runs); task 1: scratch (6 of 6 runs), "
        "scratch (matched) (6 of 6), SPT (6 of 6). A larger budget may raise these scores."
    ]


@pytest.mark.usefixtures("drawn_pictures")
def test_curves_begin_with_pretraining(make, scene):
    folder = make(scene())
    alone = pictures.curves(analysis(folder))
    assert "pretraining loss" not in "".join(ElementTree.fromstring(alone[0].svg).itertext())
    for stage in folder.parent.glob("stages/*-masked"):
        usual = {"kind": "val", "score": -1.0}
        lines = [json.dumps(usual | {"step": n, "loss": 3 - n / 400}) for n in (100, 200, 400)]
        (stage / "log.jsonl").write_text("\n".join(lines))
    found = analysis(folder)
    (picture,) = pictures.curves(found)
    assert "pretraining loss" in "".join(ElementTree.fromstring(picture.svg).itertext())
    cell = found.tasks[0].task.at("s4d", "SPT")[0]
    (path,) = charts.pretraining(cell, flops=True)
    assert [point[1] for point in path.values()] == [2.75, 2.5, 2.0]
    assert path[400][0] == pytest.approx(0.9e12)
    later = charts.finetuning(cell, True, 1.0)
    assert path[400][0] < min(x for x, _ in later.values()) and later[600][0] == pytest.approx(2.3e12)
    assert charts.finetuning(cell, False, 1.0)[30][0] == 430, "after the steps of pretraining"


def test_titles_of_curves_keep_apart(small, monkeypatch):
    drawn = []
    monkeypatch.setattr(charts, "to_svg", lambda figure: drawn.append(figure) or "")
    names = ["maximum over positions", "attention over positions", "WWWWW MMMMM", "x"]
    found = analysis(small(dict.fromkeys(names, ROWS["attention"])))
    charts.learning_curves(found.tasks[0].task, names, "task")
    (figure,) = drawn
    figure.draw_without_rendering()
    boxes = [axes._left_title.get_window_extent() for axes in figure.axes[: len(names)]]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert boxes[-1].x1 <= figure.bbox.x1


def test_a_shared_stage_is_spent_once(small, edit):
    folder = small({"attention": ROWS["attention"]}, seeds=1)
    before = analysis(folder)

    def share(content):
        """Let scratch (matched) end in the very stage of scratch."""
        scratch, matched_stage, _ = content["tasks"][0]["cells"]
        matched_stage["folders"] = scratch["folders"]

    edit(folder / "study.json", share)
    rows = tables.costs(analysis(folder)).rows
    all_runs = [row[-1].key or 0.0 for row in rows]
    assert all_runs[:3] == [1.4e12, 1.4e12, 2.3e12]
    assert all_runs[3] == pytest.approx(1.4e12 + 2.3e12)
    assert "9 stages, 7 of them different" in tables.costs(before).caption


def test_an_arm_that_a_task_does_not_have_is_not_missing(small, edit):
    folder = small({"attention": ROWS["attention"]}, seeds=1, tasks=2)

    def drop(content):
        del content["tasks"][1]["cells"][1]

    edit(folder / "study.json", drop)
    rows = {row[0]: row for row in texts(tables.costs(analysis(folder)))}
    assert rows["scratch (matched)"][2] == format.NONE
    assert "FLOP" in rows["scratch (matched)"][1] and "FLOP" in rows["SPT"][2]


def test_rows_are_ranked_over_tasks_or_seeds(small, tmp_path):
    found = analysis(small(ROWS, tasks=3))
    ranks = diagnostics.rankings(found)
    assert list(ranks) == ["SPT, over tasks", "scratch (matched), over tasks"]
    assert ranks["scratch (matched), over tasks"].sorted == [("s4d", 1.0), ("attention", 2.0), ("lstm", 3.0)]
    one = replace(found, tasks=found.tasks[:1])
    assert [r.blocks for r in diagnostics.rankings(one).values()] == [3, 3]
    assert texts(diagnostics.ranks(ranks))[0][0] == "attention"
    for title, of_title in ranks.items():
        svg = charts.rank_plot(of_title, title)
        words = "".join(ElementTree.fromstring(svg).itertext())
        assert "critical difference 1.91" in words and all(row in words for row in ROWS)


def settings():
    return {f"{name} · {share} %": ROWS[name] for name in ("attention", "s4d") for share in (1, 10, 100)}


def test_lines_have_a_panel_per_group(small):
    found = analysis(small(settings(), figure="lines", seeds=2))
    panels = charts.panels(found.tasks[0], grouped=True)
    assert [panel.title for panel in panels] == ["task 0 · attention", "task 0 · s4d"]
    assert all(panel.places == ("1 %", "10 %", "100 %") for panel in panels)
    assert panels[0].limits == panels[1].limits
    assert diagnostics.rankings(found) == {}, "settings of a model do not compete"
    assert re.search(r"SPT against scratch \(matched\): \d", page.compose(found).outcomes[0])
    words = "".join(ElementTree.fromstring(charts.lines(panels[0])).itertext())
    assert all(word in words for word in ("1 %", "100 %", "scratch (matched)", "test accuracy in %"))
    assert "paper" not in words


def test_colours_stay_with_their_arms(small):
    folder = small(settings(), figure="lines", seeds=1)
    for result in folder.parent.glob("stages/*s4d*-scratch-0-classify/result.json"):
        result.unlink()
    part = analysis(folder).tasks[0]
    whole, gap = charts.panels(part, grouped=True)
    bands = [interval for line in whole.lines for *_, interval in line.means]
    assert bands == [None] * 9, "single runs have no band"
    assert charts.points(whole) and charts.lines(whole)
    assert [line.arm for line in whole.lines] == [0, 1, 2] and [line.arm for line in gap.lines] == [1, 2]


def test_points_name_the_paper_and_the_simple_baseline(whole):
    part = analysis(whole).tasks[0]
    (panel,) = charts.panels(part, grouped=False, paper=True)
    assert panel.lines[2].printed == (84.95, pytest.approx(87.72))
    assert panel.baseline == pytest.approx(53.6) and panel.limits[0] < 53.6 < panel.limits[1]
    words = "".join(ElementTree.fromstring(charts.points(panel)).itertext())
    assert "paper" in words and "baseline" in words and "one seed" in words


def test_curves_along_names_or_numbers():
    by_name = Measure("Runs at chance", "", "share", (Series("a", ("Text", "Image"), (1.0, 0.5)),))
    words = "".join(ElementTree.fromstring(charts.curves(by_name)).itertext())
    assert "Text" in words and "Image" in words
    blocks = Measure("Distance", "block", "positions", (Series("a", (0.0, 2.0), (1.0, 5.0)),))
    ticks = re.findall(r">(\d[\d.]*)</text>", charts.curves(blocks))
    assert ticks[:3] == ["0", "1", "2"]


@pytest.mark.usefixtures("drawn_pictures")
@pytest.mark.filterwarnings("error")
def test_long_names_leave_room_for_the_figure(small, edit):
    rows = {f"Transformer · {n} layers": ROWS["attention"] for n in (1, 2, 3)}
    folder = small(rows, seeds=2)

    def rename(content):
        new = {"scratch (matched)": "scratch, as long", "SPT": "SPT, other data", "scratch": "scratch"}
        for cell in content["cells"]:
            cell["column"] = new[cell["column"]]
        content["contrasts"] = [[new[a], new[b]] for a, b in 2 * content["contrasts"]]

    edit(folder / "study.json", lambda content: rename(content["tasks"][0]))
    assert {"scores.svg", "scores-2.svg", "gain.svg"} & set(page.write(folder)) == {"scores.svg", "gain.svg"}


def test_index_lists_every_study(whole, small):
    lines = INDEX([whole, small(TWO, about={"Source": "Amos et al., | Table 9."})]).splitlines()
    assert len(lines) == 4 and lines[0].startswith("| paper | question | scale | seeds | state | outcome |")
    assert (
        "| [Amos et al. (2024), Table 8](toy-table-small/report.md) | Is it better? | small | 6 |" in lines[2]
    )
    assert "SPT against scratch (matched):" in lines[2] and "[Amos et al., \\| Table 9](" in lines[3]
    assert "| measured |" in lines[3]


def test_an_average_stands_last_where_tasks_are_alike(small, whole):
    found = analysis(small(TWO, tasks=3))
    table = tables.scores(found)
    assert table.headings[-1] == "average" and "average" not in tables.scores(analysis(whole)).headings
    means = [task.means["s4d", "SPT"].mean for task in found.tasks]
    assert table.rows[-1][-1].key == pytest.approx(sum(means) / 3)
    assert table.rows[-1][-1].text == format.score(found.tasks[0].metric, sum(means) / 3)


def test_sections_of_few_rows_are_open_and_those_that_few_need_are_folded(whole, small):
    seen = [
        "Scores",
        "Gains",
        "Before you trust this",
        "Beside the paper",
        "Cost",
        "Learning curves",
        "Also measured",
    ]
    folded = ["How to repeat it", "Files and what to do next"]
    made = page.compose(analysis(whole)).sections
    assert [one.title for one in made if one.shown == "open"] == seen and len(page.SECTIONS) == 12
    assert [one.title for one in made if one.shown == "folded"] == folded
    text = (whole / "report.html").read_text()
    opened = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    assert [title in opened for title in (*seen, *folded)] == [True] * 7 + [False] * 2
    markdown = (whole / "report.md").read_text()
    assert re.findall(r"^## (.*)$", markdown, re.MULTILINE) == seen
    assert markdown.count("<details>\n<summary>") == markdown.count("\n</details>") == 2
    many = {one.title: one.shown for one in page.compose(analysis(small(ROWS, tasks=2))).sections}
    assert (many["Gains"], many["Order of the models"], many["Learning curves"]) == (
        "folded",
        "folded",
        "html",
    )


def test_what_left_the_page_is_in_the_csv(whole):
    head = (whole / "results.csv").read_text().splitlines()[0].split(",")
    assert {"score", "val_score", "parameters", "flops", "seconds", "steps", "best_step", "stopped"} <= {
        *head
    }


def test_an_expectation_asks_for_an_interpretation(small):
    assert page.compose(analysis(small(TWO, seeds=1, interpretation=""))).interpretation == page.UNREAD
    asked = small(TWO, seeds=1, interpretation="", about={}, scale="paper")
    assert page.compose(analysis(asked)).interpretation == ""
