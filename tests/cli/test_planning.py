"""What is said before anything is trained: how long it takes, and what would fit."""

import json
import math
from dataclasses import replace

import pytest

import toys
from selfpretrain import api
from selfpretrain.cli import app, printing
from selfpretrain.errors import SpecError
from selfpretrain.report import results
from selfpretrain.runner.forecast import Forecast, forecast
from selfpretrain.runner.run import begin, run_recipes
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.base import Study
from selfpretrain.training import cost
from selfpretrain.training.cost import Planner
from selfpretrain.training.model import Model

TOY = ["compare", "--task", "toys:Majority", "--mixers", "attention,s4d", "--seeds", "1"]


def one_line(text):
    return " ".join(text.split())


def test_long_sequences_are_planned_without_a_pass_over_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    seen = []
    monkeypatch.setattr("selfpretrain.training.cost._count", lambda *arguments: seen.append(arguments))
    long = [*TOY, "-s", "task.length=16000", "-s", "task.shortest=15000", "--dry-run"]
    assert app.run(long) == 0 and not seen
    said = one_line(capsys.readouterr().out)
    assert "guessed at 25 GFLOP/s a core; --measure times the steps" in said and " h " in said


def test_a_time_limit_shortens_all_arms_alike_and_the_same_command_goes_on(tmp_path, monkeypatch):
    study = api.comparison(toys.Majority(shortest=24), ("attention", "s4d"), "causal", 1, "small", {})
    workspace, asked = Workspace(tmp_path), []

    def takes_an_hour(*arguments, **settings):
        asked.append(settings["timed"])
        return Forecast([], "", 3600.0)

    monkeypatch.setattr(api, "forecast", takes_an_hour)
    planner = api.forecast_planner("small")
    request = api.Request(study)

    def within(seconds):
        return api.fit_to_time_limit(request, seconds, workspace, planner)

    dry = within(1800.0)
    assert not list(tmp_path.iterdir())
    short = within(1800.0)
    assert short == dry and asked == [True, True]
    begin(api.plan_request(short).plan, workspace)
    assert within(1800.0) == short and asked == [True, True]  # this one was remembered
    for before, after in zip(study.architectures[0], short.study.architectures[0], strict=True):
        for stage in ("pretrain", "finetune", "scratch"):
            steps = getattr(before, stage).budget.steps
            assert getattr(after, stage).budget.steps == round(0.4 * steps)
    said = "to end within 30 min 0 s rather than 1 h 0 min: every arm trains 40% as long"
    assert short.study.notes()[-1] == said
    assert within(7200.0).study == study
    with pytest.raises(SpecError, match=r"1.1% of the usual training would fit, which is too little"):
        within(50.0)
    assert [path.name for path in tmp_path.glob("*/study.json")] == ["study.json"]
    request = replace(request, tune=True)
    assert within(1800.0).share == short.share / 2, "trials take time, too"


def test_stages_that_wait_for_one_another_take_their_time_however_many_run_at_once(tmp_path):
    study = api.comparison(toys.Majority(shortest=24), ("attention",), "causal", 1, "small", {})
    planner = api.forecast_planner("small")
    plan = api.plan_request(api.Request(study), planner).plan
    seconds = [forecast(plan, Workspace(tmp_path, workers=n), planner=planner).seconds for n in (1, 2, 99)]
    chain = sum(planner.plan(recipe).flops for recipe in study_chain(study, planner))
    whole = sum(planner.plan(stage.recipe).flops for stage in plan.stages.values())
    assert seconds[2] == pytest.approx(seconds[0] * chain / whole)
    assert seconds[0] > seconds[1] >= seconds[2]


def study_chain(study, planner):
    """Pretraining, and finetuning from it."""
    cells = study.experiment("small", 0, planner).cells
    return max((cell.recipe.prefixes() for cell in cells), key=len)


def test_results_are_kept_by_studies_that_keep_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert app.run(["study", "compare", "--scale", "smoke", "--results", "kept"]) == 2
    assert "compare keeps no results" in one_line(capsys.readouterr().err)


def test_a_forecast_counts_the_trials_of_tuning(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = [*TOY[:-1], "2", "-s", "task.shortest=24", "--dry-run", "--json"]
    found = []
    for flags in ([], ["--tune"]):
        assert app.run([*asked, *flags]) == 0
        found.append(json.loads(capsys.readouterr().out))
    plain, tuned = found
    assert tuned["stages"] == plain["stages"] and tuned["total"] == plain["total"]
    assert tuned["notes"][0].startswith("before these, to tune: 96 stages asked for, 76 different ones: ")
    assert tuned["seconds"] > 5 * plain["seconds"]


@pytest.mark.parametrize("text", ["m", "0", "-3", "inf", "30m"])
def test_what_is_no_number_of_minutes(text, capsys):
    for command in (TOY, ["fit", "toys:Majority", "-o", "model"]):
        assert app.run([*command, "--minutes", text]) == 2
        assert "--minutes" in capsys.readouterr().err


def test_who_will_wait_for_long_is_told_before_it_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "run_request", lambda *arguments: None)
    monkeypatch.setattr("selfpretrain.cli.printing.show", lambda *arguments: None)
    long = [*TOY, "-s", "task.length=16000", "-s", "task.shortest=15000"]
    assert app.run(long) == 0
    said = one_line(capsys.readouterr().err)
    assert "note: this takes about" in said and "--minutes 60 shortens all arms alike" in said
    for untold in ([*TOY, "-s", "task.shortest=24"], [*long, "--executor", "ray"]):
        assert app.run(untold) == 0
        assert "note" not in capsys.readouterr().err, "--minutes is not for other machines"


def test_a_dry_run_at_the_papers_scale_builds_no_network(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path))
    monkeypatch.setattr(cost, "_sizes", {})
    built = counted(monkeypatch, Model, "build")
    asked = ["study", "gu-table-10", "--scale", "paper", "--dry-run", "--gpu", "a100"]
    assert app.run(asked) == 0 and "on one a100" in one_line(capsys.readouterr().out)
    assert not built


def counted(monkeypatch, owner, name):
    """The calls of a function, from now on."""
    calls = []
    function = getattr(owner, name)

    def called(*arguments, **settings):
        calls.append(arguments)
        return function(*arguments, **settings)

    monkeypatch.setattr(owner, name, called)
    return calls


def test_compare_builds_its_experiment_and_reads_its_folder_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    built = counted(monkeypatch, Study, "experiment")
    opened = counted(monkeypatch, results.ExperimentResults, "with_stages")
    even = [*TOY, "--mixers", "attention", "--scale", "smoke", "-s", "task.shortest=24"]
    assert app.run(even) == 0 and (len(built), len(opened)) == (1, 1)
    assert "report.html" in capsys.readouterr().out
    assert app.run(even) == 0 and (len(built), len(opened)) == (2, 2)
    assert app.run([*even, "--dry-run"]) == 0 and (len(built), len(opened)) == (3, 2)


def test_what_is_planned_with_a_stub_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFPRETRAIN_DATA", str(tmp_path / "data"))
    planner = Planner(stubs=True)
    study = api.comparison("text", ("s4d",), "masked", 1, "small", {}, planner)
    with pytest.raises(SpecError, match="planned with a stub of its data"):
        run_recipes([next(study.cells(planner)).recipe], Workspace(tmp_path / "runs", quiet=True))


def test_a_dry_run_of_a_study_knows_the_spread_of_kept_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert app.run(["study", "failed-seeds", "--seeds", "auto", "--dry-run"]) == 0
    out = one_line(capsys.readouterr().out)
    assert "12 seeds are the most; to the first interim analysis, at 4 seeds" in out
    assert "Transformer on Pathfinder: seeds to a verdict for a gain of 2.0 points more than 12" in out
    assert "the known spread, of 3 seeds, is 7.4 points" in out and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "variables", "said"),
    [
        (["--executor", "slurm"], {}, "with a cluster set budgets with -s"),
        (["--executor", "ray"], {}, "with a cluster set budgets with -s"),
        ([], {"WORLD_SIZE": "2"}, "begin without torchrun, which then goes on"),
    ],
)
def test_minutes_of_another_machine_are_not_measured_here(
    flags, variables, said, tmp_path, monkeypatch, capsys
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert app.run([*TOY, "--minutes", "30", "--runs", str(tmp_path), *flags]) == 2
    assert said in one_line(capsys.readouterr().err)


def test_json_has_null_where_a_number_is_not_defined(capsys):
    printing.print_json({"score": math.nan, "bound": -math.inf, "rows": [1.5]})
    assert json.loads(capsys.readouterr().out) == {"score": None, "bound": None, "rows": [1.5]}
