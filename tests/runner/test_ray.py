"""Stages on two nodes of Ray on this machine, which lose a worker and a node in mid-stage."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engines import numbers, recipes
from selfpretrain.cli.app import run
from selfpretrain.errors import SelfPretrainError
from selfpretrain.runner.executors import _remote
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.status import statuses
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.lease import lease_records
from selfpretrain.system.store import FolderStore
from toys import Majority

ROOT = Path(__file__).parents[2]
PORT = 6391


def test_without_ray_one_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run(["study", "coser-table-1", "--scale", "smoke", "--runs", str(tmp_path), "--fresh",
                "--executor", "ray"]) == 2  # fmt: skip
    assert 'pip install "selfpretrain[ray]"' in capsys.readouterr().err


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    """The address of a head without cores, and of two nodes with a core each."""
    pytest.importorskip("ray")
    monkeypatch.setenv(
        "RAY_AUTH_MODE", "disabled"
    )  # once a token is at home, some ask for it and some do not
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block",
               "--object-store-memory=80000000", "--disable-usage-stats"]  # fmt: skip
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    head = ["--head", "--num-cpus=0", "--node-ip-address=127.0.0.1", f"--port={PORT}",
            "--include-dashboard=false", f"--temp-dir=/tmp/spt-ray-{os.getpid()}"]  # fmt: skip
    others = [
        [f"--address=127.0.0.1:{PORT}", f"--node-ip-address=127.0.0.{n}", "--num-cpus=1"] for n in (2, 3)
    ]  # a driver dies with the node that it is on
    nodes, log = [], tmp_path_factory.mktemp("ray") / "log"
    try:
        for flags in (head, *others):
            with log.open("a") as said:
                nodes.append(subprocess.Popen(
                    [*command, *flags], stdout=said, stderr=said, start_new_session=True,
                    env=os.environ | {"PYTHONPATH": path, "RAY_worker_niceness": "0"},
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
    settings = {"address": address}
    workspace = replace(Workspace.of(runs, "cpu", "1"), quiet=True)
    return replace(workspace, executor="ray", executor_settings=settings)


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_node_cost_no_digit(cluster, tmp_path):
    steps, killed = 300, []
    here = replace(Workspace.of(tmp_path / "here", "cpu", "1"), quiet=True)
    run_recipes(recipes(steps), here)
    there = over_ray(tmp_path / "there", cluster)
    (folder,) = {there.stage(r.upto(0)).path for r in recipes(steps) if len(r.stages) == 2}

    def kill():
        for whole_node in (False, True):
            while not (
                (found := lease_records(FolderStore(folder)))
                and found[-1].process not in killed
                and (folder / "log.jsonl").exists()
                and (folder / "log.jsonl").stat().st_size > 500
            ):
                time.sleep(0.05)
            time.sleep(0.5)
            killed.append(found[-1].process)
            parent = int(Path(f"/proc/{killed[-1]}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(killed[-1], signal.SIGKILL)
            if whole_node:
                os.kill(parent, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    run_recipes(recipes(steps), there)
    assert len(killed) == 2
    assert numbers(there, steps) == numbers(here, steps)
    assert [record.how for record in lease_records(FolderStore(folder))] == ["", "", "done"]
    (status,) = [s for s in statuses(there.runs) if s.stage == folder.name]
    assert status.attempts == 3
    assert status.lost > 0.5


def killing(runs, killed):
    """Kill the process of a stage while it owns it, and then the process and the node of another."""
    for whole_node in (False, True):
        while len(killed) <= whole_node:
            for path in sorted(runs.glob("stages/*")):
                last = (lease_records(FolderStore(path)) or [None])[-1]
                if last and not last.how and last.process and path.name not in killed:
                    try:
                        parent = int(
                            Path(f"/proc/{last.process}/stat").read_text().rpartition(")")[2].split()[1]
                        )
                        os.kill(last.process, signal.SIGKILL)
                    except OSError:  # it has just ended
                        continue
                    if whole_node:
                        os.kill(parent, signal.SIGKILL)
                    killed.append(path.name)
                    break
            time.sleep(0.002)


@pytest.mark.slow
def test_a_study_over_two_nodes_is_that_of_one_process(cluster, tmp_path):
    flags = ["study", "amos-table-8", "--scale", "smoke", "--seeds", "1", "--fresh", "-q", "--device", "cpu"]
    here, there, killed = tmp_path / "here", tmp_path / "there", []
    assert run([*flags, "--runs", str(here), "--jobs", "1"]) == 0
    killer = threading.Thread(target=killing, args=(there, killed), daemon=True)
    killer.start()
    ray = ["--executor", "ray", "--with", f"address={cluster}", "--track", "jsonl"]
    assert run([*flags, "--runs", str(there), *ray]) == 0
    assert len(killed) == 2
    (one,), (other,) = (list(runs.glob("*/results.csv")) for runs in (here, there))
    rows = [list(csv.DictReader(path.read_text().splitlines())) for path in (one, other)]
    assert len(rows[0]) > 5
    assert [row | {"seconds": ""} for row in rows[0]] == [row | {"seconds": ""} for row in rows[1]]
    owners = {path.name: [r.how for r in lease_records(FolderStore(path))] for path in there.glob("stages/*")}
    assert {name: how.count("done") for name, how in owners.items()} == dict.fromkeys(owners, 1)
    assert all(len(owners[name]) > 1 for name in killed)
    lines = [json.loads(line) for line in (there / "events.jsonl").read_text().splitlines()]
    ended = [line["name"] for line in lines if line["kind"] == "end"]
    assert sorted(ended) == sorted(owners)
    assert sum(line["kind"] == "lost" for line in lines) >= 2


@pytest.fixture
def job(tmp_path):
    workspace = replace(Workspace.of(tmp_path, "cpu", "1"), quiet=True)
    from selfpretrain.runner.plan import jobs

    return jobs([recipes(4, Majority())[0]], workspace)[0], workspace


def test_a_stage_that_would_be_another_there_gives_no_result(job, monkeypatch, tmp_path):
    from selfpretrain.runner.detached import DetachedJob
    from selfpretrain.training import source

    planned, workspace = DetachedJob.of(job[0]), job[1]
    monkeypatch.setattr(source, "digest", lambda module: "another")
    how, reason = _remote.carry_out(planned, workspace, _remote.Mark("mark"))
    assert how == "failed"
    assert "toys.py is another file here than where the plan was made" in reason
    assert not workspace.named(job[0].name).finished


def test_a_mark_asks_to_stop(job, tmp_path):
    from selfpretrain.runner.detached import DetachedJob

    (job[1].runs / "mark").touch()
    how, _ = _remote.carry_out(DetachedJob.of(job[0]), job[1], _remote.Mark("mark"))
    assert how == "stopped"
    (job[1].runs / "mark").unlink()
    assert _remote.carry_out(DetachedJob.of(job[0]), job[1], _remote.Mark("mark")) == ("done", "")
    told = _remote.ended(job[0], ("lost", "gone"), job[1])
    assert (told.how, type(told.error)) == ("lost", SelfPretrainError)
