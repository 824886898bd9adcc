"""Kept results: what is put back is what was there, and a damaged file says so."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfpretrain.errors import StoreError
from selfpretrain.report.results import read_stage
from selfpretrain.report.stage_results import read_predictions
from selfpretrain.runner import archive
from selfpretrain.runner.archive import Archive
from selfpretrain.runner.run_dir import RunDir
from selfpretrain.studies.base import SHIPPED
from selfpretrain.system.files import FORMAT

RECIPE = {"a": 1}


def finished(path, prediction=(0, 1, 2), target=(0, 1, 1), recipe=RECIPE, score=None):
    folder = RunDir.make(path)
    folder.write("recipe.json", {"format": FORMAT} | recipe)
    folder.write("environment.json", {"format": FORMAT, "torch": "2"})
    arrays = {"prediction": torch.tensor(prediction), "target": torch.tensor(target)}
    folder.save("predictions.safetensors", arrays)
    (folder.path / "log.jsonl").write_text('{"kind": "val", "step": 1, "score": 0.5}\n')
    classes = not arrays["target"].is_floating_point()
    kept = read_predictions(folder.path / "predictions.safetensors")
    test = {"score": kept.score() if score is None else score}
    folder.write(
        "result.json",
        {
            "format": FORMAT, "fingerprint": path.name[-10:], "recipe": recipe, "steps": 1, "epochs": 1.0,
            "objective": "classify" if classes else "regress", "best_step": 1, "stopped": "budget",
            "scores": {"test": test}, "cost": {"parameters": 1, "flops": 1.0, "seconds": 1.0},
        },
    )  # fmt: skip
    return folder


def put_back(file, folder, *names, recipe=RECIPE):
    places = {name: RunDir(folder / name) for name in names}
    return Archive(file).restore(places, dict.fromkeys(names, recipe))


def edited(file, change):
    """The same file of kept results, but for one thing that somebody changed in its last line."""
    lines = [json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines()]
    change(lines[-1])
    file.write_bytes(lzma.compress("\n".join(map(json.dumps, lines)).encode()))


def test_put_back_is_what_was_there(tmp_path):
    one, two = (
        finished(tmp_path / "a" / "one"),
        finished(tmp_path / "a" / "two", (0.25, -1.5, 3.0), (0.0, 1.0, 2.0)),
    )
    file = tmp_path / "kept.jsonl.xz"
    assert Archive(file).keep([one, two, RunDir(tmp_path / "unfinished")], {"m.json": [1]}) == 2
    assert put_back(file, tmp_path / "b", "one", "two", "three") == (2, {"m.json": [1]})
    for folder in (one, two):
        again = RunDir(tmp_path / "b" / folder.path.name)
        assert all(again.read(name) == folder.read(name) for name in archive.FILES)
        assert (again.path / "log.jsonl").read_text() == (folder.path / "log.jsonl").read_text()
        before, after = folder.load("predictions.safetensors")[0], again.load("predictions.safetensors")[0]
        assert all(torch.equal(before[k], after[k]) and before[k].dtype == after[k].dtype for k in before)
        assert read_stage(again.path).source == str(file)
    assert put_back(file, tmp_path / "b", "one", "two")[0] == 0  # all there


def test_only_what_is_wanted_is_put_back(tmp_path):
    Archive(tmp_path / "kept").keep([finished(tmp_path / "a" / "one")], {})
    assert put_back(tmp_path / "kept", tmp_path / "b", "another")[0] == 0
    assert put_back(tmp_path / "nothing", tmp_path / "b") == (0, {})
    assert not (tmp_path / "b").exists()


def test_fewer_seeds_keep_what_others_kept(tmp_path):
    file = tmp_path / "kept"
    one, two = (finished(tmp_path / "a" / name) for name in ("one", "two"))
    Archive(file).keep([one, two], {"both.json": [1]})
    assert Archive(file).keep([one], {"single.json": [2]}) == 1
    assert put_back(file, tmp_path / "b", "two") == (1, {"both.json": [1], "single.json": [2]})
    Archive(file).keep([finished(tmp_path / "c" / "one", recipe={"a": 2})], {})
    assert put_back(file, tmp_path / "d", "one", recipe={"a": 2}) == (1, {})  # ours, not the old one
    assert put_back(file, tmp_path / "d", "two")[0] == 1


def test_what_is_kept_in_two_parts_is_what_is_kept_at_once(tmp_path):
    """As when a study is stopped, which measures nothing, and goes on."""
    one, two = (finished(tmp_path / "a" / name) for name in ("one", "two"))
    parts, whole = Archive(tmp_path / "parts"), Archive(tmp_path / "whole")
    parts.keep([one], {})
    for file in (parts, whole):
        file.keep([one, two], {"m.json": [1]})
    assert parts.file.read_bytes() == whole.file.read_bytes()


def test_measurements_go_with_the_results_that_they_are_of(tmp_path):
    """As when a study is trained afresh, and stopped before it is measured."""
    file, stage = Archive(tmp_path / "kept"), finished(tmp_path / "a" / "one")
    file.keep([stage], {"m.json": [1]})
    for result, left in ((stage.read("result.json"), {"m.json": [1]}), ({"scores": {}}, {})):
        stage.write("result.json", result)
        file.keep([stage], {})
        assert file._lines()[0] == left


def test_whose_results_they_are_is_never_forgotten(tmp_path):
    Archive(tmp_path / "theirs").keep([finished(tmp_path / "a" / "one")], {})
    put_back(tmp_path / "theirs", tmp_path / "b", "one")
    Archive(tmp_path / "ours").keep([RunDir(tmp_path / "b" / "one")], {})
    put_back(tmp_path / "ours", tmp_path / "c", "one")
    assert read_stage(tmp_path / "c" / "one").source == str(tmp_path / "theirs")


def test_our_own_results_are_ours_by_whatever_path_they_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "SHIPPED", tmp_path / "ours")
    monkeypatch.chdir(tmp_path)
    for name, source in {"ours/kept": "", "ours/../theirs": "ours/../theirs"}.items():
        Archive(Path(name)).keep([finished(tmp_path / "a" / "one")], {})
        put_back(Path(name), tmp_path / name.replace("/", "-"), "one")
        assert read_stage(tmp_path / name.replace("/", "-") / "one").source == source


def test_no_result_that_ships_is_said_to_be_of_somewhere_else():
    for file in sorted(SHIPPED.glob("*.jsonl.xz")):
        for line in lzma.decompress(file.read_bytes()).splitlines():
            assert b'"from":' not in line or "from" not in json.loads(line), file.name


FORGED = {
    "score": lambda line: line["files"]["result.json"]["scores"]["test"].update(score=0.99),
    "recipe": lambda line: line["files"]["result.json"].update(recipe={"a": 3}),
    "stage": lambda line: line["files"]["result.json"].update(fingerprint="0123456789"),
    "no result": lambda line: line["files"].update({"result.json": {}}),
    "no object": lambda line: line["files"].update({"environment.json": [1]}),
    "log": lambda line: line.update(log=3),
    "kind": lambda line: line["predictions"]["target"].__setitem__(0, "S1000000000"),
    "stored": lambda line: line["predictions"]["target"].__setitem__(1, "O"),
    "shape": lambda line: line["predictions"].update(target=[*line["predictions"]["target"][:2], "AAE="]),
    "array": lambda line: line["predictions"].update(another=line["predictions"]["target"]),
    "cost": lambda line: line["files"]["result.json"].update(cost=3),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_what_is_not_borne_out_is_not_put_back(tmp_path, forge):
    file = tmp_path / "kept"
    Archive(file).keep([finished(tmp_path / "a" / name) for name in ("one", "two")], {})
    edited(file, forge)
    with pytest.raises(StoreError, match=r"kept is damaged \(two: .*move it away") as caught:
        put_back(file, tmp_path / "b", "one", "two")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "b").exists()


SMALL = 1 << 22
BOMB = lzma.compress(b" " * (SMALL + 1), preset=0)


@pytest.mark.parametrize(
    "content",
    [b"", b"not xz", b"{not json\n{", b'{}\n{"stages": "one"}', b"[1]", b"{}\n3", b"[" * 100_000, BOMB],
    ids=["empty", "not xz", "not json", "no stage", "list", "number", "deep", "bomb"],
)
def test_damage_is_named_and_never_written_over(content, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", SMALL)
    packed = content if content in (b"", b"not xz", BOMB) else lzma.compress(content)
    (tmp_path / "kept").write_bytes(packed)
    for act in (
        lambda: put_back(tmp_path / "kept", tmp_path / "b", "one"),
        lambda: Archive(tmp_path / "kept").keep([], {}),
    ):
        with pytest.raises(StoreError, match="damaged") as caught:
            act()
        assert "delete" not in str(caught.value)
    assert (tmp_path / "kept").read_bytes() == packed


def test_keeping_what_ships_again_changes_nothing(tmp_path):
    shipped = SHIPPED / "identical-start.small.jsonl.xz"
    measures, lines = Archive(shipped)._lines()
    assert archive._compress(measures, [*lines.values()]) == shipped.read_bytes()


@given(st.lists(st.integers(-5, 300), max_size=20))
def test_whole_numbers_survive(values):
    array = np.array(values, dtype=np.int64)
    packed = json.loads(json.dumps(archive._encode_array(array)))
    assert np.array_equal(archive._decode_array(packed), array)
