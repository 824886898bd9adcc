"""How far stages are, and what is deleted of them."""

import sys
from dataclasses import replace

import pytest

from engines import COMPARE, study
from selfpretrain.cli.app import run
from selfpretrain.errors import Interrupted
from selfpretrain.runner.run import run_experiment, run_recipes
from selfpretrain.runner.status import statuses
from selfpretrain.runner.workspace import Workspace

STUDY = study()


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
    assert f'pip install "selfpretrain[{extra}]"' in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--seeds", "auto"], ["--tune"]])
def test_a_dry_run_refuses_to_detach_what_a_run_would_not(tmp_path, capsys, flags):
    assert run([*COMPARE, "--runs", str(tmp_path), *flags, "--detach", "--dry-run"]) == 2
    assert "run it without --detach" in capsys.readouterr().err


def test_detach_needs_an_engine_that_goes_on_alone(tmp_path, capsys):
    assert run([*COMPARE, "--runs", str(tmp_path), "--detach"]) == 2
    assert "--detach needs --executor slurm" in capsys.readouterr().err
