"""The page that follows a folder of runs, in a real browser, while stages are trained."""

import json
import re
import threading
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from browser import look, needs_browser
from selfpretrain.cli.app import run
from selfpretrain.registry import resolve
from selfpretrain.runner.detached import leave_plan
from selfpretrain.runner.plan import jobs, waiting
from selfpretrain.runner.run import run_recipes
from selfpretrain.runner.watch import curve, server
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import prepare


@pytest.fixture
def runs(tmp_path):
    """A plan of two stages that nobody has begun."""
    study = prepare(resolve("tasks", "digits"), (resolve("mixers", "lstm"),), "masked", "smoke", 1)
    recipe = list(study.cells())[-1].recipe
    workspace = replace(Workspace.of(tmp_path / "<runs>", "cpu", "1"), quiet=True)
    leave_plan("plan", waiting(jobs([recipe], workspace), workspace), workspace)
    return workspace, recipe


@pytest.fixture
def served(runs):
    pages = server(runs[0].runs)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{pages.server_port}"
    pages.shutdown()


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        return answer.read().decode()


def test_the_state_changes_with_the_stages(runs, served):
    count = len(jobs([runs[1]], runs[0]))
    assert f"0 done, 0 running, {count} waiting" in get(f"{served}/state")
    run_recipes([runs[1]], runs[0])
    after = get(f"{served}/state")
    assert f"{count} done, 0 running" in after
    assert after.count("<polyline") == count
    assert "<runs>" not in after and "&lt;runs&gt;" in after


def test_reports_are_made_as_they_stand(served, runs):
    flags = ["--task", "digits", "--mixers", "lstm", "--seeds", "1", "--scale", "smoke", "-q"]
    assert run(["compare", *flags, "--runs", str(runs[0].runs), "--detach"]) == 0
    (name,) = re.findall(r'href="(/report/[^"]+)"', get(served))
    assert "missing" in get(served + name)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{served}/report/../../plans")


def test_pages_of_other_sites_are_refused(served):
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(served, Host="example.org")


def test_what_cannot_be_read_is_one_line(runs, served):
    (runs[0].runs / "plans" / "plan.json").write_text("{")
    assert "is damaged" in get(served)


def test_a_line_that_is_being_written_is_left_out(tmp_path):
    lines = [{"kind": "train", "step": step, "loss": loss} for step, loss in ((0, 2.0), (5, 1.0), (10, 0.0))]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)) + '\n{"kind": "tr')
    assert curve(tmp_path / "log") == "0.0,0.0 80.0,20.0 160.0,40.0"


@needs_browser
def test_a_browser_sees_it_change(runs, tmp_path):
    """Stages are run between the first answer and the second: what the page shows then has come by itself."""
    looks = []

    def refresh():
        looks.append(1)
        if len(looks) == 2:
            run_recipes([runs[1]], runs[0])

    pages = server(runs[0].runs, refresh=refresh)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{pages.server_port}"
    shown, _ = look(address, tmp_path / "profile", "--virtual-time-budget=9000")
    pages.shutdown()
    assert len(looks) > 1
    assert "0 waiting" in shown
    assert "<polyline" in shown
