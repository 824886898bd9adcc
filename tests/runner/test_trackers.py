"""Trackers hold what the log holds, read back from what they wrote; and training does not need them."""

import json
import struct

import pytest

from engines import study
from selfpretrain.cli.options import RunFlags
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.trackers import jsonl
from selfpretrain.runner.trackers.base import tracking
from selfpretrain.runner.workspace import Workspace
from selfpretrain.system.events import Event, emit, listen


@pytest.fixture(scope="module")
def recipe():
    return next(study().cells()).recipe


def trained(recipe, runs, *trackers):
    workspace = Workspace(runs, trackers=trackers, quiet=True)
    run_recipes([recipe], workspace)
    return workspace.stage(recipe)


def logged(folder):
    lines = [json.loads(line) for line in (folder.path / "log.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"]) for line in lines if line["kind"] == "train"]


def in_tensorboard(runs, stage, name):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(runs / "tensorboard" / stage))
    found.Reload()
    return [(each.step, each.value) for each in found.Scalars(name)]


def records(path):
    """The records of a file of wandb: a header, then the log format of LevelDB in blocks of 32 KB."""
    content, at, found = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if (room := 32768 - at % 32768) < 7:
            at += room
            continue
        size, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        found += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield found
            found = b""


def in_wandb(runs, stage, name):
    """From the last offline file of the run whose id is the fingerprint."""
    from wandb.proto.wandb_internal_pb2 import Record

    steps, ends = [], []
    for content in records(sorted(runs.glob(f"wandb/offline-run-*/run-{stage[-10:]}.wandb"))[-1]):
        record = Record()
        record.ParseFromString(content)
        line = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
        told = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.summary.update}
        steps += [(line["step"], line[name])] if name in line else []
        ends += [(0, told[name])] if name in told else []
    return steps or ends


def in_trackio(runs, stage, name):
    from trackio.sqlite_storage import SQLiteStorage

    assert SQLiteStorage.get_runs(runs.name).count(stage) == 1
    lines = SQLiteStorage.get_logs(runs.name, stage)
    return [(line["step"], line[name]) for line in lines if name in line]


READ = {"tensorboard": in_tensorboard, "wandb": in_wandb, "trackio": in_trackio}


@pytest.mark.parametrize("name", READ)
def test_a_tracker_has_the_log_and_the_scores(name, recipe, tmp_path, monkeypatch):
    pytest.importorskip(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    folder = trained(recipe, tmp_path / "live", name)
    runs, accuracy = folder.path.parents[1], folder.read("result.json")["scores"]["test"]["accuracy"]
    kept, lines = READ[name](runs, folder.name, "train/loss"), logged(folder)
    assert [step for step, _ in kept] == [step for step, _ in lines]
    assert [value for _, value in kept] == pytest.approx([value for _, value in lines], rel=1e-6)
    assert READ[name](runs, folder.name, "final/test/accuracy")[-1][1] == pytest.approx(accuracy)


def test_trackers_are_named_once_with_commas_or_one_by_one(tmp_path):
    named = RunFlags(runs=tmp_path, track=["jsonl, tensorboard", "jsonl"]).workspace().trackers
    assert named == ("jsonl", "tensorboard")


def test_a_failing_tracker_warns_once_and_stops_nothing(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl.JsonLines, "log_event", lambda self, event: 1 / 0)
    with pytest.warns(UserWarning, match="JsonLines failed and stops logging") as warned:
        folder = trained(recipe, tmp_path, "jsonl")
    assert len([w for w in warned if "stops logging" in str(w.message)]) == 1
    assert folder.finished


def test_a_tracker_that_fails_twice_warns_once(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl.JsonLines, "log_event", lambda self, event: 1 / 0)
    monkeypatch.setattr(jsonl.JsonLines, "close", lambda self: 1 / 0)
    with pytest.warns(UserWarning, match="JsonLines failed and stops logging") as warned:
        trained(recipe, tmp_path, "jsonl")
    assert len([w for w in warned if "stops logging" in str(w.message)]) == 1


def test_final_scores_are_at_the_last_step_of_a_stage_that_is_only_tested(recipe, tmp_path):
    last = []
    workspace = Workspace(tmp_path, quiet=True)
    for tested in (False, True):
        with listen(lambda event: last.append(event) if event.kind == "end" else None):
            run_recipes([recipe], workspace, tested=tested)
    assert [event.numbers["step"] for event in last] == [last[0].numbers["step"]] * 2 and last[0].numbers[
        "step"
    ] > 0


def test_a_tracker_is_open_as_long_as_the_outermost_block(tmp_path, monkeypatch):
    """Of a comparison with tuning and several analyses: what one writes in the end is all of it."""
    ends = []

    def close(tracker):
        ends.append(tracker)

    monkeypatch.setattr(jsonl.JsonLines, "close", close)
    workspace = Workspace(tmp_path, trackers=("jsonl",))
    with tracking(workspace):
        for name in "ab":
            with tracking(workspace):
                emit(Event("interim", name))
            assert not ends
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a", "b"] and len(ends) == 1
    with tracking(workspace):
        emit(Event("interim", "c"))
    assert len(ends) == 2
