"""What is told of a folder of runs, and what is taken away from it."""

import json
import os
import time
from dataclasses import replace

import pytest

from selfpretrain.cli.app import run
from selfpretrain.registry import resolve
from selfpretrain.runner.detached import leave_plan
from selfpretrain.runner.plan import jobs
from selfpretrain.runner.run import run_experiment, run_recipes
from selfpretrain.runner.status import seconds_left, statuses
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import prepare
from selfpretrain.system.lease import Lease


@pytest.fixture(scope="module")
def study():
    return prepare(resolve("tasks", "digits"), (resolve("mixers", "lstm"),), "masked", "smoke", 1)


@pytest.fixture(scope="module")
def recipes(study):
    return [cell.recipe for cell in study.cells()]


@pytest.fixture
def planned(recipes, tmp_path):
    """One stage of four has finished."""
    workspace = replace(Workspace.of(tmp_path, "cpu", "1"), quiet=True)
    run_recipes(recipes[:1], workspace)
    leave_plan("plan", jobs(recipes, workspace), workspace)
    return workspace


def lease(workspace, stage, how="", age=0.0, number=1):
    folder = workspace.named(stage).path
    folder.mkdir(exist_ok=True)
    note = {"host": "far", "process": 7, "place": "there", "since": "2026-01-01 00:00:00+00:00"}
    note |= {"how": how, "error": "no memory" if how else ""}
    (folder / f".lease-{number}").write_text(json.dumps(note))
    os.utime(folder / f".lease-{number}", (time.time() - age,) * 2)


def test_every_stage_stands_somewhere(planned, recipes, capsys):
    done, *rest = [job.name for job in jobs(recipes, planned)]
    lease(planned, rest[0], age=3600)
    lease(planned, rest[0], number=2)
    lease(planned, rest[1], "failed")
    lease(planned, rest[2], age=100)
    found = {status.stage: status.standing for status in statuses(planned.runs)}
    assert found == {done: "done", rest[0]: "running", rest[1]: "failed", rest[2]: "lost"}
    assert seconds_left(planned.runs, statuses(planned.runs)) > 0
    assert run(["runs", "status", str(planned.runs)]) == 0
    said = capsys.readouterr().out
    assert f"running  {rest[0]}, attempt 2: process 7 on far, since 2026-01-01" in said
    assert f"failed  {rest[1]}, attempt 1: no memory" in said
    assert "1 done, 1 running, 0 waiting, 0 stopped, 1 lost, 1 failed" in said
    assert "1 further attempts" in said


def test_what_is_planned_waits(planned):
    assert [status.standing for status in statuses(planned.runs)].count("waiting") == 3
    assert seconds_left(planned.runs, statuses(planned.runs)) is None


def test_why_a_stage_must_be_run(planned, recipes, capsys):
    other = replace(recipes[0], model=replace(recipes[0].model, depth=recipes[0].model.depth + 1))
    leave_plan("other", jobs([other], planned), planned)
    stage, done = planned.stage(other).name, planned.stage(recipes[0]).name
    assert run(["runs", "why", stage[-10:], "--runs", str(planned.runs)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{stage}: the nearest that has finished is {done}"
    assert said[1:] == [f"  model.depth: {other.model.depth}, there {recipes[0].model.depth}"]
    assert run(["runs", "why", done, "--runs", str(planned.runs)]) == 0
    assert "has finished; it is not run again" in capsys.readouterr().out


def test_why_tells_of_other_data(planned, recipes, monkeypatch, capsys):
    monkeypatch.setattr(type(recipes[0].task), "version", lambda self: "new")
    leave_plan("new", jobs(recipes[:1], planned), planned)
    run(["runs", "why", planned.stage(recipes[0]).name, "--runs", str(planned.runs)])
    assert "has the same recipe, but the data" in capsys.readouterr().out


def test_only_what_nothing_refers_to_is_deleted(study, recipes, tmp_path, capsys):
    workspace = replace(Workspace.of(tmp_path, "cpu", "1"), quiet=True)
    run_experiment(study.experiment("smoke"), workspace)
    loose = [replace(recipes[0], seed=seed) for seed in (7, 8)]
    run_recipes(loose, workspace)
    free, held = (workspace.stage(recipe) for recipe in loose)
    before = {path.name for path in tmp_path.glob("stages/*")}
    owner = Lease(held.store)
    assert run(["runs", "gc", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert free.name in said
    assert held.name not in said
    assert {path.name for path in tmp_path.glob("stages/*")} == before
    assert run(["runs", "gc", str(tmp_path), "--delete"]) == 0
    assert before - {path.name for path in tmp_path.glob("stages/*")} == {free.name}
    owner.end("done")
    (next(tmp_path.glob("compare-*")) / "study.json").write_text("{")
    assert run(["runs", "gc", str(tmp_path), "--delete"]) == 1
    assert held.path.exists()
