"""A plan of the papers' experiments needs no data, and leaves nothing behind; settings of a study's cells."""

import re
import time
from dataclasses import replace

import pytest

import paper_data
from selfpretrain import registry
from selfpretrain.cli import app
from selfpretrain.config import to_dict
from selfpretrain.errors import DataError, SpecError, UnknownName
from selfpretrain.runner.plan import Plan
from selfpretrain.tasks.common.shuffled import Shuffled
from selfpretrain.tasks.spoken_digits import SpokenDigits
from selfpretrain.tasks.text import Text


def cells(name, settings, scale="small", planner=paper_data.ROUGH):
    study = registry.find("studies", name).at_scale(scale, 1).with_settings(settings)
    return {(cell.label, cell.row, cell.column): cell.recipe for cell in study.cells(planner)}


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """A folder without data, which is left as it is."""
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_all_studies_are_planned_at_the_papers_scale_without_a_file(nothing, capsys):
    start = time.process_time()
    assert app.run(["study", "all", "--scale", "paper", "--dry-run", "--gpu", "a100"]) == 0
    assert time.process_time() - start < 60
    said = capsys.readouterr().out
    left_out = re.findall(r"^(\S+): left out", said, re.MULTILINE)
    assert left_out == [
        "compare",
        "label-fraction",
        "long-images",
        "objectives",
        "s4d-or-mamba",
        "s4d-or-mamba-longer",
    ]
    assert "compare: left out: no reported recipe" in said
    assert "on one a100" in said


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_a_plan_leaves_nothing_behind(scale, nothing, capsys):
    assert app.run(["study", "coser-table-4", "--scale", scale, "--dry-run", "--seeds", "1"]) == 0
    assert "stages asked for" in " ".join(capsys.readouterr().out.split())


def test_a_plan_prepares_nothing_and_a_stub_changes_no_other_task(nothing):
    with pytest.raises(
        DataError, match="a dry run prepares nothing: run `selfpretrain data make spoken-digits`"
    ):
        SpokenDigits().stubbed()
    assert len(Text().stubbed().load("train")) == 22_500
    assert len(Text(selection="test").stubbed().load("val")) == 25_000
    assert len(Shuffled(Text(), 4_096).stubbed().load("train")) == 22_500
    stubbed = Text().stubbed()
    assert stubbed == Text() and to_dict(stubbed) == to_dict(Text())
    assert stubbed.stub and not Text().stub
    assert not replace(stubbed, made_up=True).stub


def test_kept_results_are_foreseen_as_done(nothing, capsys):
    assert app.run(["study", "amos-table-8", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("42 stages asked for, 42 different ones: 42 already on disk, 0 to run")


def test_tasks_are_read_from_the_release(tmp_path):
    with paper_data.stubbed(tmp_path) as planner:
        found = cells("amos-table-1", {"task.source": "lra"}, "paper", planner)
    sources = {label: getattr(recipe.task, "source", None) for (label, _, _), recipe in found.items()}
    assert sources == {
        "ListOps": "lra", "Text": None, "Retrieval": None, "Image": None, "Pathfinder": "lra", "PathX": "lra",
    }  # fmt: skip


def test_settings_reach_all_cells_or_some():
    for recipe in cells("coser-table-4", {"finetune.optim.lr": 0.5}).values():
        assert len(recipe.stages) == 1 or recipe.last.optim.lr == 0.5
    found = cells("amos-table-2", {"S4/pretrain.optim.lr": 0.5, "Text/*/pretrain.batch": 16})
    for (label, row, column), recipe in found.items():
        if column == "SPT":
            assert (recipe.stages[0].optim.lr == 0.5) == (row == "S4")
            assert (recipe.stages[0].batch == 16) == (label == "Text")


def test_settings_that_no_cell_has_and_that_are_none():
    for setting in ("task.sauce", "S5/pretrain.optim.lr"):
        with pytest.raises(SpecError, match=f"{setting}: no cell of amos-table-2 has this setting"):
            cells("amos-table-2", {setting: 1})
    with pytest.raises(UnknownName, match="did you mean 'optim'"):
        cells("amos-table-2", {"pretrain.optimum.lr": 1})


def test_changed_studies_are_not_kept_and_have_a_folder_of_their_own(nothing, capsys):
    assert app.run(["study", "coser-table-4", "-s", "model.width=8", "--results", "kept"]) == 2
    assert "--results keeps studies as they are" in capsys.readouterr().err
    study = registry.find("studies", "coser-table-4").at_scale("smoke", 1)
    changed = study.with_settings({"model.width": 8})
    folders = [Plan.of(each.experiment("smoke")).experiment.folder for each in (study, changed)]
    assert folders[0] != folders[1]


def test_published_selection_sees_the_test_reviews():
    honest, published = Text(made_up=True), Text(made_up=True, selection="test")
    for split in ("val", "test"):
        assert published.load(split).digests() == honest.load("test").digests()
    everything = sorted(honest.load("train").digests() + honest.load("val").digests())
    assert sorted(published.load("train").digests()) == everything
