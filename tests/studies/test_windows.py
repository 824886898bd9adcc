"""Windows of learning rates: which runs are made, and how wide a window is."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paper_data
from scripts import script
from selfpretrain.runner.tuning import TUNING_SEED
from selfpretrain.studies import modern_zoo
from selfpretrain.studies.modern_zoo import ModernZoo
from selfpretrain.training.recipe import fingerprint

SOME = dict(list(modern_zoo.ZOO.items())[:3])
RATES = (1.0, 2.0, 4.0, 16.0)
tool = script("learning_rates")
tuned_tool = script("tuned_rates")
windows = script("windows")


def curve(*scores, rates=RATES):
    return dict(zip(rates, ([score] for score in scores), strict=True))


@pytest.fixture
def few(monkeypatch):
    """The study with its first three architectures, one on each task at smoke scale."""
    monkeypatch.setattr(modern_zoo, "ZOO", SOME)


def test_every_architecture_and_arm_has_the_same_rates_and_seeds_around_the_cells_of_the_study(
    few, monkeypatch
):
    tiny = {label: task.tiny() for label, task in ModernZoo.stand_ins.items() if label in tool.RATES}
    monkeypatch.setattr(ModernZoo, "stand_ins", tiny)
    study = ModernZoo.at_scale("small", 1)
    cells = {
        (label, cell.row, cell.column): cell.recipe
        for label, of_task in study.cells_by_task(paper_data.ROUGH).items()
        for cell in of_task
    }
    settings, middle = {}, {}
    for runs in tool.runs_of_rows("small", paper_data.ROUGH):
        (label,) = {label for label, task in study.all_tasks().items() if task == runs[0].recipe.task}
        for run in runs:
            rate = run.recipe.last.optim.lr
            assert rate == run.rate
            settings.setdefault((label, run.row, run.column), []).append((rate, run.recipe.seed))
            if rate == sorted(tool.RATES[label])[len(tool.RATES[label]) // 2]:
                middle[label, run.row, run.column] = replace(run.recipe, seed=0)
        before = {fingerprint(run.recipe.upto(0)) for run in runs if len(run.recipe.stages) == 2}
        assert len(before) == len(tool.SEEDS)
    assert {key: fingerprint(recipe) for key, recipe in middle.items()} == {
        key: fingerprint(recipe) for key, recipe in cells.items() if key[2] in tool.ARMS
    }
    numbers = {"Pathfinder": 5, "Text": 3, modern_zoo.RECALL: 3}
    assert {(label, len({*tried})) for (label, *_), tried in settings.items()} == {
        (label, 2 * number) for label, number in numbers.items()
    }
    assert not {*tool.SEEDS} & {*range(100), TUNING_SEED}


def test_from_runs_to_table_pictures_and_page(few, monkeypatch, tmp_path):
    monkeypatch.setattr(tool, "SEEDS", tool.SEEDS[:1])
    monkeypatch.setattr(tool, "RATES", {label: rates[:2] for label, rates in tool.RATES.items()})
    table = tmp_path / "windows.tsv"
    arguments = [str(table), "--runs", str(tmp_path / "runs"), "--scale", "smoke"]
    tool.main(arguments)
    first = table.read_bytes()
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 2 * 3 * 2
    chance = {row["task"]: row["chance"] for row in rows}
    assert chance == {"paths": "0.5", "stdlib": "0.125", "recall": "0.25"}
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("result.json")}
    tool.main(arguments)
    elsewhere = tmp_path / "elsewhere"  # without the stages: the table suffices
    tool.main([str(table), "--runs", str(elsewhere), "--scale", "smoke"])
    assert table.read_bytes() == first and not list(elsewhere.rglob("result.json"))
    assert made == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("result.json")}
    tuned = tmp_path / "windows-tuned.tsv"
    arguments = [str(table), str(tuned), "--runs", str(tmp_path / "tuned"), "--scale", "smoke"]
    tuned_tool.main(arguments)
    with tuned.open(newline="") as file:
        tested = list(csv.DictReader(file, delimiter="\t"))
    assert {(row["task"], row["row"], row["column"]) for row in tested} == set(tuned_tool.best_rates(table))
    assert len(tested) == 3 * 2 * 3 and {row["seed"] for row in tested} == {"0", "1", "2"}
    first = tuned.read_bytes()
    tuned_tool.main([*arguments[:2], "--runs", str(elsewhere), "--scale", "smoke"])
    assert tuned.read_bytes() == first and not list(elsewhere.rglob("result.json"))
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("windows", "tuned")))
    windows.write(page, table, tuned)
    assert page.read_text().count("\n| paths") == 4
    lines = (tmp_path / "page-widths.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == ["paths", "recall", "stdlib"]
    assert len({line.count("\t") for line in lines}) == 1
    curves, chances = windows.read(table)
    windows.draw(curves["paths"], chances["paths"], tmp_path / "windows.svg")
    assert "learning rate" in (tmp_path / "windows.svg").read_text()


def test_the_best_rate_has_the_best_mean_the_lower_of_equal_ones(tmp_path):
    rows = [("0.01", 0.7), ("0.01", 0.9), ("0.002", 0.8), ("0.002", 0.8), ("0.03", 0.85), ("0.03", 0.6)]
    lines = [f"paths\tLRU\tSPT\t{rate}\t{score}" for rate, score in rows]
    (tmp_path / "windows.tsv").write_text("\n".join(["task\trow\tcolumn\tlr\tvalidation", *lines]))
    assert tuned_tool.best_rates(tmp_path / "windows.tsv") == {("paths", "LRU", "SPT"): "0.002"}
    assert windows.best_rate({0.01: [70.0, 90.0], 0.002: [80.0, 80.0], 0.03: [85.0, 60.0]}) == (
        pytest.approx(0.002)
    )


def test_results_at_the_rate_of_the_study_are_taken_from_it(monkeypatch, tmp_path):
    """All architectures of a task at that rate: nothing is trained, and gains are those of the study."""
    monkeypatch.setattr(tuned_tool, "run_recipes", lambda recipes, workspace: trained.extend(recipes))
    monkeypatch.setattr(modern_zoo, "ZOO", SOME)
    monkeypatch.setattr(tuned_tool, "COUNTED", paper_data.ROUGH)
    trained = []
    rows = [f"paths\t{row}\t{arm}\t0.002\t0.9" for row in SOME for arm in tool.ARMS]
    (tmp_path / "windows.tsv").write_text("\n".join(["task\trow\tcolumn\tlr\tvalidation", *rows]))
    table = tmp_path / "tuned.tsv"
    tuned_tool.main([str(tmp_path / "windows.tsv"), str(table), "--runs", str(tmp_path / "runs")])
    assert trained == []
    at_best, at_one = windows.test_scores(table)
    assert at_best == pytest.approx(at_one, abs=0.01) and len(at_best) == 6


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((90, 90, 90, 90), 4.0),
        ((50, 90, 50, 50), 2 * 5 / 40 - 1 * 5 / 40 + 1 * 5 / 40),
        ((90, 80, 80, 80), 0.5),
        ((50, 50, 80, 90), 1.0),
        ((86, 90, 84, 85), 1 + 5 / 6 + 0),
        ((90, 70, 70, 90), 0.25 + 0.5),
    ],
)
def test_a_window_is_where_the_interpolated_score_is_near_the_best(scores, expected):
    found = curve(*scores)
    assert windows.width(found, windows.best(found)) == pytest.approx(expected)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=6), st.floats(0, 100))
def test_widths_agree_with_a_fine_grid(scores, reference):
    rates = [3.0**i for i in range(len(scores))]
    octaves = np.linspace(0, np.log2(rates[-1]), 40_001)
    share = (np.interp(octaves, np.log2(rates), scores) >= reference - windows.WITHIN).mean()
    found = windows.width(curve(*scores, rates=rates), reference)
    assert found == pytest.approx(share * octaves[-1], abs=1e-3 * octaves[-1])


def test_what_learns_nothing_has_no_own_window_and_an_empty_common_one():
    learnt, nothing = curve(70, 90, 90, 70), curve(50, 51, 50, 50)
    curves = {"task": {name: {"SPT": learnt, "scratch (matched)": nothing} for name in "abc"}}
    own, common = windows.summary(curves, {"task": 50.0})[1:]
    assert own[2:] == ["0", "-", "-", "-"]
    width = windows.width(learnt, 90)
    assert common[2:] == ["3", f"{width:.2f}", "0.00", f"{width:+.2f} [{width:+.2f}, {width:+.2f}]"]
    row = windows.each(curves, {"task": 50.0}, {("task", "a", "SPT"): 88.0})[1]
    assert row[4:] == ["2", "2", "88.0", "-", "-", "-", f"{width:.1f}", "0.0"]


def test_the_interval_is_of_the_mean_over_architectures():
    differences = np.random.default_rng(1).normal(1.0, 2.0, 23)
    low, high = windows.interval(differences)
    half = 1.96 * differences.std() / 23**0.5
    assert low == pytest.approx(differences.mean() - half, abs=0.15)
    assert high == pytest.approx(differences.mean() + half, abs=0.15)
