"""Directories of runs: whole or not at all, never unpickled, and clear about what is wrong."""

import contextlib
import errno
import os
import socket
import threading
import time

import numpy as np
import pytest
import torch

import torture
from selfpretrain.errors import ForeignRun, StoreError, Taken
from selfpretrain.runner import run_dir
from selfpretrain.runner.run_dir import Log, RunDir
from selfpretrain.system.files import read_json, write_text


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="disk is full"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_is_noticed(tmp_path, seed):
    """In tensors, names, shapes, numbers: whatever is read again is what was written, or is refused."""
    folder, random = RunDir.make(tmp_path), np.random.default_rng(seed)
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3), "c": torch.tensor([True, False])}
    folder.save("x.safetensors", tensors, {"step": 3})
    folder.write("x.json", {"score": 0.25, "steps": [1, 2, 3], "name": "a b"})
    before = folder.load("x.safetensors"), folder.read("x.json")
    assert before[0][1] == {"step": 3} and before[1]["steps"] == [1, 2, 3]
    assert all(torch.equal(before[0][0][name], tensor) for name, tensor in tensors.items())
    for name in ("x.safetensors", "x.json"):
        content = bytearray((tmp_path / name).read_bytes())
        at = int(random.integers(8 * len(content)))
        content[at // 8] ^= 1 << at % 8
        (tmp_path / name).write_bytes(content)
    for name, read, old in (("x.safetensors", folder.load, before[0]), ("x.json", folder.read, before[1])):
        try:
            new = read(name)
        except (StoreError, ForeignRun):
            continue
        if name == "x.json":  # in the name of the digest: all that was written is there, unverified
            new = {key: value for key, value in new.items() if key in old}
        assert str(new) == str(old), name


def test_weights_of_another_training_are_refused(tmp_path):
    folder = RunDir.make(tmp_path)
    digest = folder.save("w.safetensors", {"a": torch.zeros(2)})
    folder.save("w.safetensors", {"a": torch.ones(2)})
    with pytest.raises(StoreError, match="another training"):
        folder.load("w.safetensors", digest)


def test_a_recipe_may_be_edited(tmp_path):
    RunDir.make(tmp_path).write("recipe.json", {"seed": 1})
    path = tmp_path / "recipe.json"
    path.write_text(path.read_text().replace(": 1", ": 2"))
    assert read_json(path, editable=True) == {"seed": 2}
    with pytest.raises(StoreError, match="not what was written"):
        read_json(path)
    with pytest.raises(StoreError, match="is not there"):
        read_json(tmp_path / "no.json")


# ---- attempts: claimed and published by renaming


def never():
    return False


def finish(attempt, content):
    (attempt.path / "weights.safetensors").write_text(content)
    attempt.write("result.json", {"of": content})


def on(host, monkeypatch):
    """From now on this process is on another machine, whose locks nobody else sees."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    monkeypatch.setattr(run_dir, "hold_lock", lambda path, stop: contextlib.nullcontext(path.touch()))
    monkeypatch.setattr(run_dir, "is_locked", lambda path: False)


def aged(directory, seconds):
    for path in (*directory.path.iterdir(), directory.path):
        os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture
def stage(tmp_path):
    return RunDir(tmp_path / "stages" / "digits-lstm-classify-0123456789")


def test_a_finished_attempt_takes_the_place_of_its_stage(stage):
    with stage.attempt(lambda: stage.finished) as attempt:
        assert attempt.name == stage.name and attempt.is_attempt and not stage.path.exists()
        finish(attempt, "ours")
        assert not stage.finished
        attempt.publish()
    assert stage.finished and stage.attempts == [] and not stage.is_running
    with stage.attempt(lambda: stage.finished) as attempt:
        assert attempt is None


def test_the_second_of_two_attempts_discards_its_own(stage, monkeypatch):
    with stage.attempt(never) as first:
        finish(first, "first")
        with monkeypatch.context() as there:
            on("elsewhere", there)
            second = RunDir.make(stage.path.with_name(f"{stage.name}.part-elsewhere-1"))
            finish(second, "second")
            (second.path / "only-there.json").write_text("{}")
            second.publish()
        assert first.path.exists()  # it has given a sign of life
        first.publish()
        assert not first.path.exists()
    assert stage.read("result.json") == {"of": "second"}
    assert (stage.path / "weights.safetensors").read_text() == "second"
    assert (stage.path / "only-there.json").exists()
    assert stage.attempts == []


def test_a_killed_attempt_is_taken_over_with_its_checkpoint(stage):
    left = RunDir.make(stage.path.with_name(f"{stage.name}.part-{socket.gethostname()}-1"))
    left.save("checkpoint.safetensors", {"x": torch.ones(2)}, {"step": 3})
    left.write("environment.json", {})
    (left.path / ".checkpoint.safetensors-ab12_xyz.tmp").touch()
    (left.path / "error.txt").write_text("no memory")
    with stage.attempt(never) as attempt:
        assert not left.path.exists()
        assert attempt.load("checkpoint.safetensors")[1] == {"step": 3}
        assert sorted(path.name for path in attempt.path.iterdir()) == [
            "checkpoint.safetensors", "environment.json",
        ]  # fmt: skip


def test_the_newest_attempt_is_taken_over_and_the_others_go_when_it_is_published(stage):
    for pid, age in ((1, 100), (2, 10), (3, 50)):
        left = RunDir.make(stage.path.with_name(f"{stage.name}.part-{socket.gethostname()}-{pid}"))
        left.save("checkpoint.safetensors", {}, {"step": pid})
        aged(left, age)
    with stage.attempt(never) as attempt:
        assert attempt.load("checkpoint.safetensors")[1] == {"step": 2}
        finish(attempt, "ours")
        attempt.publish()
    assert [path.name for path in stage.path.parent.iterdir()] == [stage.name]


def test_a_stage_whose_result_was_deleted_runs_again_in_its_directory(stage):
    RunDir.make(stage.path).write("environment.json", {})
    with stage.attempt(lambda: stage.finished) as attempt:
        assert not stage.path.exists()
        assert list(attempt.path.iterdir()) == []
        RunDir.make(stage.path)  # and once more, while it runs
        (stage.path / "old.json").touch()
        finish(attempt, "ours")
        attempt.publish()
    assert sorted(path.name for path in stage.path.iterdir()) == ["result.json", "weights.safetensors"]
    assert stage.attempts == []


def test_on_one_machine_others_wait(stage):
    with stage.attempt(never):
        assert stage.is_running
        with pytest.raises(Taken), stage.attempt(never, stop=lambda: True):
            pass
    assert not stage.is_running


def test_another_machine_waits_until_there_is_no_sign_of_life(stage, monkeypatch):
    with stage.attempt(never) as first:
        first.save("checkpoint.safetensors", {}, {"step": 7})
        with monkeypatch.context() as there:
            on("elsewhere", there)
            assert stage.is_running
            with pytest.raises(Taken, match="at work on another machine"), stage.attempt(
                never, stop=lambda: True
            ):  # fmt: skip
                pass
            aged(first, run_dir.DEAD * run_dir.CHECKPOINT_SECONDS + 1)
            assert not stage.is_running
            with stage.attempt(never, stop=lambda: True) as second:
                assert second.load("checkpoint.safetensors")[1] == {"step": 7}


def test_a_machine_whose_name_goes_on_with_a_hyphen_is_another_one(stage, monkeypatch):
    on("node-2", monkeypatch)
    with stage.attempt(never):
        on("node", monkeypatch)
        assert stage.is_running
        with pytest.raises(Taken, match="on another machine"), stage.attempt(never, stop=lambda: True):
            pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="of Linux")
def test_a_log_on_a_full_disk_is_explained_when_it_is_closed_too(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, log._file.fileno())
    os.close(full)
    for act in (lambda: log.write({"step": 1}), log.close):
        with pytest.raises(StoreError, match="the disk is full"):
            act()


def test_an_attempt_at_work_gives_signs_of_life(stage, monkeypatch):
    monkeypatch.setattr(run_dir, "CHECKPOINT_SECONDS", 0.02)
    with stage.attempt(never) as attempt:
        aged(attempt, 1000)
        end = time.monotonic() + 10
        while time.time() - attempt.path.stat().st_mtime > 500:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_sign_of_life_that_fails_is_followed_by_others(stage, monkeypatch):
    touch, failed = os.utime, []

    def utime(path, *given):
        if threading.current_thread() is not threading.main_thread() and len(failed) < 3:
            failed.append(path)
            raise OSError(errno.ESTALE, "Stale file handle")
        touch(path, *given)

    monkeypatch.setattr(run_dir, "CHECKPOINT_SECONDS", 0.02)
    monkeypatch.setattr(os, "utime", utime)
    with stage.attempt(never) as attempt:
        end = time.monotonic() + 10
        while len(failed) < 3:
            assert time.monotonic() < end
            time.sleep(0.01)
        aged(attempt, 1000)
        while time.time() - attempt.path.stat().st_mtime > 500:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_who_slept_too_long_writes_to_nothing_that_counts(stage, monkeypatch):
    with stage.attempt(never) as first:
        log = Log(first.path / "log.jsonl")
        log.write({"step": 1})
        first.save("checkpoint.safetensors", {}, {"log": log.sync()})
        aged(first, 1000)
        with monkeypatch.context() as there:
            on("elsewhere", there)
            with stage.attempt(never, stop=lambda: True) as second:
                log.write({"step": 99})
                for write in (
                    lambda: first.save("checkpoint.safetensors", {}, {"step": 99}),
                    lambda: first.write("result.json", {"of": "first"}),
                    first.publish,
                ):
                    with pytest.raises(StoreError):
                        write()
                assert (second.path / "log.jsonl").read_text() == '{"step": 1}\n'
                assert sorted(path.name for path in second.path.iterdir()) == [
                    "checkpoint.safetensors", "log.jsonl",
                ]  # fmt: skip
        log.close()


def test_of_many_machines_one_takes_over_what_a_dead_one_left(stage, tmp_path, monkeypatch):
    for turn in range(3):
        left = RunDir.make(stage.path.with_name(f"{stage.name}.part-dead-{turn}"))
        left.save("checkpoint.safetensors", {}, {"turn": turn})
        aged(left, 1000)
        gate = tmp_path / f"gate-{turn}"

        def claim(host, gate=gate):
            on(host, monkeypatch)
            while not gate.exists():
                time.sleep(0.001)
            try:
                with stage.attempt(never, stop=lambda: True) as attempt:
                    time.sleep(0.3)
                    return [attempt.load("checkpoint.safetensors")[1]["turn"]]
            except Taken:
                return []

        pids = [torture.forked(lambda host=f"host-{i}": claim(host), tmp_path) for i in range(6)]
        gate.touch()
        answers = [torture.ended(pid, tmp_path) for pid in pids]
        assert not any(each.traceback for each in answers), answers
        assert [each.answer for each in answers if each.answer] == [[turn]]
        for attempt in stage.attempts:
            attempt.remove()


@pytest.mark.parametrize("name", ["digests-bert[v2]-masked-0123", "a*b", "what?"])
def test_an_attempt_is_found_whatever_the_stage_is_called(tmp_path, name):
    """As after the folder of a network of transformers; other names are no attempts at it."""
    stages = tmp_path / "stages"
    for other in (f"{name}.part-here-1", "digests-bert2-masked-0123.part-here-1", "a-b.part-here-1"):
        RunDir.make(stages / other)
    assert [each.path.name for each in RunDir(stages / name).attempts] == [f"{name}.part-here-1"]
