"""Run folders: whole or not at all, never unpickled, and clear about what is wrong."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from selfpretrain.errors import ForeignRun, StoreError
from selfpretrain.system.files import explained, read_json, write_text
from selfpretrain.system.hardware import environment
from selfpretrain.training.stage_folder import Folder, Log


def test_tensors_and_json_come_back(tmp_path):
    folder = Folder.make(tmp_path / "a" / "b")
    tensors = {"x": torch.randn(3, 2), "n": torch.tensor(5), "b": torch.zeros(4, dtype=torch.uint8)}
    folder.save("t.safetensors", tensors, {"step": 3})
    back, meta = folder.load("t.safetensors")
    assert meta == {"step": 3}
    assert all(torch.equal(back[key], tensors[key]) for key in tensors)
    folder.write("r.json", {"format": 1, "x": 2})
    assert folder.read("r.json")["x"] == 2


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


@pytest.mark.parametrize("name", ["weights.safetensors", "result.json"])
def test_a_truncated_file_is_named_with_what_to_do(tmp_path, name):
    folder = Folder.make(tmp_path)
    folder.save("weights.safetensors", {"x": torch.randn(100)})
    folder.write("result.json", {"format": 1, "scores": {}})
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match=r"damaged.*delete"):
        folder.read(name) if name.endswith("json") else folder.load(name)


def test_another_format_is_foreign(tmp_path):
    (tmp_path / "result.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ForeignRun, match="format 99"):
        Folder(tmp_path).read("result.json")


def test_a_missing_file_is_said_to_be(tmp_path):
    with pytest.raises(StoreError, match="is not there"):
        read_json(tmp_path / "no.json")


def test_a_file_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="in the way"):
        Folder.make(tmp_path / "runs" / "stages")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EIO])
def test_every_refusal_of_the_system_is_explained(code):
    with (
        pytest.raises(StoreError, match=r"cannot write x: .*; nothing finished is lost"),
        explained(Path("x")),
    ):
        raise OSError(code, os.strerror(code))


def test_a_log_can_be_cut_back(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    log.write({"step": 1})
    size = log.size
    log.write({"step": 2})
    log.close()
    log = Log(tmp_path / "log.jsonl", size)
    log.write({"step": 3})
    log.close()
    assert [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 3]


def test_environment_says_with_what():
    found = environment("cpu")
    assert found["torch"] == torch.__version__
    assert found["threads"] >= 1
    json.dumps(found)


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_is_noticed(tmp_path, seed):
    """In tensors, names, shapes, numbers: whatever is read again is what was written, or is refused."""
    folder, random = Folder.make(tmp_path), np.random.default_rng(seed)
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3), "c": torch.tensor([True, False])}
    folder.save("x.safetensors", tensors, {"step": 3})
    folder.write("x.json", {"score": 0.25, "steps": [1, 2, 3], "name": "a b"})
    before = folder.load("x.safetensors"), folder.read("x.json")
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
    folder = Folder.make(tmp_path)
    digest = folder.save("w.safetensors", {"a": torch.zeros(2)})
    folder.save("w.safetensors", {"a": torch.ones(2)})
    with pytest.raises(StoreError, match="another training"):
        folder.load("w.safetensors", digest)


def test_a_recipe_may_be_edited(tmp_path):
    Folder.make(tmp_path).write("recipe.json", {"seed": 1})
    path = tmp_path / "recipe.json"
    path.write_text(path.read_text().replace(": 1", ": 2"))
    assert read_json(path, edited=True) == {"seed": 2}
    with pytest.raises(StoreError, match="not what was written"):
        read_json(path)
