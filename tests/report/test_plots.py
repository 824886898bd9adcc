"""Pictures and LaTeX for papers: distinct things differ, nothing is impossible, fonts are embedded."""

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from selfpretrain.cli import app
from selfpretrain.errors import SpecError
from selfpretrain.report import page, pictures, results, tables
from selfpretrain.report.analysis import analyse
from selfpretrain.report.figures import charts, style
from selfpretrain.report.summary import claim

HIGH = {"attention": (0.97, 0.985, 0.99), "s4d": (0.96, 0.985, 0.995)}


ROWS = {"attention": (0.60, 0.61, 0.72), "s4d": (0.70, 0.705, 0.71), "lstm": (0.5, 0.52, 0.53)}


def read(folder):
    return analyse(results.read(folder))


def test_contrasts_with_one_control_differ_in_colour_and_marker(make, scene):
    task = read(make(scene())).tasks[0]
    contrasts = (("SPT", "scratch"), ("scratch (matched)", "scratch"))
    svg = charts.gain_plot(charts.gain_panel(replace(task, task=replace(task.task, contrasts=contrasts))))
    assert {colour for colour in style.COLOURS if colour in svg} == {style.COLOURS[1], style.COLOURS[2]}
    usual = charts.gain_plot(charts.gain_panel(task))
    assert style.COLOURS[0] in usual and style.COLOURS[1] in usual, "each has its control's curve's colour"


def test_no_interval_goes_beyond_what_scores_can_be(make, scene):
    task = read(make(scene(rows=HIGH, noise=0.02, seeds=2))).tasks[0]
    assert any(f.mean + (f.over_seeds or 0) > 1 for f in task.means.values()), "else this shows nothing"
    (panel,) = charts.panels(task, grouped=False)
    ends = [end for line in panel.lines for *_, interval in line.means if interval for end in interval]
    assert max(ends) == 100.0 and min(ends) >= 0


@pytest.mark.usefixtures("drawn_pictures")
def test_numbers_of_a_paper_stand_on_axes_of_its_own_task_only(make, scene, paper):
    numbers = {("attention", "SPT"): paper("Transformer", 84.95)}
    made = [scene(task="digits", reported=numbers), scene(task="text", reported=numbers)]
    for scale, shown in {"small": False, "paper": True}.items():
        found = read(make(*made, scale=scale))
        assert found.reported and pictures.papers_task(found) is shown
        words = "".join(ElementTree.fromstring(pictures.scores(found)[0].svg).itertext())
        assert ("paper" in words) is shown


@pytest.mark.usefixtures("drawn_pictures")
@pytest.mark.parametrize(
    ("look", "width"), [pytest.param("neurips", 5.5, marks=pytest.mark.slow), ("icml", 3.25)]
)
def test_every_figure_of_the_page_is_saved_for_a_paper(look, width, make, scene, capsys):
    folder = make(scene(rows=ROWS, test=200))
    assert app.run(["report", str(folder), "--figures", look]) == 0
    capsys.readouterr()
    made = sorted((folder / f"figures-{look}").iterdir())
    assert {path.suffix for path in made} == {".svg", ".pdf"}
    assert {path.stem.partition("-")[0] for path in made} == {"scores", "gain", "ranks", "curves"}
    assert [path.stem for path in made if path.suffix == ".svg"] == [
        path.stem for path in made if path.suffix == ".pdf"
    ]
    for path in made:
        body = path.read_bytes()
        if path.suffix == ".pdf":
            assert b"STIXGeneral" in body and b"/FontFile2" in body, "letters are embedded"
            found = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", body)
        else:
            assert b"<text" not in body, "letters are curves"
            found = re.search(rb'width="([\d.]+)pt"', body)
        assert found and float(found[1]) == pytest.approx(72 * width, abs=0.5)


@pytest.mark.slow
@pytest.mark.usefixtures("drawn_pictures")
def test_figures_and_pages_have_the_same_bytes_again(make, scene, tmp_path):
    folder = make(scene(seeds=2, test=200))
    before = {kind: path.read_bytes() for kind, path in page.write(folder).items()}
    one, two = (page.save_figures(read(folder), "icml", tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert {kind: path.read_bytes() for kind, path in page.write(folder).items()} == before
    assert not [*folder.glob(".*"), *folder.glob("*.pdf")], "no temporary files stay behind, no PDF unasked"


def test_unknown_style_of_figures_is_rejected(make, scene, tmp_path):
    with pytest.raises(SpecError, match=r"^there is no style of figure 'icmll'; did you mean 'icml'\?$"):
        page.save_figures(read(make(scene())), "icmll", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("drawn_pictures")
def test_no_legend_covers_data(make, scene):
    found = read(make(scene()))
    for kind in (pictures.scores, pictures.gains, pictures.curves):
        assert all("legend" in picture.svg for picture in kind(found))
    with style.figure_settings("x"):
        figure, axes = style.canvas(3.0)
        axes.plot([0, 1], [0, 1], label="a line")
        style.legend_above(axes, "title")
        style.to_svg(figure)
        assert figure.legends[0].get_window_extent().y0 >= axes.get_window_extent().y1


def test_a_table_and_a_claim_for_a_paper(make, scene):
    folder = make(*(scene(rows=ROWS, task=f"task {at}", test=200) for at in range(3)))
    found = read(folder)
    made = page.write(folder)["claim"].read_text()
    assert made.count("\\begin{table}") == 1 and made.count("\\\\\n") == 1 + 9
    entry = tables.compact(found).rows[0][2]
    assert re.fullmatch(r"\d\d\.\d ± \d+\.\d", entry.text)
    assert any(entry.bold for row in tables.compact(found).rows for entry in row)
    said = claim(found)
    assert said.count("points [") == 9 and "3 seeds; 95 % intervals" in said and "for lstm on task 2" in said
    assert "points" in made and made.rstrip().endswith(").")


def test_names_below_an_axis_do_not_run_into_one_another(make, scene):
    shares = {f"{share} of labels": (0.60, 0.61, 0.72) for share in ("1%", "5%", "10%", "30%", "100%")}
    (panel,) = charts.panels(read(make(scene(rows=shares))).tasks[0], grouped=True)
    with style.figure_settings("x"):
        figure, axes = style.canvas(3.1)
        axes.set_xticks(range(5), charts._apart(panel.places))
        style.to_svg(figure)
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert charts._apart(("10K", "35K")) == ["10K", "35K"]
