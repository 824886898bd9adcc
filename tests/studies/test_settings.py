"""What a task brings along for the small scale: settings, a way of denoising, a masking rate."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

import toys
from selfpretrain import registry
from selfpretrain.api import comparison, find_study, resolve_settings
from selfpretrain.config import spec
from selfpretrain.errors import UnknownName
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4d import S4D
from selfpretrain.mixers.wavegan import WaveGAN
from selfpretrain.objectives.masked import Masked
from selfpretrain.runner.workspace import Workspace
from selfpretrain.studies.recipes.defaults import denoising_objective, small_arms
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


def test_networks_of_their_own_keep_their_shape():
    task = Suited(train=160, val=80, test=80)
    assert small_arms(task, WaveGAN(), Masked()).model.width == 64


@pytest.mark.parametrize("name", registry.names("tasks"))
def test_the_settings_of_every_task_exist(name):
    kind = registry.find("tasks", name)
    task = kind().tiny()
    for mixer in (Attention(), S4D()):
        small_arms(task, mixer, denoising_objective(task, kind.denoising))


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


def test_tables_that_have_kept_results_are_computed_as_those_were():
    small = find_study("amos-table-8", "small", 1, GPU)
    assert small == registry.find("studies", "amos-table-8").at_scale("small", 1)
    half = find_study("amos-table-8", "smoke", 1, GPU).with_precision("bf16")
    assert precisions(half) == {"bf16"}
    assert not half.changed
    assert precisions(half.with_settings({"stage.precision": "fp32"})) == {"fp32"}
    assert find_study("amos-table-8", "paper", 1, GPU).precision == "bf16"
