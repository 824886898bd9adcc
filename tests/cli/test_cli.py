"""The command as people use it: real runs in real processes, mistakes, interruptions."""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from selfpretrain.cli import app
from selfpretrain.registry import SHELVES
from selfpretrain.system.files import read_json

TESTS = Path(__file__).parents[1] / "support"
# Long enough to be cut in the middle, short enough to be finished in seconds.
CUT = [
    "compare", "--task", "toys:Majority", "--mixers", "attention,s4d", "--scale", "smoke", "--seeds", "1",
    "-s", "pretrain.budget.steps=100", "-s", "finetune.budget.steps=40", "-s", "scratch.budget.steps=40",
]  # fmt: skip


def environment():
    paths = [str(TESTS), *(p for p in sys.path if p)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


def start(*arguments, cwd):
    command = [sys.executable, "-m", "selfpretrain", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=cwd, env=environment(), text=True, start_new_session=True, **pipes)


def spt(*arguments, cwd):
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def scores(runs):
    """Everything that must not depend on interruptions, by stage."""
    found = {}
    for path in runs.glob("stages/*/result.json"):
        content = read_json(path)
        content["cost"].pop("seconds")
        content["files"].pop("log.jsonl")  # it tells times
        found[path.parent.name] = content
    return found


def weights(runs):
    return {path.parent.name: load_file(path) for path in runs.glob("stages/*/weights.safetensors")}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[s][k], b[s][k]) for s in a for k in a[s])


def test_compare_ends_with_a_table_and_a_report(tmp_path):
    code, out, err = spt("compare", "--task", "digits", "--scale", "smoke", "--seeds", "2", cwd=tmp_path)
    assert code == 0, err
    assert "attention" in out
    assert "s4d" in out
    page = Path(out.rsplit("report: ", 1)[1].strip())
    folder = (tmp_path / page).parent
    assert {"report.html", "results.csv", "report.md", "report.tex", "study.json"} <= set(os.listdir(folder))
    assert {line.split()[0] for line in err.splitlines()} == {"started", "finished"}
    assert " test score " in err
    assert json.loads((folder / "study.json").read_text())["tasks"][0]["baselines"]
    manifest = read_json(next((tmp_path / "runs" / "manifests").iterdir()))
    assert not set(manifest["train"]) & set(manifest["test"])
    seen = hashlib.sha256("\n".join(sorted(manifest["train"])).encode()).hexdigest()
    pretrained = [result for name, result in scores(tmp_path / "runs").items() if "-causal-" in name]
    assert pretrained
    assert all(result["data"] == {"split": "train", "rows": 200, "sha256": seen} for result in pretrained)
    assert all("test" not in result["scores"] for result in pretrained)
    again = spt("compare", "--task", "digits", "--scale", "smoke", "--seeds", "2", cwd=tmp_path)
    assert all(json.loads(line).get("reused", True) for line in again[2].splitlines())
    (folder / "report.html").unlink()
    program = "import sys; from selfpretrain.cli.app import run; sys.exit(run(['report', 'runs']) or {})"
    command = [sys.executable, "-c", program.format("'torch' in sys.modules and 'torch was imported'")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "--task", "digts"], "did you mean 'digits'"),
        (["compare", "--mixers", "atention"], "did you mean 'attention'"),
        (["compare", "--mixers", "nobody.knows:Mixer"], "cannot import"),
        (["compare", "--objective", "maskd"], "did you mean 'masked'"),
        (["compare", "--scale", "tiny"], "known: smoke, small, paper"),
        (["compare", "--scale", "paper"], "no printed recipe"),
        (["compare", "--device", "tpu9"], "device"),
        (["compare", "--device", "cuda:77"], "--device auto"),
        (["compare", "--jobs", "none"], "--jobs"),
        (["compare", "--set", "pretrain.optim.lr"], "setting=value"),
        (["compare", "--set", "pretrain.optm.lr=1"], "did you mean pretrain.optim.lr"),
        (["compare", "--set", "pretrain.optim.lr=-1"], "greater than 0"),
        (["compare", "--set", "pretrain.budget.seconds=5"], "steps, epochs or FLOPs"),
        (["compare", "--set", "pretrain.budget.weeks=5"], "weeks"),
        (["compare", "--set", "task.trian=5"], "did you mean 'train'"),
        (["compare", "--mixers", "attention", "-s", "attention.mixer.heads=7", "--jobs", "1"], "7 heads"),
        (["compare", "--runs", "file"], "in the way"),
        (["compare", "--task", "imported", "--set", "task.name=nothing"], "no data called 'nothing'"),
        (["study", "compar"], "did you mean 'compare'"),
        (["list", "mixer"], "did you mean 'mixers'"),
        (["run", "no.json"], "no file"),
        (["run", "broken.json"], "damaged"),
        (["run", "foreign.json"], "comes from outside"),
        (["run", "other.json"], "does not hold a recipe"),
        (["report", "empty"], "empty"),
        (["report", "missing"], "missing"),
        (["compare", "--seeds", "0"], "write a number of at least 1"),
        (["compre"], "Did you mean 'compare'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_clear_line(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "foreign.json").write_text('{"is": "os:system"}')
    (tmp_path / "other.json").write_text('{"is": "selfpretrain.objectives.masked:Masked"}')
    code = app.run(arguments)
    err = " ".join(capsys.readouterr().err.split())
    assert said in err
    assert "Traceback" not in err
    assert code == (1 if arguments[-1] in ("file", "broken.json", "empty", "missing") else 2)


def test_what_nobody_has_thought_of_is_one_line(monkeypatch, capsys):
    def fail(*verbs, **how):
        raise ZeroDivisionError("no\nreason")

    monkeypatch.setattr(app, "command_line", fail)
    assert app.run(["list"]) == 1
    assert "error: unforeseen ZeroDivisionError: no reason (SPT_DEBUG=1" in capsys.readouterr().err


def test_a_mixer_that_fails_is_named(tmp_path):
    command = ["compare", "--task", "toys:Majority", "--mixers", "attention,toys:Broken", "--scale", "smoke"]
    code, _, err = spt(*command, cwd=tmp_path)
    assert code == 1
    assert "broken fails: RuntimeError: this mixer is broken" in err
    assert "Traceback" not in err


def test_own_mixer_by_dotted_path(tmp_path):
    (tmp_path / "mylab.py").write_text(
        (TESTS / "toys.py").read_text().replace("class Careless", "class Mean")
    )
    command = [
        "compare",
        "--task",
        "toys:Majority",
        "--mixers",
        "mylab:Mean",
        "--scale",
        "smoke",
        "--seeds",
        "1",
    ]
    code, _, err = spt(*command, cwd=tmp_path)
    assert code == 2, err
    assert "mean must not be pretrained causally (causality: positions from 1 on reach earlier ones" in err
    code, out, err = spt(*command, "--objective", "masked", cwd=tmp_path)
    assert code == 0, err
    assert "mean" in out
    (table,) = tmp_path.glob("runs/compare-*/report.md")
    assert "mean: padding content: padding reaches real positions" in table.read_text()


def test_dry_run_trains_nothing(tmp_path):
    code, out, err = spt("compare", "--task", "digits", "--dry-run", cwd=tmp_path)
    assert code == 0, err
    assert "FLOPs" in out
    assert not (tmp_path / "runs" / "stages").exists()


def test_run_a_recipe_again(tmp_path):
    spt("compare", "--task", "digits", "--mixers", "s4d", "--scale", "smoke", "--seeds", "1", cwd=tmp_path)
    recipe = next(tmp_path.glob("runs/stages/digits-s4d-classify-*/recipe.json"))
    code, _, err = spt("run", recipe, "--runs", "other", cwd=tmp_path)
    assert code == 0, err
    name = recipe.parent.name
    assert scores(tmp_path / "other")[name] == scores(tmp_path / "runs")[name]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    code, _, err = spt(*CUT, "--jobs", "1", cwd=folder)
    assert code == 0, err
    return folder / "runs"


def kill_and_finish(kills, jobs, folder):
    """Kill the command so many times at random moments, then let it end."""
    chance = random.Random(kills)
    for _ in range(kills):
        process = start(*CUT, "--jobs", jobs, cwd=folder)
        time.sleep(chance.uniform(4, 14))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)
    code, _, err = spt(*CUT, "--jobs", jobs, cwd=folder)
    assert code == 0, err


def finished_twice(folder):
    """Stages whose log tells of more than one end, or whose steps do not rise."""
    twice = []
    for path in folder.glob("runs/stages/*/log.jsonl"):
        steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
        if steps != sorted(steps):
            twice.append(path)
    return twice


@pytest.mark.slow
def test_killed_at_random_moments_is_as_undisturbed(tmp_path, undisturbed):
    kill_and_finish(10, 2, tmp_path)
    assert scores(tmp_path / "runs") == scores(undisturbed)
    assert same(weights(tmp_path / "runs"), weights(undisturbed))
    assert not finished_twice(tmp_path)


def test_ctrl_c_says_how_to_go_on(tmp_path, undisturbed):
    process = start(*CUT, "--jobs", "2", cwd=tmp_path)
    line = process.stderr.readline()
    assert line.startswith("started ")
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    last = err.splitlines()[-1]
    assert "resumes from here" in last
    assert "spt compare --task toys:Majority" in last
    assert "Traceback" not in err
    code, _, err = spt(*CUT, "--jobs", "1", cwd=tmp_path)
    assert code == 0, err
    assert scores(tmp_path / "runs") == scores(undisturbed)


def children(process):
    """Processes that a process has started, by /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            found += [int(path.parent.name)] if parent == str(process.pid) else []
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
def test_a_killed_worker_is_reported_and_nothing_is_lost(tmp_path, undisturbed):
    process = start(*CUT, "--jobs", "2", cwd=tmp_path)
    process.stderr.readline()
    os.kill(max(children(process)), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "a worker process was killed" in err
    assert "Traceback" not in err
    code, _, err = spt(*CUT, "--jobs", "1", cwd=tmp_path)
    assert code == 0, err
    assert scores(tmp_path / "runs") == scores(undisturbed)


def test_results_of_another_version_are_left_alone(tmp_path, undisturbed):
    stage = next(undisturbed.glob("stages/*-causal-*"))
    other = tmp_path / "runs" / "stages" / stage.name
    other.mkdir(parents=True)
    (other / "result.json").write_text('{"format": 99}')
    code, _, err = spt(*CUT, "--jobs", "1", cwd=tmp_path)
    assert code == 1
    assert "format 99" in err
    assert json.loads((other / "result.json").read_text()) == {"format": 99}


def test_help_waits_for_nothing_heavy(tmp_path):
    code = (
        "import sys; from selfpretrain.cli.app import run; run(['--help']);"
        "sys.exit(bool({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, check=True)


@pytest.mark.parametrize("shelf", SHELVES)
def test_a_list_waits_for_nothing_that_it_does_not_show(shelf):
    heavy = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "jinja2", "numba", "pyarrow"}
    code = (
        f"import sys; from selfpretrain.cli.app import run; assert run(['list', {shelf!r}]) == 0;"
        f"own = [m for m in sys.modules if m.startswith('selfpretrain.cli')]; assert len(own) <= 5, own;"
        f"assert not {heavy} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, check=True)


def test_no_mixer_waits_for_the_compiler():
    code = (
        "import sys; from selfpretrain.registry import find, names;"
        "[find('mixers', name) for name in names('mixers')];"
        "assert not {'torch._dynamo', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)
