"""``spt runs verify`` names every file that is not what was written; doing what it says brings it back."""

import random
import re
import shutil
from pathlib import Path

import pytest

import toys
from selfpretrain.cli.app import run
from selfpretrain.runner.verify import verify
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies._running import Request, carry_out, comparison
from selfpretrain.system.files import read_json, write_json

REQUEST = Request(comparison(toys.Majority(), ("attention",), "causal", 1, "smoke", {}), "smoke")


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """A folder of runs in which a comparison has finished; to be copied."""
    toys.settle()
    runs = tmp_path_factory.mktemp("verify") / "runs"
    carry_out(REQUEST, Workspace(runs, quiet=True))
    return runs


@pytest.fixture
def runs(done, tmp_path) -> Path:
    shutil.copytree(done, tmp_path / "runs")
    return tmp_path / "runs"


def wrong(runs, levels=("wrong",)):
    return [found.said for _, all_found in verify(runs) for found in all_found if found.level in levels]


def rows(runs):
    toys.settle()
    found = carry_out(REQUEST, Workspace(runs, quiet=True)).to_rows()
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found]


def test_a_whole_folder_is_fine(runs, capsys):
    assert run(["runs", "verify", str(runs)]) == 0
    assert capsys.readouterr().out.endswith("are fine, 0 files are not\n")
    assert not wrong(runs, ("wrong", "note"))


def test_a_bit_in_any_file_is_found_and_what_is_said_brings_it_back(runs):
    """One flipped bit in each kind of file: found, named; doing what is said gives the same numbers again."""
    before, kinds = rows(runs), {}
    for path in sorted(
        path
        for path in runs.rglob("*")
        if path.is_file() and path.stat().st_size
        if not path.name.startswith(".lease-")  # who worked on it says nothing of what came out
    ):
        kinds.setdefault(re.sub(r"[0-9a-f]{10}", "", path.name), path)
    assert len(kinds) > 9, kinds
    for path in kinds.values():
        whole, at = path.read_bytes(), random.Random(path.name)
        content = bytearray(whole)
        content[at.randrange(len(content))] ^= 1 << at.randrange(8)
        path.write_bytes(content)
        said, *more = [line for line in wrong(runs, ("wrong", "note")) if "is gone; where" not in line]
        assert not more, (said, more)
        assert str(path) in said or path.name == "study.json"
        if "it is made again" in said:
            assert rows(runs) == before
            path.write_bytes(whole)
        elif named := re.search(r"delete this one file, (\S+\.\w+)( beside it)?", said):
            (path.parent / named[1]).unlink()
        else:
            assert f"spt report {path.parent}" in said and run(["report", str(path.parent)]) == 0
        assert rows(runs) == before, path
        assert not wrong(runs), path


@pytest.mark.parametrize("name", ["recipe.json", "environment.json", "log.jsonl", "predictions.safetensors"])
def test_what_is_gone_is_named(runs, name):
    stage = sorted(runs.glob("stages/*classify*"))[0]
    (stage / name).unlink()
    assert any(f"{stage / name} is gone" in line for line in wrong(runs))


def test_the_files_of_two_stages_are_told_apart(runs):
    one, other, *_ = sorted(runs.glob("stages/*classify*"))
    for name in ("result.json", "recipe.json", "log.jsonl", "predictions.safetensors", "weights.safetensors"):
        kept = (one / name).read_bytes()
        shutil.copy(other / name, one / name)
        assert any(str(one / name) in line for line in wrong(runs)), name
        (one / name).write_bytes(kept)
    assert not wrong(runs)


def test_a_forged_score_with_a_right_digest_is_found(runs, capsys):
    path = sorted(runs.glob("stages/*classify*"))[0] / "result.json"
    result = read_json(path)
    result["scores"]["test"] |= {"score": 0.99, "accuracy": 0.99}
    write_json(path, result)
    assert run(["runs", "verify", str(runs)]) == 1
    assert "its predictions give" in capsys.readouterr().out


def test_unfinished_and_left_over_is_only_noted(runs):
    stage = sorted(runs.glob("stages/*classify*"))[0]
    (stage / "result.json").unlink()
    (stage / ".weights.safetensors-abcdefgh.tmp").touch()
    assert not wrong(runs)
    assert len(wrong(runs, ("note",))) == 2


def test_where_nothing_is_there_is_nothing_to_verify(tmp_path, capsys):
    assert run(["runs", "verify", str(tmp_path)]) == 1
    assert "give a folder of runs" in capsys.readouterr().err
