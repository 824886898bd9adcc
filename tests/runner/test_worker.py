"""Workers without an engine: they share a folder, and lose nothing when they are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import selfpretrain
from selfpretrain.registry import resolve
from selfpretrain.runner import stage
from selfpretrain.runner.detached import cancel, leave_plan, plans
from selfpretrain.runner.plan import jobs, waiting
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.worker import work
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import prepare
from selfpretrain.system.lease import lease_records
from selfpretrain.system.store import FolderStore
from selfpretrain.training import recipe as recipes_of
from selfpretrain.training import source

SOURCE = Path(selfpretrain.__file__).parents[1]
WORKER = """
import contextlib, sys
from selfpretrain.training import loop, stage_folder
loop.CHECKPOINT_SECONDS = 0.0
if sys.argv[1] == "nolock":  # a network disk mounted so that locks of other machines are not seen
    stage_folder.locked = lambda *_: contextlib.nullcontext()
from selfpretrain.cli.app import run
sys.exit(run(["runs", "worker", *sys.argv[2:]]))
"""


def comparison(steps=4, mixers=("lstm",)):
    mixers = tuple(resolve("mixers", name) for name in mixers)
    study = prepare(resolve("tasks", "digits"), mixers, "masked", "smoke", 1)
    return [c.recipe for c in study.amended({"pretrain.budget.steps": steps}).cells()]


def plan(runs, recipes, name="plan"):
    workspace = Workspace.of(runs, "cpu")
    leave_plan(name, waiting(jobs(recipes, workspace), workspace), workspace)
    return replace(workspace, quiet=True)


def started(runs, *flags, locks="lock"):
    command = [sys.executable, "-c", WORKER, locks, str(runs), "--device", "cpu", *flags]
    path = {"PYTHONPATH": f"{SOURCE}:{Path(__file__).parents[1]}"}
    return subprocess.Popen(
        command, env=os.environ | path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def numbers(runs):
    found = {}
    for path in sorted(runs.glob("stages/*/result.json")):
        result = json.loads(path.read_text())
        found[path.parent.name] = [result[key] for key in ("scores", "steps", "weights", "data", "best_step")]
    return found


def began(text):
    return [json.loads(line)["stage"] for line in text.splitlines() if line.startswith('{"kind": "end"')]


def until(look, seconds=120.0):
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    runs = tmp_path_factory.mktemp("undisturbed")
    run_recipes(comparison(400), replace(Workspace.of(runs, "cpu", "1"), quiet=True))
    return numbers(runs)


def halfway(runs, lines=20):
    """The stage that is being trained, and has a checkpoint to lose."""
    until(
        lambda: [p for p in runs.glob("stages/*masked*/log.jsonl") if len(p.read_text().splitlines()) > lines]
    )
    return next(runs.glob("stages/*masked*"))


@pytest.mark.slow
def test_a_killed_worker_costs_time_and_no_digit(undisturbed, tmp_path):
    plan(tmp_path, comparison(400))
    first = started(tmp_path)
    folder = halfway(tmp_path)
    first.kill()
    first.wait()
    assert not (folder / "result.json").exists()
    at = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["step"]
    begin = time.monotonic()
    second = started(tmp_path)
    out, said = second.communicate(timeout=300)
    assert second.returncode == 0, said
    assert numbers(tmp_path) == undisturbed
    assert [record.how for record in lease_records(FolderStore(folder))] == ["", "done"]
    print(f"killed at step {at} of 400; all else took {time.monotonic() - begin:.1f} s; {out}")


@pytest.mark.slow
def test_who_wakes_up_later_writes_nothing(undisturbed, tmp_path):
    plan(tmp_path, comparison(400))
    asleep = started(tmp_path, "--lease", "1", locks="nolock")
    folder = halfway(tmp_path)
    asleep.send_signal(signal.SIGSTOP)
    other = started(tmp_path, locks="nolock")
    _, said = other.communicate(timeout=300)
    assert other.returncode == 0, said
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    asleep.send_signal(signal.SIGCONT)
    _, told = asleep.communicate(timeout=300)
    assert "has taken over" in told
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert numbers(tmp_path) == undisturbed


@pytest.mark.slow
def test_workers_side_by_side_share_the_stages(tmp_path):
    plan(tmp_path, comparison(mixers=("lstm", "s4d", "attention")))
    workers = [started(tmp_path) for _ in range(3)]
    said = [began(worker.communicate(timeout=300)[1]) for worker in workers]
    everything = [name for part in said for name in part]
    assert sorted(everything) == sorted(numbers(tmp_path))
    assert len(everything) == 12


@pytest.fixture
def left(tmp_path):
    return plan(tmp_path, comparison())


def test_a_plan_is_carried_out_once(left):
    names = [job.stage for job in plans(left.runs)[0].jobs]
    assert sorted(work(left).finished) == sorted(names)
    assert work(left).finished == []


def test_another_version_of_our_numerics_gives_no_result(left, monkeypatch):
    monkeypatch.setattr(recipes_of, "RESULTS", recipes_of.RESULTS + 1)
    done = work(left)
    (reason,) = done.refused
    assert f"numerics {recipes_of.RESULTS}, the plan of {recipes_of.RESULTS - 1}" in reason
    assert not numbers(left.runs)


def test_other_data_give_no_result(left, monkeypatch):
    kind = type(comparison()[0].task)
    monkeypatch.setattr(kind, "version", lambda self: "abc")
    (reason,) = work(left).refused
    assert reason == "data of digits are version abc here, unknown in the plan"
    assert not numbers(left.runs)


def test_another_file_of_a_mixer_gives_no_result(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "digest", lambda module: "before")
    toys = pytest.importorskip("toys")
    recipe = replace(comparison()[0], model=replace(comparison()[0].model, mixer=toys.Careless()))
    workspace = plan(tmp_path, [recipe])
    assert "add --trust toys" in next(iter(work(workspace).refused))
    monkeypatch.setattr(source, "digest", lambda module: "after")
    (reason,) = work(workspace, ("toys",)).refused
    assert reason == "toys.py is another file here than where the plan was made"
    monkeypatch.setattr(source, "digest", lambda module: "before")
    assert len(work(workspace, ("toys",)).finished) == 1


def test_what_failed_is_not_tried_again_until_it_is_planned_again(left, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(stage, "_train", lambda recipe, *_: 1 / 0)
        done = work(left)
    assert not done.finished
    assert all("division by zero" in reason for reason in done.failed.values())
    again = work(left)
    assert (again.finished, again.failed.keys()) == ([], done.failed.keys())
    plan(left.runs, comparison())
    assert len(work(left).finished) == 4


def test_what_is_lost_again_and_again_is_given_up(left):
    since = plans(left.runs)[0].since + 1
    for job in plans(left.runs)[0].jobs:
        folder = left.named(job.stage).path
        folder.mkdir(parents=True)
        for number in (1, 2, 3):
            (folder / f".lease-{number}").write_text(json.dumps({"seconds": -9.0}))
            os.utime(folder / f".lease-{number}", (since, since))
    done = work(left)
    assert not done.finished
    assert set(done.failed.values()) == {"lost 3 times with its worker; out of memory?"}
    assert len(work(left, attempts=4).finished) == 4


def test_a_cancelled_plan_is_not_begun(left):
    assert cancel(left.runs, "another") == []
    assert cancel(left.runs) == ["plan"]
    assert work(left).finished == []


@pytest.mark.slow
def test_workers_on_a_cancelled_plan_save_and_end(tmp_path):
    plan(tmp_path, comparison(4000)[-1:])
    worker = started(tmp_path)
    folder = halfway(tmp_path, lines=1)
    cancel(tmp_path)
    worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert (folder / "checkpoint.safetensors").exists()
    assert [record.how for record in lease_records(FolderStore(folder))] == ["stopped"]
