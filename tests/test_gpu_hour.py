"""The measurements on a GPU, rehearsed on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import script
from selfpretrain.registry import names

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "tools" / "gpu_hour.py"
pytestmark = pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="needs the repository")


def hour(folder, *more):
    command = [sys.executable, "-W", "ignore", str(TOOL), str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_the_rehearsal_goes_through_and_is_not_repeated(tmp_path):
    done = hour(tmp_path, "--toy")
    assert done.returncode == 0, done.stdout + done.stderr
    found = lines(tmp_path)
    assert [line["name"] for line in found if "failed" in line] == []
    assert [part for part in dict.fromkeys(line["part"] for line in found)] == [
        "about", "check", "papers", "steps", "row",
    ]  # fmt: skip
    assert {"environment", "command"} <= set(found[0])
    errors = [line["torch.float64"] for line in found if line["name"].startswith("golden")]
    assert max(errors) < 1e-4
    assert all(line["epoch"] > 0 for line in found if line["part"] == "papers")
    hour(tmp_path, "--toy")
    again = lines(tmp_path)
    assert [line["part"] for line in again[len(found) :]] == ["about"]


@pytest.mark.slow
def test_without_minutes_all_is_named_as_left_out(tmp_path):
    for limit in ("--minutes", "--call"):
        folder = tmp_path / limit
        assert hour(folder, "--toy", limit, "0", "--parts", "steps,papers").returncode == 0
        found = lines(folder)[1:]
        assert [(line["part"], line["name"], line["failed"]) for line in found] == [
            ("steps", "left out", "no time"), ("papers", "left out", "no time"),
        ]  # fmt: skip
        assert "s4, 32, bf16" in found[0]["names"]


def test_minutes_are_those_of_all_calls(tmp_path):
    tool = script("gpu_hour")
    calls = []
    tool.PARTS["steps"] = lambda plan: ((f"{i}", lambda: calls.append(1) or {}) for i in range(2))
    plan = tool.Plan(tmp_path, "cpu", 30, True, 3.0)
    kept = [
        {"part": "steps", "name": "earlier", "took": 60 * 30 * tool.SHARES["steps"] + 1},
        {"part": "papers", "name": "failed", "took": 1, "failed": "again"},
    ]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    tool.work(plan, ["steps"])
    assert calls == [] and lines(tmp_path)[-1]["names"] == ["0", "1"]
    tool.SHARES["steps"] = 1.0
    tool.work(plan, ["steps"])
    assert calls == [1, 1]


def test_missing_packages_are_named_with_the_command_that_installs_them(tmp_path):
    (tmp_path / "torch").mkdir()  # whose import would take longest
    (tmp_path / "torch" / "__init__.py").write_text("Tensor = nn = None")
    (tmp_path / "torch" / "profiler.py").write_text("ProfilerActivity = profile = None")
    (tmp_path / "selfpretrain.py").write_text("raise ModuleNotFoundError(name='pydantic')")
    code = f"import sys, runpy; sys.argv[1:] = ['here', '--toy']; runpy.run_path({str(TOOL)!r})"
    command = [sys.executable, "-c", code]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    wanted = (
        f"error: no module pydantic here; first {sys.executable} -m pip install -e . beartype pytest, "
        "or without a network carry it, see --help"
    )
    assert done.stderr.splitlines() == [wanted]


def test_the_usual_architectures_come_first_at_all_lengths(tmp_path):
    hour = script("gpu_hour")
    steps = [name for name, _ in hour.steps(hour.Plan(tmp_path, "cuda", 40, False, 3.0))]
    first = list(dict.fromkeys(steps))[: 3 * 2 + 2 * 3 * len(hour.FIRST)]
    for mixer in hour.FIRST:
        assert {f"{mixer}, {n}, {way}" for n in (1024, 4096, 16_384) for way in ("bf16", "fp32")} <= set(
            first
        )
    every = {f"{m}, {n}, {w}" for m in names("mixers") for n in (1024, 4096, 16_384) for w in hour.WAYS}
    assert every <= set(steps)


def test_needs_a_gpu_or_says_so(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_hour.py", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^error: there is no GPU here; --toy rehearses on the CPU$"):
        script("gpu_hour").main()
