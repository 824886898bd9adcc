"""Stages through submitit: in processes of this machine, as Slurm itself needs daemons and root."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from selfpretrain.cli.app import run
from selfpretrain.registry import resolve
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import prepare
from selfpretrain.system.lease import lease_records


def recipes(steps):
    study = prepare(resolve("tasks", "digits"), (resolve("mixers", "lstm"),), "masked", "smoke", 1)
    return [cell.recipe for cell in study.amended({"pretrain.budget.steps": steps}).cells()][-1:]


def asked(runs, *flags):
    command = ["study", "coser-table-1", "--scale", "smoke", "--fresh", "--runs", str(runs)]
    return run([*command, "--executor", "slurm", *flags])


def test_without_submitit_one_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert asked(tmp_path) == 2
    assert 'pip install "selfpretrain[slurm]"' in capsys.readouterr().err


def test_where_there_is_no_slurm_one_line_says_so(tmp_path, capsys):
    pytest.importorskip("submitit")
    assert asked(tmp_path, "--with", "cluster=slurm") == 2
    assert "--with cluster=local" in capsys.readouterr().err
    assert asked(tmp_path, "--with", "cluster=local", "--with", "cpus=many") == 2
    assert "--with cpus=many: give a number" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_job_is_handed_in_again_and_costs_no_digit(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{root / 'src'}:{os.environ.get('PYTHONPATH', '')}")
    (recipe,) = recipes(600)
    here = replace(Workspace.of(tmp_path / "here", "cpu", "1"), quiet=True)
    run_recipes([recipe], here)
    there = replace(
        Workspace.of(tmp_path / "there", "cpu", "1"),
        quiet=True, executor="slurm", executor_settings={"cluster": "local", "minutes": "10"},
    )  # fmt: skip
    folder = there.stage(recipe.upto(0)).path

    def kill():
        while not (folder / "log.jsonl").exists() or (folder / "log.jsonl").stat().st_size < 500:
            time.sleep(0.05)
        os.kill(lease_records(folder)[-1].process, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    run_recipes([recipe], there)
    for prefix in recipe.prefixes():
        mine, other = (w.stage(prefix).read("result.json") for w in (here, there))
        assert [mine[key] for key in ("scores", "weights")] == [other[key] for key in ("scores", "weights")]
    assert [record.how for record in lease_records(folder)] == ["", "done"]
