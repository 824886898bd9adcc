"""From cells to a page: choosing cells, kept results, the grid, and what needs to run again."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import toys
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.report import page as report
from selfpretrain.runner import publish, run, tuning
from selfpretrain.runner.plan import chosen, jobs, remembered, waiting
from selfpretrain.runner.publish import Publication
from selfpretrain.runner.run import carry_out, perform
from selfpretrain.runner.workspace import Machine
from selfpretrain.studies.amos_figure_4 import Kernels
from selfpretrain.studies.attention_distance import attention_distance
from selfpretrain.studies.coser_table_4 import QueriesAndKeys
from selfpretrain.tasks.digits import Digits
from selfpretrain.training import cost
from selfpretrain.training.build import build_network
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage
from selfpretrain.training.stage_folder import WEIGHTS, Folder


@pytest.fixture(autouse=True)
def one_thread():
    toys.settle()


@pytest.fixture
def machine(tmp_path):
    return replace(Machine.of(tmp_path / "runs", "cpu", "1"), quiet=True)


@pytest.fixture(scope="module")
def study():
    return QueriesAndKeys("smoke", 1)


@pytest.fixture(scope="module")
def done(study, tmp_path_factory):
    """Where the study has been carried out; to be read only."""
    toys.settle()
    machine = replace(Machine.of(tmp_path_factory.mktemp("done"), "cpu", "1"), quiet=True)
    carry_out(study, machine)
    return machine


def trained(monkeypatch):
    """Counts the stages that are really trained from now on."""
    names, train = [], run.work

    def counted(todo, bench, workers):
        before = {job.name for job in todo if Folder(bench.folder(job.recipe)).finished}
        train(todo, bench, workers)
        names.extend(job.name for job in todo if job.name not in before)

    monkeypatch.setattr(execute, "work", counted)
    return names


def test_cells_are_chosen_by_row_and_column(study):
    cells = list(study.cells())
    assert {c.row for c in chosen(cells, "identical*")} == {"identical start"}
    assert {c.column for c in chosen(cells, "*/Q and K")} == {"Q and K"}
    assert chosen(cells, None) == cells
    with pytest.raises(SpecError, match="did you mean 'identical start/scratch'"):
        chosen(cells, "identical start/scrach")


def test_kept_results_make_the_same_page_without_training(study, done, tmp_path, monkeypatch):
    results, cells = tmp_path / "results", list(study.cells())
    here = Publication(study, "smoke", cells, done, results)
    first = here.write()
    report.write(first)
    count = here.keep()
    assert count == len(jobs(cells, done.bench))
    elsewhere = replace(Machine.of(tmp_path / "elsewhere", "cpu", "1"), quiet=True)
    there = replace(here, machine=elsewhere)
    assert there.restore() == count
    names = trained(monkeypatch)
    carry_out(study, elsewhere)
    assert not names
    again = there.write()
    report.write(again)
    assert (again / "report.md").read_text() == (first / "report.md").read_text()


def test_a_new_stage_on_kept_pretraining_trains_that_again(study, machine):
    cells = list(study.cells())
    cell = next(c for c in cells if c.column == "everything")
    todo = jobs([cell], machine.bench)
    perform(todo, machine)
    assert waiting(todo, machine) == []
    pretraining = Folder(machine.bench.folder(cell.recipe.upto(0)))
    pretraining.drop(WEIGHTS)  # as if it came from kept results
    assert waiting(todo, machine) == []
    more = jobs([replace(c, recipe=c.recipe) for c in cells if c.row == cell.row], machine.bench)
    assert todo[0].name in {job.name for job in waiting(more, machine)}
    perform(more, machine)
    assert waiting(more, machine) == []
    assert pretraining.has(WEIGHTS)


def test_only_runs_some_and_shows_the_rest_as_missing(study, machine):
    folders = carry_out(study, machine, only="independent start/scratch")
    text = (folders[0] / "report.md").read_text()
    assert "missing" in text
    stages = [path for path in (machine.bench.runs / "stages").iterdir() if (path / "result.json").exists()]
    assert len(stages) == len(folders)  # one per task


def test_grid_is_equal_for_all_and_does_not_read_test(study, machine):
    cells = [c for c in study.cells() if c.row == "independent start" and c.label == "Image"]
    tuned, said = tuning.tuned(cells, machine, tuning.Grid(lr=(1e-3, 1e-5), batch=(4,)))
    assert [(c.row, c.column) for c in tuned] == [(c.row, c.column) for c in cells]
    assert len(said) == len(cells) and all("of 2 settings tried" in line for line in said)
    for cell in tuned:
        assert cell.recipe.last.batch == 4 and cell.recipe.last.optim.lr in (1e-3, 1e-5)
    for path in (machine.bench.runs / "stages").glob("*/result.json"):
        assert "test" not in json.loads(path.read_text())["scores"]


def test_another_batch_sees_as_many_examples(study):
    recipe = next(iter(study.cells())).recipe
    changed = tuning.with_setting(recipe, (1e-3, recipe.last.batch // 2))
    assert changed.last.batch * changed.last.budget.steps == recipe.last.batch * recipe.last.budget.steps


def test_sections_of_a_docstring(study):
    sections = publish.about(study)
    assert sections["Source"] == "Coser & Orvieto (2025), Table 4."
    assert "identical ones" in sections["Protocol"]


def test_what_was_measured_on_weights_is_kept_without_them(machine, tmp_path):
    study = Kernels("smoke", 1)
    here = Publication(study, "smoke", list(study.cells()), machine, tmp_path / "results")
    carry_out(study, machine)
    measured = json.loads((here.write() / "sheet.json").read_text())["measures"]
    assert [m["series"][1]["label"] for m in measured] == ["SPT"] * len(measured) and measured
    here.keep()
    there = replace(here, machine=replace(Machine.of(tmp_path / "elsewhere", "cpu", "1"), quiet=True))
    there.restore()
    assert json.loads((there.write() / "sheet.json").read_text())["measures"] == measured
    other = replace(there, study=Kernels("smoke", 2), cells=list(Kernels("smoke", 2).cells()))
    other.restore()
    assert json.loads((other.write() / "sheet.json").read_text())["measures"] == []  # of other cells


@pytest.mark.parametrize("causal", [False, True])
def test_distance_of_attention_to_all_alike_is_the_mean_distance(causal):
    task = Digits(train=20)
    model = Model(Attention(), width=8, depth=1, causal=causal)
    recipe = Recipe(task, model, (Stage(Classify(), Budget(steps=1)),))
    network = build_network(recipe)
    with torch.no_grad():
        network.blocks[0].mixer.q.weight.zero_()
        network.blocks[0].mixer.q.bias.zero_()
    at = np.arange(64)
    apart = np.abs(at[:, None] - at)
    expected = np.mean([apart[t, : t + 1].mean() for t in at]) if causal else apart.mean()
    assert attention_distance(network, task) == pytest.approx([expected], abs=2e-3)


def test_a_page_is_current_until_what_it_says_changes(study, done, machine, tmp_path):
    cells = list(study.cells())
    here = Publication(study, "smoke", cells, machine, tmp_path / "results")
    assert not here.current
    shutil.copytree(done.bench.runs, machine.bench.runs, dirs_exist_ok=True)
    report.write(here.write())
    assert here.current
    here.results.mkdir()
    reading = here.results / "coser-table-4.smoke.md"
    reading.write_text("Less than hoped.")
    assert not here.current
    here.write()
    assert here.current
    Folder(machine.bench.folder(cells[0].recipe)).drop("result.json")
    assert not here.current


def test_costs_are_worked_out_once_per_folder_of_runs(study, machine, monkeypatch):
    recipe = next(iter(study.cells())).recipe
    monkeypatch.setattr(cost, "known", {})
    with remembered(machine):
        plan = cost.plan(recipe)
    monkeypatch.setattr(cost, "known", {})
    monkeypatch.setattr(cost, "_plan", None)
    with remembered(machine):
        assert cost.plan(recipe) == plan
    costs = machine.bench.runs / "costs.json"
    costs.write_text(costs.read_text().replace(torch.__version__, "0.0.0"))
    monkeypatch.setattr(cost, "known", {})
    with remembered(machine), pytest.raises(TypeError):
        cost.plan(recipe)
