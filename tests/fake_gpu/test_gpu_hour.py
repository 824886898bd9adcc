"""The half hour of a GPU, rehearsed on the emulated one from start to end."""

import json
import time
from dataclasses import replace

import pytest
from fake_gpu.emulation import watch

from scripts import script
from selfpretrain.errors import Interrupted

hour = script("gpu_hour")


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """What a profiler and PyTorch's debugger would see of a GPU, the emulated one says itself."""

    def seen(step):
        with watch() as found:
            step()
        return found

    monkeypatch.setattr(hour, "launches", lambda step: seen(step).kernels.total())
    monkeypatch.setattr(hour, "syncs", lambda step: seen(step).waits.total())
    monkeypatch.setattr(hour, "tests", lambda plan: {"said": "none", "failures": []})
    return hour.Plan(tmp_path, "cuda", 30, True, 3.0)


def test_all_parts_end_and_the_page_shows_them(plan, tmp_path):
    assert hour.work(plan, list(hour.PARTS)) == 0
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(line["part"] for line in lines)) == ["about", *hour.PARTS]
    assert all("failed" not in line for line in lines)
    stepped = [line for line in lines if line["part"] in ("steps", "papers") and "plain" not in line["name"]]
    assert stepped and all(line["launches"] > 100 and line["syncs"] == 0 for line in stepped)
    assert {name for name in lines[-1] if "seed 0" in name} == {f"{column}, seed 0" for column in hour.ROW}
    tables = hour.tables(lines)
    assert [row[0] for row in tables["claims"][1:]] == ["s4"]
    assert len(tables["steps"]) > 4 and len(tables["papers"]) > 4


@pytest.mark.slow
def test_a_row_that_is_cut_goes_on(plan):
    cut = replace(plan, row_ends=time.monotonic())
    with pytest.raises(Interrupted, match="resumes from here"):
        hour.trained(cut)
    assert len(hour.trained(replace(plan, row_ends=time.monotonic() + 600))) == len(hour.ROW)
