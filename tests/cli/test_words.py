"""What people read in a terminal: help, settings, suggestions, narrow tables, JSON."""

import json
import shutil

import pytest

import toys
from selfpretrain.api import comparison
from selfpretrain.cli import app
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.registry import SHELVES, first_line, names
from selfpretrain.runner.plan import plan_recipes
from selfpretrain.tasks.imported import Imported

TOY = ["compare", "--task", "toys:Majority", "--mixers", "attention", "--seeds", "1", "--dry-run"]
TOY += ["-s", "task.shortest=24"]  # FLOPs of equal lengths are counted sooner


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))


def said(capsys, *arguments, code=0):
    assert app.run(list(arguments)) == code
    found = capsys.readouterr()
    return " ".join((found.out + found.err).split())


@pytest.mark.parametrize("verb", app.EXAMPLES)
def test_every_verb_has_an_example_that_it_understands(verb, capsys):
    text = said(capsys, verb, "-h")
    assert f"Example: {app.EXAMPLES[verb]}" in text
    flags = [word for word in app.EXAMPLES[verb].split() if word.startswith("--")]
    assert all(flag in text for flag in flags) and app.EXAMPLES[verb].startswith(f"selfpretrain {verb} ")


@pytest.mark.parametrize("columns", ["60", "80"])
def test_help_cuts_no_word(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERMINAL_WIDTH", columns)
    groups = (["data", "import"], ["runs", "status"], ["model", "take"])
    for words in ([], *([verb] for verb in app.VERBS), *groups):
        assert app.run([*words, "--help"]) == 0
        told = capsys.readouterr().out
        assert "…" not in told and "..." not in told.replace("s3://...", "").replace("[ARGS]...", ""), words
        assert max(map(len, told.splitlines())) <= int(columns)


def test_verbs_are_shown_in_panels_and_nothing_is_a_question_for_help(capsys):
    text = said(capsys, "--help")
    assert text == said(capsys) == said(capsys, "-h")
    assert text.index("compare") < text.index("Single runs") < text.index("Trace a printed number")
    assert text.index("Trace") < text.index("Groups of further commands") < text.index("Look after folders")


def test_names_in_docstrings_are_listed_in_single_backticks(capsys):
    for shelf in SHELVES:
        listed = said(capsys, "list", shelf)
        assert "``" not in listed, shelf
    assert "as imported by `selfpretrain data import`" in said(capsys, "list", "tasks")
    assert "over `rank` learned" in said(capsys, "list", "mixers")
    assert "``" not in first_line(Imported("mine"))


def test_settings_can_be_listed(capsys):
    found = json.loads(said(capsys, "list", "settings", "toys:Majority", "--json"))
    assert found["task.length"] == 24 and found["mixer.heads"] and found["finetune.optim.lr"] == 2e-3
    study = comparison(toys.Majority(), ("attention",), None, 1, "small", {})
    for path, value in found.items():
        text = json.dumps(value) if isinstance(value, int | float | str | None) else None
        if text and not path.startswith("task") and "budget" not in path:
            assert study.with_settings({path: text}).architectures == study.architectures, path


def test_imported_data_are_tasks(capsys, random):
    import_arrays("mine", random.rand(60, 8), [0, 1] * 30)
    assert "mine Imported, in" in said(capsys, "list", "tasks")
    assert "mine" in json.loads(said(capsys, "list", "tasks", "--json"))


def test_names_that_are_far_away_are_not_offered(capsys):
    assert "did you mean" not in said(capsys, "compare", "--task", "nosuch", "--dry-run", code=2)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_plan_fits_any_terminal(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert app.run([*TOY, "--mixers", "attention,gru"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "Stages to run, task majority, times 1"
    table = [line.rstrip() for line in lines if not line.startswith("8 stages asked")]
    assert all(len(line) <= columns for line in table)
    words = " ".join(table).split()
    assert {"mixer", "parameters", "FLOPs", "attention", "classify", "causal"} <= set(words)


def test_a_pipe_is_as_wide_as_it_takes(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert app.run(TOY) == 0
    assert any("causal > classify" in line for line in capsys.readouterr().out.splitlines())


def test_plans_and_machines_as_json(capsys):
    plan = json.loads(said(capsys, *TOY, "--json"))
    assert [stage["stages"] for stage in plan["stages"]].count("causal > classify") == 1
    assert plan["seconds"] > 0
    assert json.loads(said(capsys, "doctor", "--json"))["selfpretrain"]


@pytest.mark.parametrize("shelf", SHELVES)
def test_everything_on_a_shelf_can_be_described(shelf, capsys):
    if shelf == "tasks":
        text = said(capsys, "list", "tasks", "bidmc")
        assert "licence" in text and "split" in text
    for name in names(shelf) if shelf in ("executors", "trackers") else names(shelf)[:1]:
        assert json.loads(said(capsys, "list", shelf, name, "--json"))["is"]


def test_stages_have_names_that_people_read():
    study = comparison(toys.Majority(), ("gru",), None, 2, "smoke", {})
    titles = [stage.recipe.title for stage in plan_recipes(cell.recipe for cell in study.cells())]
    assert "majority, gru, causal > classify, seed 1" in titles


def test_a_report_of_several_folders_is_a_list(compared, tmp_path, capsys):
    shutil.copytree(compared.runs, tmp_path / "runs")
    (study,) = (tmp_path / "runs").glob("compare-*")
    shutil.copytree(study, study.with_name("compare-again"))
    assert app.run(["report", "runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(line.endswith("report.html") for line in lines)
