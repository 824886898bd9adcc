"""What a comparison takes from its task, objective and mixers: settings, rates, rows."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import paper_data
import toys
from selfpretrain import registry
from selfpretrain.api import Request, compare, comparison, find_study, forecast_planner, resolve_settings
from selfpretrain.cli.compare import compare as command
from selfpretrain.config import spec
from selfpretrain.data.spec import Classes, SequenceSpec, Values
from selfpretrain.errors import SpecError, UnknownName
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4d import S4D
from selfpretrain.mixers.wavegan import WaveGAN
from selfpretrain.objectives.base import Denoise, Distance
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.masked import Masked
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.compare import Comparison, build_comparison
from selfpretrain.studies.growth import SIZES, Growth
from selfpretrain.studies.modern_zoo import ModernZoo
from selfpretrain.studies.recipes.defaults import denoising_objective, small_arms
from selfpretrain.tasks.digits import Digits
from selfpretrain.tasks.listops import ListOps
from selfpretrain.tasks.paths import Paths
from selfpretrain.tasks.stdlib import Stdlib
from selfpretrain.training.recipe import Budget


@spec
class Plain(Stdlib):
    """Windows of text with no settings of their own."""

    small: ClassVar[tuple[str, ...]] = ()


@spec
class Suited(Stdlib):
    """The same windows with settings of their own."""

    small: ClassVar[tuple[str, ...]] = (
        "model.width=32",
        "pretrain.budget.steps=77",
        "s4d.mixer.states=8",
        "s4d.finetune.optim.lr=5e-3",
    )


def test_settings_of_a_task_come_after_the_usual_ones_and_those_of_a_mixer_are_for_it_alone():
    usual = small_arms(Plain(train=160, val=80, test=80), Attention(), Masked())
    mine = small_arms(Suited(train=160, val=80, test=80), Attention(), Masked())
    assert mine.model == replace(usual.model, width=32)
    assert mine.pretrain == replace(usual.pretrain, budget=Budget(steps=77))
    assert mine.finetune == usual.finetune
    s4d = small_arms(Suited(train=160, val=80, test=80), S4D(), Masked())
    assert (s4d.model.mixer.states, s4d.finetune.optim.lr, s4d.model.width) == (8, 5e-3, 32)


def test_what_is_chosen_of_a_mixer_is_kept_beside_the_settings_of_a_task_or_of_a_comparison():
    task = Suited(train=160, val=80, test=80)
    arms = small_arms(task, S4D(states=4), Masked())
    assert (arms.model.mixer, arms.finetune.optim.lr) == (S4D(states=4), 5e-3)
    usual = ("attention.mixer.heads=2", "s4d.mixer.states=16", "s4d.mixer.longest=1")
    mixers = (Attention(heads=8), Attention(), S4D(states=4), S4D(shortest=0.01))
    study = build_comparison((task,), mixers, None, "small", 1, usual=usual)
    assert [arms.model.mixer for arms in study.architectures[0]] == [
        Attention(heads=8),
        Attention(heads=2),
        S4D(states=4, longest=1.0),
        S4D(states=16, longest=1.0, shortest=0.01),
    ]


def test_networks_of_their_own_keep_their_shape():
    task = Suited(train=160, val=80, test=80)
    assert small_arms(task, WaveGAN(), Masked()).model.width == 64


def test_a_setting_that_does_not_exist_is_refused():
    class Wrong(Suited):
        small: ClassVar[tuple[str, ...]] = ("pretrain.stpes=3",)

    with pytest.raises(UnknownName, match="stpes"):
        small_arms(Wrong(train=160, val=80, test=80), Attention(), Masked())


GPU = Workspace(Path("runs"), device="cuda")


def precisions(study):
    return {stage.precision for cell in study.cells() for stage in cell.recipe.stages}


def test_gpus_take_half_precision_unless_a_setting_says_another_one():
    def made(settings, workspace):
        return comparison(
            toys.Majority(), ("attention",), "causal", 1, "smoke", resolve_settings(settings, workspace)
        )

    assert precisions(made({}, Workspace(Path("runs")))) == {"fp32"}
    assert precisions(made({}, GPU)) == {"bf16"}
    assert precisions(made({"stage.precision": "tf32"}, GPU)) == {"tf32"}
    assert precisions(made({"pretrain.precision": "fp32"}, GPU)) == {"fp32", "bf16"}


@pytest.mark.parametrize("executor", ["slurm", "ray"])
def test_precision_and_name_of_a_stage_follow_the_gpus_that_it_will_have(executor):
    def planned(workspace):
        settings = resolve_settings({}, workspace)
        study = comparison(toys.Majority(), ("attention",), "causal", 1, "smoke", settings)
        return {workspace.stage(cell.recipe).name for cell in study.cells()}, precisions(study)

    login = replace(Workspace(Path("runs")), executor=executor)
    with_gpu, without = (replace(login, executor_settings={"gpus": n}) for n in ("1", "0"))
    assert planned(with_gpu) == planned(GPU)
    assert planned(without) == planned(Workspace(Path("runs")))
    assert planned(with_gpu)[1] == {"bf16"}
    assert find_study("amos-table-8", "paper", 1, with_gpu).precision == "bf16"


@pytest.mark.parametrize(("units", "precision"), [(True, "bf16"), (False, "fp32")])
def test_half_precision_is_for_gpus_with_units_for_it(units, precision, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: units or including_emulation
    )
    assert resolve_settings({}, GPU) == {"stage.precision": precision}


def test_tables_that_have_kept_results_are_computed_as_those_were():
    small = find_study("amos-table-8", "small", 1, GPU)
    assert small == registry.find("studies", "amos-table-8").at_scale("small", 1)
    half = find_study("amos-table-8", "smoke", 1, GPU).with_precision("bf16")
    assert precisions(half) == {"bf16"}
    assert not half.changed
    assert precisions(half.with_settings({"stage.precision": "fp32"})) == {"fp32"}
    assert find_study("amos-table-8", "paper", 1, GPU).precision == "bf16"


@spec
class Odd(Masked):
    """Masking, with a rate of its own."""

    @classmethod
    def for_signal(cls, form):
        return cls(rate=0.5 if isinstance(form.signal, Values) else 0.25)


@spec
class Unsettled(Denoise):
    """An objective that nobody can make without a setting."""

    distance: Distance

    def make_targets(self, batch, form, random):
        raise NotImplementedError


HERE = __name__


@pytest.mark.parametrize(
    ("task", "rate"),
    [(Stdlib(), 0.15), (ListOps(train=8, val=8, test=8).tiny(), 0.1), (Digits(), 0.5), (Paths().tiny(), 0.3)],
)
def test_masking_hides_what_the_papers_hide(task, rate):
    assert denoising_objective(task, "masked") == Masked(rate)


def test_plain_values_and_the_next_position():
    assert Masked.for_signal(SequenceSpec(Values(), 8, Classes(("a", "b")))) == Masked(0.25)
    assert denoising_objective(Stdlib(), "causal") == Causal()


@pytest.mark.parametrize(("signal", "rate"), [("tokens", 0.25), ("values", 0.5)])
def test_one_s_own_proposes_its_own(signal, rate):
    task = toys.Majority(signal=signal)
    study = build_comparison((task,), (Attention(),), f"{HERE}:Odd", "smoke", 1)
    ((arms,),) = study.architectures
    assert arms.pretrain.objective == Odd(rate)
    assert isinstance(arms.pretrain.objective, Denoise)
    assert {cell.column for cell in study.cells()} == {"scratch", "scratch (matched)", "SPT"}


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("maskd", "no objective called 'maskd'; did you mean 'masked'?"),
        (
            "classify",
            "rebuilds no inputs; self-pretraining takes causal or contrastive or diffusion or latent or "
            "masked or ngram-statistics or replaced or spans",
        ),
        (
            f"{HERE}:HERE",
            "is not an objective: name a class that extends selfpretrain.objectives.base.",
        ),
        (f"{HERE}:Unsettled", "needs settings that for_signal does not give"),
    ],
)
def test_what_cannot_pretrain_is_refused_in_one_line(objective, said):
    with pytest.raises(SpecError) as caught:
        denoising_objective(toys.Majority(), objective)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def study(*mixers):
    return build_comparison((toys.Majority(),), mixers, "causal", "smoke", 1)


@pytest.mark.parametrize("positions", ["next", "masked"])
def test_networks_are_causal_where_pretraining_needs_it(positions):
    settings = {"pretrain.objective.positions": positions}
    ((arms,),) = comparison("digits", ("attention",), "latent", 1, "small", settings).architectures
    assert arms.model.causal == arms.scratch_model.causal == (positions == "next")
    kept = comparison("digits", ("attention",), "latent", 1, "small", settings | {"model.causal": True})
    assert kept.architectures[0][0].model.causal


def test_a_limit_in_hours_is_kept_beside_steps_in_any_order():
    for settings in (
        ("stage.budget.hours", "stage.budget.steps"),
        ("stage.budget.steps", "stage.budget.hours"),
    ):
        given = {path: {"stage.budget.hours": 0.5, "stage.budget.steps": 300}[path] for path in settings}
        ((arms,),) = comparison("digits", ("attention",), "masked", 1, "small", given).architectures
        assert (arms.finetune.budget.steps, arms.finetune.budget.hours) == (300, 0.5)


def test_the_study_is_what_the_command_compares_where_nothing_is_chosen():
    chosen = inspect.signature(compare).parameters
    names = ("task", "mixers", "objective", "seeds")
    asked = comparison(*(chosen[name].default for name in names), "smoke", {})
    assert Comparison.at_scale("smoke", chosen["seeds"].default) == asked
    given = {name: inspect.signature(command).parameters[name].default for name in names}
    usual = {name: chosen[name].default for name in names}
    assert given == usual | {"mixers": ",".join(usual["mixers"]), "seeds": str(usual["seeds"])}


@pytest.mark.parametrize(
    ("mixers", "rows"),
    [
        ([S4D(init="random")], ["s4d"]),
        ([S4D(), S4D(init="random")], ["s4d", "s4d, init random"]),
        ([S4D(), S4D()], ["s4d 1", "s4d 2"]),
    ],
)
def test_twins_are_told_apart_by_what_is_unusual_or_numbered(mixers, rows):
    assert study(*mixers).rows == rows


def test_the_second_of_two_twins_can_be_amended_alone():
    changed = study(S4D(), S4D()).with_settings({"s4d 2.mixer.init": "random", "s4d 2.model.init": "random"})
    assert [arms.model.mixer.init for arms in changed.architectures[0]] == ["lin", "random"]
    assert changed.rows == ["s4d", "s4d, init random, every parameter random"]
    assert {cell.row for cell in changed.cells(paper_data.ROUGH)} == set(changed.rows)


@pytest.mark.parametrize(
    ("path", "suggested"),
    [
        ("mixer.states", "s4d.mixer.states"),
        ("s4.mixer.states", "s4d.mixer.states"),
        ("s4d.mixer.stats", "'s4d.mixer.states'"),
        ("s4d.model.wdth", "'s4d.model.width'"),
        ("mixer.heads", "attention.mixer.heads"),
        ("model.wdth", "'model.width'"),
    ],
)
def test_a_setting_that_only_some_rows_have_is_suggested_with_its_row(path, suggested):
    with pytest.raises(UnknownName, match=rf"did you mean {suggested}\?; selfpretrain list"):
        study(Attention(), S4D()).with_settings({path: 8})


def test_a_wrong_word_of_a_setting_is_refused_with_all_the_right_ones():
    right = "'auto', 'none', 'sinusoidal', 'learned' or 'rotary'"
    with pytest.raises(SpecError, match=f"^positions='sinus': Input should be {right}$"):
        study(Attention()).with_settings({"model.positions": "sinus"})


def test_a_task_twice_with_other_settings_has_two_names():
    tasks = Paths(size=8), Paths(size=10)
    study = build_comparison(tasks, (Attention(),), "causal", "small", 1)
    assert study.names == ["paths", "paths, size 10"]
    found = [
        {cell.label or registry.name_of(cell.recipe.task) for cell in cells}
        for cells in study.experiment("small").by_task()
    ]
    assert found == [{"paths"}, {"paths, size 10"}]
    assert len(build_comparison(tasks, (Attention(),), "causal", "smoke", 1).tasks) == 1


def test_growth_keeps_a_size_that_is_chosen():
    usual = Growth("smoke", 1)
    for study, sizes in ((usual, set(SIZES)), (usual.with_settings({"task.size": 10}), {10})):
        cells = study.cells(forecast_planner("smoke"))
        assert {each.recipe.task.size for each in cells if isinstance(each.recipe.task, Paths)} == sizes


def test_an_arm_is_not_tuned_out_of_what_defines_it():
    study = comparison("digits", ("attention",), None, 1, "smoke", {}, arms=("matched", "spt", "regularised"))
    with pytest.raises(SpecError, match="--tune tries weight_decay, dropout, which make the arm regularised"):
        Request(study, "smoke", tune=True).experiment(forecast_planner("smoke"))
    Request(study, "smoke").experiment(forecast_planner("smoke"))


def test_a_zoo_without_any_data_says_what_to_get(monkeypatch, home):
    with pytest.raises(SpecError, match="nothing can be run"):
        ModernZoo("paper", 1).with_settings({"task.source": "lra"}).experiment("paper")
