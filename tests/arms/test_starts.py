"""Arms that start from weights in closed form."""

import math
from dataclasses import replace

import pytest
import torch

import toys
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find
from selfpretrain.studies.arms.autocorrelation import DIAGONAL, Autocorrelation
from selfpretrain.studies.arms.mimetic import Mimetic
from selfpretrain.studies.arms.probe import HeadAlone
from selfpretrain.studies.recipes.defaults import small_arms
from selfpretrain.training.recipe import build_network
from selfpretrain.training.transfer import freeze

TASK = toys.Majority(length=16, shortest=16, examples=120, signal="values")


def arms_with(name):
    return small_arms(TASK, find("mixers", name)(), Masked(0.3))


@pytest.mark.parametrize(
    ("arm", "mixer", "said"),
    [
        (Mimetic(), "s4d", "a mimetic start is one of attention or Mamba, not of s4d"),
        (Mimetic(), "gla", "a mimetic start is one of attention or Mamba, not of gla"),
        (Autocorrelation(), "attention", "one of diagonal state space models, not of attention"),
        (Autocorrelation(), "s4", "one of diagonal state space models, not of s4"),
    ],
)
def test_mixers_without_such_a_start_are_refused(arm, mixer, said):
    assert said in arm.refusal(TASK, arms_with(mixer))


@pytest.mark.parametrize("mixer", ["attention", "mamba", "mamba2"])
def test_a_mimetic_start_is_a_setting_of_the_mixer(mixer):
    arms = arms_with(mixer)
    assert Mimetic().refusal(TASK, arms) == ""
    model = Mimetic().recipe(TASK, arms).model
    assert model == replace(arms.scratch_model, mixer=replace(arms.scratch_model.mixer, start="mimetic"))


@pytest.mark.parametrize("kind", DIAGONAL)
def test_steps_follow_the_autocorrelation_and_nothing_is_damped(kind):
    arms = small_arms(TASK, kind(states=8), Masked(0.3))
    mixer = Autocorrelation().recipe(TASK, arms).model.mixer
    # Sequences of a share of ones that is uniform in [0, 1]: R is 1 on the diagonal and 1/3 elsewhere.
    power = 1 + (TASK.length - 1) / 3
    assert mixer.shortest == mixer.longest == pytest.approx(1 / math.sqrt(TASK.length * power), rel=0.1)
    parameters = dict(mixer.build(LayerContext(8, 16)).named_parameters())
    (log_dt,) = {x for name, values in parameters.items() if "log_dt" in name for x in values.tolist()}
    assert log_dt == pytest.approx(math.log(mixer.shortest))
    decays = torch.cat([x.exp().flatten() for name, x in parameters.items() if "log_decay" in name])
    torch.testing.assert_close(decays, torch.full_like(decays, 1e-3))


def test_the_range_of_steps_is_around_the_one_of_the_autocorrelation():
    arms = arms_with("s4d")
    one, wide = (Autocorrelation(range=x).recipe(TASK, arms).model.mixer for x in (1, 100))
    assert wide.shortest == pytest.approx(one.shortest / 10, rel=0.01)
    assert wide.longest == pytest.approx(one.shortest * 10, rel=0.01)


def test_the_start_reads_inputs_of_training_alone(monkeypatch):
    arms = arms_with("s4d")
    read = []
    load = toys.Majority.load

    def without_labels(task, split):
        read.append(split)
        examples = load(task, split)
        return replace(examples, targets=torch.zeros_like(examples.targets))

    before = Autocorrelation().recipe(TASK, arms).model
    monkeypatch.setattr(toys.Majority, "load", without_labels)
    assert Autocorrelation().recipe(TASK, arms).model == before
    assert {*read} == {"train"}


def test_the_rate_of_a_head_alone_does_not_rise_again():
    """Its budget is longer than that of finetuning, for which a paper prints the end of the cosine."""
    arms = arms_with("attention").with_setting("finetune.optim.cosine_steps", "10")
    assert HeadAlone().recipe(TASK, arms).last.optim.cosine_steps is None


def test_a_head_alone_is_trained_without_muon():
    """Which is for matrices below the head."""
    task = toys.Majority()
    arms = small_arms(task, Attention(2), Masked(0.3)).with_setting("finetune.optim.optimizer", '"muon"')
    recipe = HeadAlone().recipe(task, arms)
    network = build_network(recipe)
    freeze(network, recipe.last.freeze)
    groups = recipe.last.optim.build(network, {}).param_groups
    assert {id(p) for group in groups for p in group["params"]} == {id(p) for p in network.head.parameters()}
