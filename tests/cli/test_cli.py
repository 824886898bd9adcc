"""The command as people use it: real runs in real processes, mistakes, interruptions."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from processes import SUPPORT, environment, python
from selfpretrain.cli import app
from selfpretrain.cli.compare import _gate
from selfpretrain.system.files import read_json

# Long enough to be cut in the middle, short enough to be finished in seconds.
CUT = [
    "compare", "--task", "toys:Majority", "--mixers", "attention", "--arms", "scratch,spt",
    "--scale", "smoke", "--seeds", "1", "-s", "pretrain.budget.steps=300", "-s", "finetune.budget.steps=40",
    "-s", "scratch.budget.steps=10",
]  # fmt: skip


TOY = ["compare", "--task", "toys:Majority", "--mixers", "attention", "--seeds", "1", "--dry-run"]


def start(*arguments, cwd):
    command = [sys.executable, "-m", "selfpretrain", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=cwd, env=environment(), text=True, start_new_session=True, **pipes)


def scores(runs):
    """Everything that must not depend on interruptions, by stage."""
    found = {}
    for path in runs.glob("stages/*/result.json"):
        content = read_json(path)
        content["cost"].pop("seconds")
        content["files"].pop("log.jsonl")  # it tells times
        found[path.parent.name] = content
    return found


def test_compare_ends_with_a_table_and_a_report(compared):
    assert "attention" in compared.out
    page = Path(compared.out.rsplit("report: ", 1)[1].strip())
    folder = compared.runs.parent / page.parent
    assert {"report.html", "results.csv", "report.md", "report.tex", "study.json"} <= set(os.listdir(folder))
    assert {line.split()[0] for line in compared.err.splitlines()} >= {"started", "finished"}
    assert " test score " in compared.err
    assert json.loads((folder / "study.json").read_text())["tasks"][0]["baselines"]
    manifest = read_json(next((compared.runs / "manifests").iterdir()))
    assert not set(manifest["train"]) & set(manifest["test"])
    seen = hashlib.sha256("\n".join(sorted(manifest["train"])).encode()).hexdigest()
    (pretrained,) = (result for name, result in scores(compared.runs).items() if "-causal-" in name)
    assert pretrained["data"] == {"split": "train", "rows": 200, "sha256": seen}
    assert "test" not in pretrained["scores"]


@pytest.mark.parametrize("place", ["runner.run.StageQueue.run", "runner.experiment_dir.page.write"])
def test_an_interruption_after_the_last_stage_stops(compared, tmp_path, monkeypatch, capsys, place):
    shutil.copytree(compared.runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    (page,) = (tmp_path / "runs").glob("compare-*/report.html")
    page.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(f"selfpretrain.{place}", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        assert app.run(list(compared.command)) == 130
    assert "selfpretrain compare --task digits" in capsys.readouterr().err.splitlines()[-1]
    assert not page.exists()
    assert app.run(list(compared.command)) == 0
    assert page.exists()


def test_the_same_command_trains_nothing_and_a_report_needs_no_torch(compared, tmp_path, monkeypatch, capsys):
    shutil.copytree(compared.runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    assert app.run(list(compared.command)) == 0
    assert all(line.startswith("reused ") for line in capsys.readouterr().err.splitlines())
    (page,) = (tmp_path / "runs").glob("compare-*/report.html")
    page.unlink()
    python(
        "import sys; from selfpretrain.cli.app import run;"
        "sys.exit(run(['report', 'runs']) or ('torch' in sys.modules and 'torch was imported'))",
        tmp_path,
    )
    assert page.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "--task", "digts"], "did you mean 'digits'"),
        (["compare", "--mixers", "atention"], "did you mean 'attention'"),
        (["compare", "--mixers", "nobody.knows:Mixer"], "cannot import"),
        (["compare", "--mixers", "./mylab/nets.py:Mixer"], "name the module, mylab.nets:Mixer"),
        (["compare", "--mixers", "attention,"], "no mixer is named; there are"),
        (
            ["compare", "--task", "toys:Careless"],
            "toys:Careless is not a task: name a class that extends",
        ),
        (["compare", "--task", "toys:os"], "toys:os is not a task: name a class that extends"),
        (["study", "toys:Majority"], "toys:Majority is not a study: name a class that extends"),
        (["compare", "--dry-run", "--executor", "serail"], "did you mean 'serial'"),
        (["compare", "--dry-run", "--track", "jsnl"], "did you mean 'jsonl'"),
        (["compare", "--measure"], "add --dry-run"),
        (["compare", "--with", "gpus=1"], "--with is for the executor that --executor names"),
        (
            [*TOY, "--executor", "ray", "--with", "gpu=1"],
            "--executor ray has no such setting; did you mean 'gpus'?",
        ),
        (
            [*TOY, "--executor", "processes", "--with", "gpus=1"],
            "processes has no such setting; leave it out",
        ),
        (["compare", "--task", "digits,digits"], "task 'digits' is given twice; name every task once"),
        (["study", "coser-table-4", "--gpu", "a100"], "add --dry-run"),
        (["study", "coser-table-4", "--dry-run", "--gpu", "a100", "--measure"], "of another; give one"),
        (["compare", "--objective", "maskd"], "did you mean 'masked'"),
        (["compare", "--scale", "tiny"], "known: smoke, small, paper"),
        (["compare", "--scale", "paper"], "no reported recipe"),
        (["compare", "--device", "tpu9"], "device"),
        (["compare", "--device", "cuda:77"], "--device auto"),
        (["compare", "--jobs", "none"], "--jobs"),
        ([*TOY, "--match", "size"], "there is no such match"),
        (["compare", "--set", "pretrain.optim.lr"], "setting=value"),
        (["compare", "--set", "pretrain.optm.lr=1"], "did you mean pretrain.optim.lr"),
        (["compare", "--set", "pretrain.optim.lr=-1"], "greater than 0"),
        ([*TOY, "-s", "lr=1"], "did you mean pretrain.optim.lr or finetune.optim.lr or scratch.optim.lr?"),
        (
            [*TOY, "-s", "model.widthh=8"],
            "did you mean 'model.width'?; selfpretrain list settings majority shows all",
        ),
        (
            [*TOY, "-s", "finetune.optim.rate=8"],
            "there is no setting 'finetune.optim.rate'",
        ),
        (["compare", "--set", "pretrain.budget.seconds=5"], "steps, epochs or FLOPs"),
        (["compare", "--set", "pretrain.budget.weeks=5"], "weeks"),
        (["compare", "--set", "task.trian=5"], "did you mean 'train'"),
        (["compare", "--mixers", "attention", "-s", "attention.mixer.heads=7", "--jobs", "1"], "7 heads"),
        (["compare", "--runs", "file"], "in the way"),
        (["compare", "--task", "imported", "--set", "task.name=nothing"], "no data called 'nothing'"),
        (["study", "compar"], "did you mean 'compare'"),
        (["list", "mixer"], "did you mean 'mixers'"),
        (["list", "tasks", "bidmk"], "did you mean 'bidmc'"),
        (["run", "no.json"], "no file"),
        (["run", "broken.json"], "damaged"),
        (["run", "foreign.json"], "comes from outside"),
        (["run", "other.json"], "does not hold a recipe"),
        (["report", "missing"], "missing"),
        (["report", "empty"], "selfpretrain compare --task TASK"),
        (["runs", "gc", "missing"], "there is no directory missing"),
        (["compare", "--seeds", "0"], "write a number from 1 to"),
        (["compare", "--seeds", "4..99"], "at most, such as 4..12"),
        (["study", "amos-table-8", "--seeds", "4..99"], "at most, such as 4..12"),
        (["compre"], "Did you mean 'compare'"),
        (
            ["study", "coser-table-4", "--scale", "smoke", "--only", "identical start/scrach"],
            "mean 'identical start/scratch'?",
        ),
        (["study", "coser-table-4", "--dry-run", "--gpu", "a1000"], "did you mean 'a100'?"),
        (["study", "coser-table-4", "--scale", "smal"], "did you mean 'small'?"),
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


def test_ctrl_c_is_answered_with_how_to_go_on(cli, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("selfpretrain.estimators.files.fit", interrupted)
    assert cli("fit", "digits", "-o", "m") == (
        130,
        "",
        "stopped at once; to resume: selfpretrain fit digits -o m",
    )


def test_what_nobody_has_thought_of_is_one_line(monkeypatch, capsys):
    def fail(*verbs, **how):
        raise ZeroDivisionError("no\nreason")

    monkeypatch.setattr(app, "command_line", fail)
    assert app.run(["list"]) == 1
    assert "error: unforeseen ZeroDivisionError: no reason (SELFPRETRAIN_DEBUG=1" in capsys.readouterr().err


def test_a_mixer_that_fails_is_named(cli, tmp_path):
    command = ["compare", "--task", "toys:Majority", "--mixers", "attention,toys:Broken", "--scale", "smoke"]
    code, _, err = cli(*command, "--jobs", 1, "--runs", tmp_path)
    assert code == 1 and "broken fails: RuntimeError: this mixer is broken" in err


def test_own_mixer_by_dotted_path(cli, tmp_path, monkeypatch):
    toys = (SUPPORT / "toys.py").read_text()
    (tmp_path / "ourlab.py").write_text(toys.replace("class Careless", "class Mean"))
    monkeypatch.syspath_prepend(tmp_path)
    command = ["compare", "--task", "toys:Majority", "--mixers", "ourlab:Mean", "--arms", "scratch,spt"]
    command += ["--scale", "smoke", "--seeds", 1, "--jobs", 1, "--runs", tmp_path / "runs"]
    command += ["-s", "task.shortest=24"]
    code, _, err = cli(*command)
    assert code == 2
    assert "mean must not be pretrained causally (causality: positions from 1 on reach earlier ones" in err
    assert not (tmp_path / "runs" / "stages").exists()
    code, out, err = cli(*command, "--objective", "masked")
    assert code == 0, err
    assert "mean" in out
    (table,) = tmp_path.glob("runs/compare-*/report.md")
    assert "mean: padding content: padding reaches real positions" in table.read_text()


def test_run_a_recipe_again(cli, compared, tmp_path):
    recipe = next(compared.runs.glob("stages/digits-attention-classify-*/recipe.json"))
    code, _, err = cli("run", recipe, "--runs", tmp_path)
    assert code == 0, err
    name = recipe.parent.name
    assert scores(tmp_path)[name] == scores(compared.runs)[name]


def children(process):
    """Processes that a process has started, by /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            found += [int(path.parent.name)] if parent == str(process.pid) else []
    return found


def ended(process):
    """The exit code of a process, and what it said."""
    _, err = process.communicate(timeout=300)
    assert "Traceback" not in err
    return process.returncode, err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
def test_ctrl_c_and_a_killed_worker_are_reported_and_nothing_is_lost(cli, tmp_path):
    """The same command ends with the numbers of a run that was not disturbed."""
    undisturbed = tmp_path / "undisturbed"
    assert app.run([*CUT, "--jobs", "1", "--quiet", "--runs", str(undisturbed)]) == 0
    process = start(*CUT, "--jobs", "2", cwd=tmp_path)
    assert process.stderr.readline().startswith("started ")
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    code, err = ended(process)
    last = err.splitlines()[-1]
    assert code == 130 and "resumes from here" in last and "selfpretrain compare --task toys:Majority" in last
    process = start(*CUT, "--jobs", "2", cwd=tmp_path)
    process.stderr.readline()
    os.kill(max(children(process)), signal.SIGKILL)
    code, err = ended(process)
    assert code == 1 and "a worker process was killed" in err
    code, _, err = cli(*CUT, "--jobs", 1, "--runs", tmp_path / "runs")
    assert code == 0, err
    assert scores(tmp_path / "runs") == scores(undisturbed)


def test_results_of_another_version_are_left_alone(cli, tmp_path, compared):
    stage = next(compared.runs.glob("stages/*-causal-*"))
    other = tmp_path / "stages" / stage.name
    other.mkdir(parents=True)
    (other / "result.json").write_text('{"format": 99}')
    code, _, err = cli(*compared.command, "--runs", tmp_path)
    assert code == 1 and "format 99" in err
    assert json.loads((other / "result.json").read_text()) == {"format": 99}


def test_a_verdict_can_fail_a_command_and_one_that_nobody_can_judge_does(tmp_path, capsys):
    toy = ["compare", "--task", "toys:Majority", "--mixers", "attention", "--scale", "smoke", "--quiet"]
    toy += ["-s", "task.shortest=24", "--runs", str(tmp_path)]
    for standings, code in (("better,ahead,equal,unclear,behind,worse", 3), ("", 0)):
        assert app.run([*toy, "--seeds", "2", "--json", "--fail-if", standings]) == code
        said = capsys.readouterr()
        (verdict,) = json.loads(said.out)["verdicts"]
        assert (verdict["arm"], verdict["against"]) == ("SPT", "scratch (matched)")
        assert (f"attention: {verdict['standing']}" in said.err) == bool(code)
    assert app.run([*toy, "--seeds", "1", "--fail-if", "worse"]) == 3
    assert "attention: one seed" in capsys.readouterr().err, "which has no interval"


def test_a_lead_that_is_no_evidence_fails_a_command(capsys):
    verdict = {"task": "toy", "row": "lru", "arm": "SPT", "against": "scratch", "standing": "better"}
    with pytest.raises(typer.Exit):
        _gate([{**verdict, "no_evidence": "training diverged in 2 of 2 of scratch"}], frozenset({"worse"}))
    assert "toy, lru: better, but training diverged" in capsys.readouterr().err
    _gate([{**verdict, "no_evidence": None}], frozenset({"worse"}))


def test_a_verdict_that_there_is_not_is_refused_before_anything_runs(tmp_path, capsys):
    assert app.run(["compare", "--runs", str(tmp_path), "--fail-if", "best"]) == 2
    assert "best is not one of better, ahead" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_gate_needs_results(tmp_path, capsys):
    assert app.run(["compare", "--runs", str(tmp_path), "--fail-if", "worse", "--detach"]) == 2
    assert "run it without --detach" in capsys.readouterr().err and not list(tmp_path.iterdir())
