"""Stages for engines that hand them to other processes, and what they must give."""

import csv
import json
import socket
import time
from dataclasses import replace

from selfpretrain.cli import app
from selfpretrain.registry import resolve
from selfpretrain.runner import run
from selfpretrain.runner.plan import Plan
from selfpretrain.runner.run import StageQueue
from selfpretrain.studies.compare import build_comparison

COMPARE = ["compare", "--task", "digits", "--mixers", "attention", "--objective", "masked", "--seeds", "1",
           "--scale", "smoke", "-q"]  # fmt: skip
"""A comparison of four stages, each of a moment."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def study():
    """The same comparison."""
    task, mixer = resolve("tasks", "digits"), resolve("mixers", "attention")
    return build_comparison((task,), (mixer,), "masked", "smoke", 1)


def recipes(steps, task=None):
    found = [cell.recipe for cell in study().with_settings({"pretrain.budget.steps": steps}).cells()]
    return [replace(recipe, task=task) for recipe in found[-1:]] if task else found[-1:]


def numbers(workspace, steps):
    found = {}
    for recipe in recipes(steps):
        result = workspace.stage(recipe).read("result.json")
        found[workspace.stage(recipe).name] = [result[key] for key in ("scores", "weights", "steps", "data")]
    return found


def table(runs):
    """The rows of the only results below a folder, but for the seconds."""
    (path,) = runs.glob("*/results.csv")
    return [row | {"seconds": ""} for row in csv.DictReader(path.read_text().splitlines())]


def check_study(folder, *engine):
    """Run a study over an engine: its results are those of one process; the folder of its runs."""
    flags = ["study", "amos-table-8", "--scale", "smoke", "--seeds", "1", "--fresh", "-q", "--device", "cpu"]
    here, there = folder / "here", folder / "there"
    assert app.run([*flags, "--runs", str(here), "--jobs", "1"]) == 0
    assert app.run([*flags, "--runs", str(there), *engine, "--track", "jsonl"]) == 0
    assert len(table(here)) > 5 and table(here) == table(there)
    lines = [json.loads(line) for line in (there / "events.jsonl").read_text().splitlines()]
    ended = [line["name"] for line in lines if line["kind"] == "end"]
    assert sorted(ended) == sorted(path.name for path in there.glob("stages/*"))
    return there


def at_work(stage, but=(), seconds=200.0):
    """The process that works on a stage, once it has trained for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for attempt in stage.attempts:
            process, log = int(attempt.path.name.rpartition("-")[2]), attempt.path / "log.jsonl"
            if process not in but and log.exists() and log.stat().st_size > 500:
                time.sleep(0.5)
                return process
        time.sleep(0.02)
    raise AssertionError(f"nobody works on {stage.name}")


def trained(monkeypatch):
    """Counts the stages that are really trained from now on."""
    names = []

    class Counted(StageQueue):
        def run(self):
            names.extend(stage.id for stage in self.waiting)
            super().run()

    monkeypatch.setattr(run, "StageQueue", Counted)
    return names


def run_experiment(experiment, workspace, only=None):
    """Run an experiment as a command does, and return its folder."""
    folder = run.begin(Plan.of(experiment), workspace)
    run.StageQueue.of(folder.plan.stages_of(folder.experiment.select_cells(only)), workspace).run()
    run.finish(folder)
    return folder
