"""A stage is run in the first way that fits, and no way changes a number; what fits in no way is refused."""

from dataclasses import replace

import pytest

import toys
from selfpretrain.config import spec
from selfpretrain.errors import DoesNotFit
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.common.hf_model import HfModel
from selfpretrain.mixers.common.own_network import mixer_of
from selfpretrain.mixers.mega import Mega
from selfpretrain.objectives.common.augmented import Augmented
from selfpretrain.objectives.masked import Masked
from selfpretrain.training import memory
from selfpretrain.training.memory import fit_stage, saved_memory
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage
from selfpretrain.training.trace import Untraceable, trace_step

STAGE = Stage(Masked(), Budget(steps=1), batch=24)


def recipe(mixer=None, stage=STAGE, **model):
    return Recipe(toys.Majority(), Model(mixer or Attention(heads=2), **model), (stage,))


@pytest.fixture
def takes(monkeypatch):
    """Let a step take 100 GB, half of it with recomputed activations, and a share of it in micro-batches."""

    def gigabytes(recipe, stage, again, parts, *how):
        return stage.batch / 24 * (50.0 if again else 100.0) / parts

    monkeypatch.setattr(memory, "_gigabytes", gigabytes)


@pytest.mark.parametrize(
    ("gigabytes", "way"),
    [(100.0, (False, 1)), (99.0, (True, 1)), (50.0, (True, 1)), (49.0, (True, 2)), (7.0, (True, 8))],
)
def test_a_stage_saves_as_much_memory_as_it_must(takes, gigabytes, way):
    fit = fit_stage(recipe(), gigabytes)
    assert (fit.activation_checkpointing, fit.grad_accumulation) == way
    run = fit.applied_to(STAGE)
    assert replace(run, activation_checkpointing=False, grad_accumulation=1) == STAGE


def test_processes_share_a_batch_and_settings_of_the_recipe_stay(takes):
    assert fit_stage(recipe(), 25.0, processes=4) == memory.Fit(False, 1, 25.0)
    given = replace(STAGE, activation_checkpointing=True, grad_accumulation=2)
    fit = fit_stage(recipe(stage=given), 13.0)
    assert saved_memory(given, fit.applied_to(given)) == "4 micro-batches"
    assert saved_memory(given, given) == ""


@pytest.mark.parametrize(
    "model", [{"norm": "batch"}, {"dropout": 0.1}, {"mixer": Mega(dropout=0.1)}], ids=str
)
def test_examples_that_depend_on_others_or_on_random_numbers_stay_in_one_batch(takes, model):
    assert fit_stage(recipe(**model), 50.0).activation_checkpointing
    said = r"takes 100.0 GB, 50.0 GB with recomputed activations, the GPU has 49.0 GB; use a larger GPU"
    with pytest.raises(DoesNotFit, match=said):
        fit_stage(recipe(**model), 49.0)


def test_no_more_micro_batches_are_tried_than_are_allowed(takes, monkeypatch):
    monkeypatch.setattr(memory, "MOST_PARTS", 4)
    assert fit_stage(recipe(), 12.5).grad_accumulation == 4
    with pytest.raises(DoesNotFit, match=r"12.5 GB with recomputed activations and 4 micro-batches"):
        fit_stage(recipe(), 12.0)


def test_what_takes_too_much_in_any_way_is_refused(takes):
    with pytest.raises(DoesNotFit, match=r"6.2 GB with recomputed activations and 8 micro-batches"):
        fit_stage(recipe(), 6.0)


def test_a_traced_step_takes_less_in_each_way():
    large = recipe(stage=replace(STAGE, batch=1 << 14), width=64, depth=3)
    how = (24, True, trace_step)
    sizes = [
        memory._gigabytes(large, large.last, *way, *how) for way in memory._ways(large, large.last, *how)
    ]
    assert sizes[0] > 1.5 * sizes[1] and sizes[1] > 1.3 * sizes[2]
    assert sizes == sorted(sizes, reverse=True)


@spec
class OwnMasked(Masked):
    """An objective of a user: who knows whether its loss depends on other examples?"""


@pytest.mark.parametrize(
    "made",
    [
        recipe(mixer_of("own_networks:Conv")()),
        recipe(toys.Careless()),
        recipe(HfModel("attention", "{}")),
        recipe(stage=replace(STAGE, objective=OwnMasked())),
    ],
    ids=["layer", "mixer", "transformers", "objective"],
)
def test_code_of_others_is_run_as_it_is_or_refused(takes, made):
    assert fit_stage(made, 100.0).applied_to(made.last) == made.last
    said = (
        "takes 100.0 GB, the GPU has 99.0 GB; recompute activations .-s stage.activation_checkpointing=true"
    )
    with pytest.raises(DoesNotFit, match=said):
        fit_stage(made, 99.0)
    chosen = replace(made.last, activation_checkpointing=True)
    assert fit_stage(replace(made, stages=(chosen,)), 50.0).applied_to(chosen) == chosen


def test_an_augmentation_of_others_changes_data_alone(takes):
    made = recipe(stage=replace(STAGE, objective=Augmented(Masked(), toys.Reversal())))
    assert fit_stage(made, 50.0).activation_checkpointing


def test_a_network_that_cannot_be_traced_has_no_fit():
    made = recipe(mixer_of("own_networks:NeedsNumbers")())
    with pytest.raises(Untraceable, match="ValueError: only numbers can be sorted"):
        fit_stage(made, 100.0)
