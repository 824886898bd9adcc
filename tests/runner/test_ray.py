"""Stages on two nodes of Ray on this machine, which lose a worker, a node and a driver in mid-stage."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engines import COMPARE, at_work, check_study, numbers, recipes, table
from processes import environment
from selfpretrain.cli.app import run
from selfpretrain.errors import Interrupted
from selfpretrain.runner.plan import plan_recipes
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.runner.stage import RemoteStage
from selfpretrain.runner.workspace import Workspace
from selfpretrain.training import code_hash
from toys import Majority

PORT = 6391


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    """The address of a head without cores, and of two nodes with a core each."""
    pytest.importorskip("ray")
    monkeypatch.setenv(
        "RAY_AUTH_MODE", "disabled"
    )  # once a token is at home, some ask for it and some do not
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block",
               "--object-store-memory=80000000", "--disable-usage-stats"]  # fmt: skip
    head = ["--head", "--num-cpus=0", "--node-ip-address=127.0.0.1", f"--port={PORT}",
            "--include-dashboard=false", f"--temp-dir=/tmp/selfpretrain-ray-{os.getpid()}"]  # fmt: skip
    others = [
        [f"--address=127.0.0.1:{PORT}", f"--node-ip-address=127.0.0.{n}", "--num-cpus=1"] for n in (2, 3)
    ]  # a driver dies with the node that it is on
    nodes, log = [], tmp_path_factory.mktemp("ray") / "log"
    try:
        for flags in (head, *others):
            with log.open("a") as said:
                nodes.append(subprocess.Popen(
                    [*command, *flags], stdout=said, stderr=said, start_new_session=True,
                    env=environment() | {"RAY_worker_niceness": "0"},
                ))  # fmt: skip
            count, end = len(nodes), time.monotonic() + 120
            while log.read_text().count("Ray runtime started") < count:
                if time.monotonic() > end or nodes[-1].poll() is not None:
                    pytest.skip(f"Ray does not start here: {log.read_text()[-300:]}")
                time.sleep(0.2)
        yield f"127.0.0.1:{PORT}"
    finally:
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):  # it has not started, or was killed
                os.killpg(node.pid, signal.SIGTERM)
        for node in nodes:
            node.wait(timeout=60)


def over_ray(runs, address):
    return Workspace(runs, executor="ray", executor_settings={"address": address}, quiet=True)


def kill_at_work(stage, whole_node=False, but=()):
    """Kill the process that has trained a stage for a while, and its node if asked; its number."""
    process = at_work(stage, but)
    parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(process, signal.SIGKILL)
    if whole_node:
        os.kill(parent, signal.SIGKILL)
    return process


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_node_cost_no_digit(cluster, tmp_path):
    steps, killed = 300, []
    here = Workspace(tmp_path / "here", quiet=True)
    run_recipes(recipes(steps), here)
    there = over_ray(tmp_path / "there", cluster)
    (stage,) = {there.stage(r.upto(0)) for r in recipes(steps) if len(r.stages) == 2}

    def kill():
        killed.append(kill_at_work(stage))
        killed.append(kill_at_work(stage, whole_node=True, but=killed))

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    run_recipes(recipes(steps), there)
    assert len(killed) == 2
    assert numbers(there, steps) == numbers(here, steps)
    assert stage.attempts == []


@pytest.mark.slow
def test_a_killed_driver_is_followed_by_the_same_command(cluster, tmp_path):
    """And a second driver on the same directory, meanwhile."""
    flags = [*COMPARE, "--device", "cpu", "-s", "pretrain.budget.steps=300"]
    here, there = tmp_path / "here", tmp_path / "there"
    assert run([*flags, "--runs", str(here), "--jobs", "1"]) == 0
    ray = ["--runs", str(there), "--executor", "ray", "--with", f"address={cluster}"]
    driver = subprocess.Popen([sys.executable, "-m", "selfpretrain", *flags, *ray])
    end = time.monotonic() + 200
    while not (found := list(there.glob("stages/*-masked-*.part-*/log.jsonl"))):
        assert time.monotonic() < end and driver.poll() is None
        time.sleep(0.05)
    at_work(RunDir(found[0].parent).stage)
    second = subprocess.Popen([sys.executable, "-m", "selfpretrain", *flags, *ray])
    driver.kill()
    driver.wait()
    assert second.wait(timeout=300) == 0
    assert run([*flags, *ray]) == 0
    assert table(here) == table(there)
    assert not list(there.glob("stages/*.part-*"))


@pytest.mark.slow
def test_a_driver_that_is_stopped_leaves_a_checkpoint(cluster, tmp_path):
    workspace = over_ray(tmp_path, cluster)
    (stage,) = {workspace.stage(r.upto(0)) for r in recipes(4000) if len(r.stages) == 2}
    seen = lambda: bool(stage.attempts and stage.attempts[0].has("log.jsonl"))  # noqa: E731
    with pytest.raises(Interrupted):
        run_recipes(recipes(4000), replace(workspace, stop=seen))
    (attempt,) = stage.attempts
    assert 0 < attempt.load("checkpoint.safetensors")[1]["step"] < 4000
    assert not stage.is_running


@pytest.mark.slow
def test_a_study_over_two_nodes_is_that_of_one_process(cluster, tmp_path):
    check_study(tmp_path, "--executor", "ray", "--with", f"address={cluster}")


@pytest.fixture
def job(tmp_path):
    workspace = Workspace(tmp_path, quiet=True)
    return plan_recipes([recipes(4, Majority())[0]])[0], workspace


def test_a_stage_that_would_be_another_there_gives_no_result(job, monkeypatch):
    planned, workspace = RemoteStage.of(*job), job[1]
    monkeypatch.setattr(code_hash, "digest", lambda module: "another")
    how, reason = planned.run()
    assert how == "failed"
    assert "toys.py is another file here than where it was planned" in reason
    assert not workspace.folder(job[0].id).finished


def test_a_stage_elsewhere_stops_when_asked(job):
    assert RemoteStage.of(*job).run(lambda: True)[0] == "stopped"
    assert job[1].folder(job[0].id).attempts[0].has("checkpoint.safetensors")
    assert RemoteStage.of(*job).run() == ("done", "")
