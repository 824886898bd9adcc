"""A stage that two processes train together: its numbers, its end, and what happens when one is killed."""

import json
import os
import queue
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engines import COMPARE, recipes
from selfpretrain.cli.app import run
from selfpretrain.errors import Interrupted, SpecError, StageFailed
from selfpretrain.runner import launch
from selfpretrain.runner.plan import jobs
from selfpretrain.runner.stage import run_stage
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.events import Event
from selfpretrain.system.lease import lease_records
from selfpretrain.system.store import FolderStore

STEPS = 200


def pretraining(runs):
    workspace = replace(Workspace.of(runs, "cpu", "1", 2.0), quiet=True)
    return jobs([recipes(STEPS)[0]], workspace)[0].recipe, workspace


def lines(workspace, recipe):
    path = workspace.stage(recipe).path / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ranks(workspace, recipe):
    """The processes that train here; the first owns the stage."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"spawn_main" in (path.parent / "cmdline").read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    first = lease_records(FolderStore(folder(workspace, recipe)))[-1].process
    return sorted(found, key=lambda process: process != first)


def working(workspace, recipe, owners=1, line=5):
    end = time.monotonic() + 120
    while (
        len(lines(workspace, recipe)) < line
        or len(lease_records(FolderStore(folder(workspace, recipe)))) < owners
    ):
        assert time.monotonic() < end, "it did not begin"
        time.sleep(0.02)


def folder(workspace, recipe):
    return workspace.stage(recipe).path


def test_what_is_asked_for(tmp_path):
    workspace = Workspace.of(tmp_path, "cpu", "1", 4.0)
    assert (workspace.workers, workspace.together) == (1, 4)
    gpus = replace(workspace, device="cuda")
    with pytest.raises(SpecError, match="4 GPUs per stage: there are only"):
        launch.launch(run_stage, recipes(STEPS)[0], gpus, True)


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one(tmp_path):
    flags = [*COMPARE, "--device", "cpu", "--jobs", "1", "--track", "jsonl"]
    assert run([*flags, "--runs", str(tmp_path / "one")]) == 0
    assert run([*flags, "--runs", str(tmp_path / "two"), "--gpus-per-stage", "2"]) == 0
    one, two = (
        [json.loads(line) for line in (tmp_path / name / "events.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    )
    key = [(each["kind"], each["name"], each.get("step")) for each in one]
    assert sorted(map(str, key)) == sorted(str((e["kind"], e["name"], e.get("step"))) for e in two)
    losses = [
        {(e["name"], e["step"]): e["loss"] for e in told if e["kind"] == "train"} for told in (one, two)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_is_killed_starts_all_again(rank, tmp_path, monkeypatch):
    whole, here = pretraining(tmp_path / "whole")
    run_stage(whole, here, False)
    recipe, workspace = pretraining(tmp_path / "killed")
    killed = []

    def kill():
        working(workspace, recipe)
        there = ranks(workspace, recipe)
        killed.append(len(there))
        os.kill(there[rank], signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    run_stage(recipe, workspace, False)
    assert killed == [2]
    assert len(lease_records(FolderStore(folder(workspace, recipe)))) == 2
    assert lines(workspace, recipe)[-1]["loss"] == pytest.approx(lines(here, whole)[-1]["loss"], abs=1e-5)


@pytest.mark.slow
def test_asked_to_stop_it_leaves_a_checkpoint(tmp_path):
    recipe, workspace = pretraining(tmp_path)
    stop = lambda: len(lines(workspace, recipe)) > 4  # noqa: E731
    with pytest.raises(Interrupted):
        run_stage(recipe, replace(workspace, stop=stop), False)
    assert (folder(workspace, recipe) / "checkpoint.safetensors").exists()
    assert lease_records(FolderStore(folder(workspace, recipe)))[-1].how == "stopped"
    run_stage(recipe, workspace, False)
    assert workspace.stage(recipe).finished


def test_who_is_told_a_lot_still_says_that_they_are_to_stop():
    told, asked = queue.Queue(), threading.Event()
    for name in "abc":
        told.put(Event("train", name))
    assert launch._attend(told, asked, lambda: True) and asked.is_set() and told.qsize() == 2


@pytest.mark.slow
def test_what_fails_is_told_and_not_tried_again(tmp_path):
    recipe, workspace = pretraining(tmp_path)
    odd = replace(recipe, stages=(replace(recipe.stages[0], batch=9),))
    with pytest.raises(StageFailed, match="9"):
        run_stage(odd, workspace, False)
    assert len(lease_records(FolderStore(folder(workspace, odd)))) == 1
