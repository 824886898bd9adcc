"""Kept results: what is put back is what was there, and a damaged file says so."""

import json
import lzma

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selfpretrain.errors import StoreError
from selfpretrain.runner import archive
from selfpretrain.runner.archive import Archive
from selfpretrain.system.files import FORMAT
from selfpretrain.training.stage_folder import Folder


def finished(path, prediction=(0, 1, 2), target=(0, 1, 1)):
    folder = Folder.make(path)
    folder.write("recipe.json", {"format": FORMAT, "a": 1})
    folder.write("environment.json", {"format": FORMAT, "torch": "2"})
    arrays = {"prediction": torch.tensor(prediction), "target": torch.tensor(target)}
    folder.save("predictions.safetensors", arrays)
    (folder.path / "log.jsonl").write_text('{"kind": "val", "step": 1, "score": 0.5}\n')
    folder.write("result.json", {"format": FORMAT, "scores": {"test": {"score": 2 / 3}}})
    return folder


def test_put_back_is_what_was_there(tmp_path):
    one, two = (
        finished(tmp_path / "a" / "one"),
        finished(tmp_path / "a" / "two", (0.25, -1.5, 3.0), (0.0, 1.0, 2.0)),
    )
    file = Archive(tmp_path / "kept.jsonl.xz")
    assert file.keep([one, two, Folder(tmp_path / "unfinished")], {"measures": [1]}) == 2
    places = {name: Folder(tmp_path / "b" / name) for name in ("one", "two", "three")}
    assert file.restore(places) == (2, {"measures": [1]})
    for folder in (one, two):
        again = Folder(tmp_path / "b" / folder.path.name)
        assert all(again.read(name) == folder.read(name) for name in archive.FILES)
        assert (again.path / "log.jsonl").read_text() == (folder.path / "log.jsonl").read_text()
        before, after = folder.load("predictions.safetensors")[0], again.load("predictions.safetensors")[0]
        assert all(torch.equal(before[k], after[k]) and before[k].dtype == after[k].dtype for k in before)
    assert file.restore(places)[0] == 0  # all there


def test_only_what_is_wanted_is_put_back(tmp_path):
    Archive(tmp_path / "kept").keep([finished(tmp_path / "a" / "one")], {})
    assert Archive(tmp_path / "kept").restore({"another": Folder(tmp_path / "b" / "another")}) == (0, {})
    assert not (tmp_path / "b").exists()


def test_no_file_is_nothing(tmp_path):
    assert Archive(tmp_path / "nothing").restore({}) == (0, {})


@pytest.mark.parametrize(
    "content", [b"", b"not xz", lzma.compress(b"{not json\n{"), lzma.compress(b'{}\n{"stage": "one"}')]
)
def test_damage_is_named(content, tmp_path):
    (tmp_path / "kept").write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        Archive(tmp_path / "kept").restore({"one": Folder(tmp_path / "one")})


def test_the_same_results_are_the_same_file(tmp_path):
    folder = finished(tmp_path / "a" / "one")
    for name in ("x", "y"):
        Archive(tmp_path / name).keep([folder], {})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-5, 300), max_size=20))
def test_whole_numbers_survive(values):
    array = np.array(values, dtype=np.int64)
    packed = json.loads(json.dumps(archive._packed(array)))
    assert np.array_equal(archive._unpacked(packed), array)
