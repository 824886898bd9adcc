"""FLOPs of every objective agree with an independent count of many batches, also with few labels."""

import pytest

import toys
from flop_witness import counted_step
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.latent import Latent
from selfpretrain.objectives.masked import Masked
from selfpretrain.registry import find
from selfpretrain.training import cost
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage

DENOISING = (
    "masked",
    "causal",
    "spans",
    "diffusion",
    "replaced",
    "ngram-statistics",
    "latent",
    "contrastive",
)
LENGTHS = {"4": (4, 4), "8": (8, 8), "4 to 12": (4, 12)}
QUICK = {("masked", "4"), ("diffusion", "4 to 12")}
CASES = [
    pytest.param(name, lengths, marks=[pytest.mark.slow] * ((name, lengths) not in QUICK))
    for name in DENOISING
    for lengths in LENGTHS
]


def recipe(objective, lengths, vocab=2000, width=32, batch=64, examples=640, **task):
    shortest, longest = lengths
    toys.settle()
    words = toys.Words(length=longest, shortest=shortest, examples=examples, vocab=vocab, **task)
    model = Model(Attention(heads=2), width=width, depth=1, causal=objective.needs_causal)
    return Recipe(words, model, (Stage(objective, Budget(steps=10), batch=batch),))


@pytest.mark.parametrize(("name", "lengths"), CASES)
def test_a_denoising_step_costs_what_batches_cost_on_average(name, lengths):
    one = recipe(find("objectives", name)(), LENGTHS[lengths])
    assert cost.plan(one).flops_per_step == pytest.approx(counted_step(one, 400), rel=0.01)


@pytest.mark.parametrize(
    "objective",
    [
        Latent("masked", "average"),
        pytest.param(Latent("masked", "features", "sigreg"), marks=pytest.mark.slow),
        pytest.param(Latent("next", "average"), marks=pytest.mark.slow),
        pytest.param(Latent("next", "embedding", "sigreg"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_second_pass_for_the_targets_is_paid_for(objective):
    one = recipe(objective, LENGTHS["4 to 12"])
    assert cost.plan(one).flops_per_step == pytest.approx(counted_step(one, 400), rel=0.01)


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("lengths", [pytest.param("4", marks=pytest.mark.slow), "4 to 12"])
def test_a_joint_step_costs_the_same_where_labels_are_few(lengths, seed):
    """Two batches are an epoch, and seven examples are left out of each."""
    joint = Joint(Classify(), Masked(0.3))
    one = recipe(joint, LENGTHS[lengths], vocab=500, batch=8, labelled=23)
    one = Recipe(one.task, one.model, one.stages, seed)
    assert cost.plan(one).flops_per_step == pytest.approx(counted_step(one, 1000), rel=0.01)
