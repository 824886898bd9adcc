"""What workers know of each other's stages: one listing for all, and the longest chains first."""

import os
import time
from types import SimpleNamespace

import pytest

from engines import recipes
from selfpretrain.runner import survey, worker
from selfpretrain.runner.plan import Job, chains
from selfpretrain.runner.survey import Surveys
from selfpretrain.system.store import FolderStore


@pytest.fixture
def folders(tmp_path):
    files = {"done": ["result.json", "predictions.safetensors"], "untested": ["result.json"],
             "busy": [".lease-2"], "silent": [".lease-1"]}  # fmt: skip
    for stage, names in files.items():
        (tmp_path / "stages" / stage).mkdir(parents=True)
        for name in names:
            (tmp_path / "stages" / stage / name).touch()
    os.utime(tmp_path / "stages" / "silent" / ".lease-1", (1.0, 1.0))
    (tmp_path / "plans").mkdir()
    return FolderStore(tmp_path / "stages"), FolderStore(tmp_path / "plans")


def test_a_listing_tells_what_is_done_and_where_somebody_works(folders):
    found = Surveys(*folders).latest()
    assert found.busy == ["busy"]
    assert found.done(set()) == {"done", "untested"}
    assert found.done({"untested", "done"}) == {"done"}


@pytest.fixture
def slow(folders, monkeypatch):
    """How often all files are listed, which takes a while."""
    listed, look = [], survey.surveyed
    monkeypatch.setattr(survey, "surveyed", lambda store: listed.append(time.sleep(0.02)) or look(store))
    return listed


def test_a_listing_that_takes_long_is_shared(folders, slow):
    first, second = Surveys(*folders), Surveys(*folders)
    known = first.latest()
    assert (second.latest().finished, len(slow)) == (known.finished, 1)
    path = folders[1].path / survey.NAME
    os.utime(path, (1.0, 1.0))  # too old for all
    again = second.latest()
    assert (again.finished, again.busy, len(slow)) == (known.finished, known.busy, 2)
    path.write_bytes(path.read_bytes()[:9])  # it is being written
    assert (first.latest().finished, len(slow)) == (known.finished, 3)


def test_while_one_looks_the_others_go_on_with_what_is_known(folders, slow, monkeypatch):
    Surveys(*folders).latest()
    os.utime(folders[1].path / survey.NAME, (1.0, 1.0))
    surveys, seen = Surveys(*folders), []
    monkeypatch.setattr(surveys, "_made", lambda: seen.append(Surveys(*folders).latest()) or seen[0])
    surveys.latest()
    assert (len(seen), len(slow)) == (1, 1)


def test_a_quick_listing_is_never_old(folders, monkeypatch):
    monkeypatch.setattr(survey, "time", SimpleNamespace(monotonic=lambda: 0.0))
    surveys = Surveys(*folders)
    surveys.latest()
    (folders[0].path / "busy" / "result.json").touch()
    assert "busy" in surveys.latest().finished


def test_the_longest_chains_come_first(folders):
    after = {"short": None, "begins": None, "goes on": "begins", "ends": "goes on", "long": None}
    jobs = [Job(recipes(4)[0], name, before, False) for name, before in after.items()]
    costs = {"short": 1.0, "begins": 1.0, "goes on": 1.0, "ends": 1e9, "long": 1e4}
    found = chains(jobs, costs)
    assert found == {"short": 1, "begins": 1e9 + 2, "goes on": 1e9 + 1, "ends": 1e9, "long": 1e4}
    taken = []

    def take(job):
        taken.append(job.name)
        return "done"

    worker.take_all(jobs, costs, Surveys(*folders), take, lambda: True)
    assert taken == ["begins", "goes on", "ends", "long", "short"]
