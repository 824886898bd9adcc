"""Status and cleanup of a runs folder; ``show --check`` names every file that is not as it was written."""

import json
import os
import random
import re
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import toys
from engines import COMPARE, run_experiment, study
from selfpretrain.api import Request, comparison, run_request
from selfpretrain.cli.app import run
from selfpretrain.data.importing.importer import import_arrays
from selfpretrain.errors import Interrupted, StoreError
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.status import check, delete, statuses
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.files import read_json, write_json

STUDY = study()
REQUEST = Request(comparison(toys.Majority(shortest=24), ("attention",), "causal", 1, "smoke", {}), "smoke")


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path, quiet=True)


def test_every_stage_has_a_state(workspace, capsys):
    experiment = STUDY.experiment("smoke")
    first, second = experiment.cells[:2]
    run_experiment(experiment, workspace, only=f"{first.row}/{first.column}")
    with pytest.raises(Interrupted):
        run_recipes([second.recipe], replace(workspace, stop=lambda: True))
    stopped = workspace.stage(second.recipe)
    third = workspace.stage(replace(first.recipe, seed=9))
    with third.attempt(lambda: False) as attempt:
        found = {each.stage: each.state for each in statuses(workspace.runs)}
        assert found.pop(workspace.stage(first.recipe).name) == "done"
        assert found.pop(stopped.name) == "stopped"
        assert found.pop(third.name) == "running"
        assert set(found.values()) == {"waiting"}
        (attempt.path / "error.txt").write_text("Traceback\nValueError: no such thing\n")
    assert run(["runs", "status", str(workspace.runs)]) == 0
    said = capsys.readouterr().out
    assert f"stopped  {stopped.name}: resumes from its checkpoint" in said
    assert f"failed  {third.name}: ValueError: no such thing" in said
    assert f"1 done, 0 running, 1 stopped, 1 failed, {len(found)} waiting" in said
    (plan,) = workspace.runs.glob("*/study.json")
    assert run(["runs", "status", str(plan.parent)]) == 1
    assert "is a study; give its directory of runs, " in capsys.readouterr().err


def test_a_stage_that_fails_says_why(workspace, monkeypatch):
    recipe = next(iter(STUDY.cells())).recipe
    monkeypatch.setattr(type(recipe.last.objective), "make_targets", lambda *given: 1 / 0)
    with pytest.raises(Exception, match="the traceback is in"):
        run_recipes([recipe], workspace)
    (found,) = statuses(workspace.runs)
    assert (found.state, found.detail) == ("failed", "ZeroDivisionError: division by zero")
    monkeypatch.undo()
    run_recipes([recipe], workspace)
    assert [each.state for each in statuses(workspace.runs)] == ["done"]
    assert not workspace.stage(recipe).has("error.txt")


def test_only_what_no_study_refers_to_is_deleted(workspace, capsys):
    runs = workspace.runs
    run_experiment(STUDY.experiment("smoke"), workspace)
    loose = [replace(next(iter(STUDY.cells())).recipe, seed=seed) for seed in (7, 8)]
    run_recipes(loose, workspace)
    free, held = (workspace.stage(recipe) for recipe in loose)
    before = {path.name for path in runs.glob("stages/*")}
    with held.exclusive():
        assert run(["runs", "gc", str(runs)]) == 0
        said = capsys.readouterr().out
        assert free.name in said
        assert held.name not in said
        assert " MB; --delete deletes them\n" in said
        assert {path.name for path in runs.glob("stages/*")} == before
        assert run(["runs", "gc", str(runs), "--delete"]) == 0
        assert " MB deleted\n" in capsys.readouterr().out
        assert run(["runs", "gc", str(runs)]) == 0
        assert capsys.readouterr().out == "0 stages, 0.0 MB\n", "there is nothing to delete"
    assert before - {path.name for path in runs.glob("stages/*")} == {free.name}
    (next(runs.glob("compare-*")) / "study.json").write_text("{")
    assert run(["runs", "gc", str(runs), "--delete"]) == 1
    assert held.path.exists()


@pytest.mark.parametrize(
    ("module", "flags", "extra"),
    [
        ("ray", ("--executor", "ray"), "ray"),
        ("submitit", ("--executor", "slurm"), "slurm"),
        ("torch.utils.tensorboard", ("--track", "tensorboard"), "tracking"),
        ("wandb", ("--track", "wandb"), "tracking"),
        ("trackio", ("--track", "trackio"), "tracking"),
    ],
)
def test_without_its_package_one_line_says_what_to_install(
    module, flags, extra, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, module, None)
    assert run([*COMPARE, "--runs", str(tmp_path), *flags]) == 2
    assert f"pip install 'selfpretrain[{extra}]'" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--seeds", "auto"], ["--tune"], ["--track", "jsonl"]])
def test_a_dry_run_refuses_to_detach_what_a_run_would_not(tmp_path, capsys, flags):
    assert run([*COMPARE, "--runs", str(tmp_path), *flags, "--detach", "--dry-run"]) == 2
    assert "run it without --detach" in capsys.readouterr().err


def test_detach_needs_an_engine_that_goes_on_alone(tmp_path, capsys):
    assert run([*COMPARE, "--runs", str(tmp_path), "--detach"]) == 2
    assert "--detach needs --executor slurm" in capsys.readouterr().err


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """A folder of runs in which a comparison has finished; to be copied."""
    toys.settle()
    runs = tmp_path_factory.mktemp("check") / "runs"
    run_request(REQUEST, Workspace(runs, quiet=True))
    return runs


@pytest.fixture
def runs(done, tmp_path) -> Path:
    shutil.copytree(done, tmp_path / "runs")
    return tmp_path / "runs"


def flaws(runs):
    return [flaw for _, found in check(str(runs), runs) for flaw in found]


def rows(runs):
    toys.settle()
    found = run_request(REQUEST, Workspace(runs, quiet=True)).to_rows()
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found]


def stage_of(runs):
    return sorted(runs.glob("stages/*classify*"))[0]


def test_a_runs_folder_a_study_and_a_stage_can_be_checked(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs.parent)
    (study,) = runs.glob("compare-*")
    stages = len(list(runs.glob("stages/*")))
    for name, count in (
        (runs, stages + 1),
        (study, stages + 1),
        (study.name, stages + 1),
        (stage_of(runs).name, 1),
    ):
        assert run(["show", str(name), "--check"]) == 0
        assert (
            capsys.readouterr().out
            == f"{count} of {count} stages, studies and data sets are as they were written\n"
        )
    log = stage_of(runs) / "log.jsonl"
    log.write_text(log.read_text() + "{}")
    for name, count in ((runs, stages + 1), (study, stages + 1), (stage_of(runs), 1)):
        assert run(["show", str(name), "--check", "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert (
            len(found["checked"]) == count and len(found["flaws"]) == 1 and str(log.name) in found["flaws"][0]
        )


def test_data_sets_can_be_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    for name in ("mine", "yours"):
        import_arrays(name, np.random.default_rng(0).random((60, 8)), [0, 1] * 30)
    for name, count in ((tmp_path, 2), (tmp_path / "own", 2), (tmp_path / "own" / "mine", 1), ("mine", 1)):
        assert run(["show", str(name), "--check"]) == 0
        assert f"{count} of {count} stages, studies and data sets" in capsys.readouterr().out
    file = tmp_path / "own" / "mine" / "flat.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert run(["show", str(tmp_path), "--check"]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert "mine is damaged: flat.bin not as written" in first and last.startswith("1 of 2 ")


@pytest.mark.parametrize("name", ["empty", "missing", "digits"])
def test_a_name_of_nothing_is_a_mistake(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    (tmp_path / "empty").mkdir()
    assert run(["show", name, "--check"]) == 2
    assert "give the folder of runs with --runs" in capsys.readouterr().err


@pytest.mark.slow
def test_a_flipped_bit_in_any_file_is_found_and_following_the_message_restores_the_numbers(runs):
    before, kinds = rows(runs), {}
    for path in [*sorted(runs.glob("stages/*/*")), *runs.glob("*/study.json")]:
        if path.stat().st_size and not path.name.startswith(".lease-"):
            kinds.setdefault(re.sub(r"[0-9a-f]{10}", "", path.name), path)
    assert len(kinds) >= 6, kinds
    for path in kinds.values():
        at = random.Random(path.name)
        content = bytearray(path.read_bytes())
        content[at.randrange(len(content))] ^= 1 << at.randrange(8)
        path.write_bytes(content)
        said, *more = [line for line in flaws(runs) if "is gone;" not in line]
        assert not more, (said, more)
        assert str(path) in said or path.name == "study.json"
        (named,) = re.findall(r"delete this one file, (\S+\.\w+)", said)
        (path.parent / named).unlink()
        assert rows(runs) == before, path
        assert not flaws(runs), path


def test_the_files_of_two_stages_are_told_apart(runs):
    one, other, *_ = sorted(runs.glob("stages/*classify*"))
    for name in ("result.json", "recipe.json", "log.jsonl", "predictions.safetensors", "weights.safetensors"):
        kept = (one / name).read_bytes()
        shutil.copy(other / name, one / name)
        assert any(str(one / name) in line for line in flaws(runs)), name
        (one / name).write_bytes(kept)
    assert not flaws(runs)


def test_unfinished_stages_and_missing_weights_are_not_flaws(runs):
    one, other, *_ = sorted(runs.glob("stages/*classify*"))
    (one / "result.json").unlink()
    (other / "weights.safetensors").unlink()
    assert not flaws(runs)


def test_a_finished_compare_makes_a_missing_page_again_and_leaves_an_edited_one(runs):
    before = rows(runs)
    (page,) = runs.glob("compare-*/report.html")
    page.unlink()
    assert rows(runs) == before and page.exists()
    page.write_text("edited")
    assert rows(runs) == before and page.read_text() == "edited" and not flaws(runs)


def test_exchanged_arms_are_planned_again(runs):
    """With a digest that fits: only who knows the plan can tell."""
    before, (path,) = rows(runs), runs.glob("compare-*/study.json")
    write_json(path, exchanged(read_json(path, (1, 3))))
    assert rows(runs) == before and exchanged(read_json(path, (1, 3))) != read_json(path, (1, 3))


def exchanged(study):
    """The same but for two arms of which each has the stages of the other."""
    cells = {cell["column"]: cell for cell in study["tasks"][0]["cells"]}
    one, other = cells["scratch"], cells["SPT"]
    one["folders"], other["folders"] = other["folders"], one["folders"]
    return study


def without_digest(path, change):
    content = read_json(path, (1, 3))
    change(content)
    path.write_text(json.dumps(content))


FORGERIES = {
    "a score": lambda result: result["scores"]["test"].update(score=0.99, accuracy=0.99),
    "a score of validation": lambda result: result["scores"]["val"].update(score=0.99),
    "compute": lambda result: result["cost"].update(flops=1.0),
    "an objective": lambda result: result.update(objective="own"),
}


@pytest.mark.parametrize("what", FORGERIES)
@pytest.mark.parametrize("predictions", [True, False], ids=["", "no predictions"])
def test_what_check_sees_report_and_compare_see(runs, what, predictions, capsys):
    stage = stage_of(runs)
    without_digest(stage / "result.json", FORGERIES[what])
    if not predictions:
        (stage / "predictions.safetensors").unlink()
    refused_by_all(runs, str(stage), capsys)


@pytest.mark.parametrize("name", ["recipe.json", "environment.json", "predictions.safetensors", "log.jsonl"])
def test_what_is_gone_beside_a_result_is_missed_by_all(runs, name, capsys):
    stage = stage_of(runs)
    (stage / name).unlink()
    assert any(f"{stage / name} is gone" in line for line in flaws(runs))
    refused_by_all(runs, str(stage / name), capsys)


def name_another_objective(stage):
    result = read_json(stage / "result.json", (1, 3))
    write_json(stage / "result.json", result | {"objective": "own"})
    return "it says objective 'own', its recipe 'classify'"


def add_garbage_to_the_log(stage):
    path = stage / "log.jsonl"
    path.write_text(path.read_text() + "garbage}\n")
    return str(path)


def put_a_folder_in_place_of(name, stage):
    (stage / name).unlink()
    (stage / name).mkdir()
    return str(stage / name)


HARMS = {
    "another objective": name_another_objective,
    "garbage in the log": add_garbage_to_the_log,
    "no result": partial(put_a_folder_in_place_of, "result.json"),
    "no predictions": partial(put_a_folder_in_place_of, "predictions.safetensors"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_other_harm_is_refused_by_all_whatever_the_digests(runs, harm, capsys):
    refused_by_all(runs, harm(stage_of(runs)), capsys)


def test_a_plan_without_its_digest_is_refused_by_all(runs, capsys):
    (path,) = runs.glob("compare-*/study.json")
    without_digest(path, exchanged)
    refused_by_all(runs, f"{path} is damaged (its digest, content_sha256, is gone)", capsys)


def refused_by_all(runs, said, capsys):
    """By check, report and compare, each in one line."""
    assert any(said in line for line in flaws(runs)), flaws(runs)
    (study,) = runs.glob("compare-*")
    assert run(["report", str(study)]) == 1
    told = capsys.readouterr().err
    assert said in told and "unforeseen" not in told
    with pytest.raises(StoreError, match=re.escape(said)):
        rows(runs)


def test_a_stray_file_is_no_stage_and_hidden_files_of_others_stay(workspace):
    for name in ("stages/.DS_Store", ".env-template", ".x-defaults"):
        path = workspace.runs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (0, 0))
    assert run(["runs", "gc", str(workspace.runs), "--delete"]) == 0
    assert list(statuses(workspace.runs)) == []
    run_experiment(STUDY.experiment("smoke"), workspace, only="attention/scratch")
    assert (workspace.runs / ".env-template").exists() and (workspace.runs / ".x-defaults").exists()


def test_a_stage_that_another_machine_has_taken_since_is_not_deleted(workspace):
    (recipe,) = REQUEST.experiment().cells[0].recipe.prefixes()
    stage = workspace.stage(recipe)
    (workspace.runs / "stages" / f"{stage.name}.part-elsewhere-1").mkdir(parents=True)
    listed = [(RunDir(path), 0) for path in workspace.runs.glob("stages/*.part-*")]
    assert not list(delete(listed)) and listed[0][0].path.exists()
