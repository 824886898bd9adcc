"""The forty minutes of a lent GPU, rehearsed on the CPU, so that none of them goes to a typo."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import script

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="needs the repository")


def hour(folder, *more):
    command = [sys.executable, "-W", "ignore", str(ROOT / "tools" / "gpu_hour.py"), str(folder), *more]
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
        "about", "check", "steps", "papers", "cells",
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
    assert hour(tmp_path, "--toy", "--minutes", "0", "--parts", "steps,papers").returncode == 0
    assert {line.get("failed", "") for line in lines(tmp_path)[1:]} == {"left out: no time"}


def test_needs_a_gpu_or_says_so(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_hour.py", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^error: there is no GPU here; --toy rehearses on the CPU$"):
        script("gpu_hour").main()
