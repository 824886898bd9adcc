"""Ensembles: networks that do not influence each other, and one answer of all of them."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import several
import toys
from selfpretrain.api import Request, comparison, run_request
from selfpretrain.data.dataset import generator
from selfpretrain.estimators.models import load_arm
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.base import objective_for
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.augmented import Augmented
from selfpretrain.objectives.common.averaged import Averaged, mean_prediction
from selfpretrain.runner.workspace import Workspace
from selfpretrain.tasks.common.augmentations import ReverseComplement
from selfpretrain.tasks.state_tracking import StateTracking
from selfpretrain.training.cost import plan
from selfpretrain.training.ensemble import EnsembleModel
from selfpretrain.training.evaluate import evaluate
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network, training_data
from selfpretrain.training.train import TrainingData
from selfpretrain.training.train import train as train_network

TASK = toys.Majority()
STAGE = Stage(
    Averaged(Classify(), 3), Budget(steps=5), Optim(lr=0.05, weight_decay=0.1, clip=0.1), 8, evals=1
)
MODEL = EnsembleModel(Attention(2), 8, 1, members=3)


@pytest.mark.parametrize("target", ["classes", "sets", "reals"])
def test_the_answer_is_the_mean_of_the_probabilities_or_values(target):
    kind = objective_for(several.majority(target).form.target).target_type
    outputs = 3 * torch.randn(4, 50, 2, generator=generator("outputs")).double()
    found = mean_prediction(outputs, kind)
    if target == "classes":
        assert torch.allclose(found.softmax(-1), outputs.softmax(-1).mean(0))
    elif target == "sets":
        assert torch.allclose(found.sigmoid(), outputs.sigmoid().mean(0))
    else:
        assert torch.allclose(found, outputs.mean(0))


def test_augmented_numbers_are_averaged_as_numbers():
    regress = objective_for(several.majority("reals").form.target)
    augmented = Augmented(regress(), ReverseComplement((1, 0)))
    outputs = torch.tensor([[[1.0]], [[4.0]]])
    assert mean_prediction(outputs, augmented.target_type).item() == 2.5


def test_extreme_outputs_are_averaged_without_overflow():
    outputs = torch.tensor([[[1e4, -1e4]], [[-1e4, 1e4]]])
    for kind in (Classify.target_type, objective_for(several.majority("sets").form.target).target_type):
        assert mean_prediction(outputs, kind).isfinite().all()


def test_a_member_trains_as_it_would_alone(tmp_path):
    """Also where gradients are clipped: by the norm of one network, not of all."""
    recipe = Recipe(TASK, MODEL, (STAGE,))
    together = build_network(recipe)
    starts = [{k: v.clone() for k, v in each.state_dict().items()} for each in together.networks()]
    assert not torch.equal(*(start["head.linear.weight"] for start in starts[:2]))
    train(recipe, together)
    alone = Recipe(TASK, Model(Attention(2), 8, 1), (Stage(Classify(), *list(vars(STAGE).values())[1:]),))
    for start, member in zip(starts, together.networks(), strict=True):
        network = build_network(alone)
        network.load_state_dict(start)
        train(alone, network)
        for name, weight in member.state_dict().items():
            assert torch.allclose(weight, network.state_dict()[name], atol=1e-6), name
            assert not torch.equal(weight, start[name]) or name == "embed.mask_token"


def train(recipe, network):
    data = training_data(recipe)
    for each in network.networks():
        each.embed.mask_token.requires_grad_(False)
    stage = replace(recipe.last, select="last")
    train_network(replace(stage, budget=Budget(steps=5)), network, TrainingData(TASK.form, data, data))


@pytest.mark.parametrize("freeze", [(), ("blocks.*", "embed.*", "norm.*")], ids=["all", "heads"])
@pytest.mark.parametrize("task", [TASK, StateTracking()], ids=["sequences", "positions"])
def test_an_ensemble_costs_what_its_members_cost(task, freeze):
    alone = Model(Attention(2), 8, 1)
    objective = objective_for(task.form.target)()
    stage = replace(STAGE, objective=objective, freeze=freeze)
    together = replace(stage, objective=Averaged(objective, 3))
    one = plan(Recipe(task, alone, (stage,)))
    assert plan(Recipe(task, MODEL, (together,))).flops == pytest.approx(3 * one.flops)


def test_scores_are_those_of_the_one_answer():
    network = build_network(Recipe(TASK, MODEL, (STAGE,))).eval()
    data = TASK.load("test")
    found = evaluate(network, STAGE.objective, data, TASK.form)
    batch = data.batch(torch.arange(len(data)))
    with torch.no_grad():
        each = [member(batch.inputs, batch.padding_mask).softmax(1) for member in network.networks()]
    mean = torch.stack(each).mean(0)
    assert torch.equal(found.predictions.long(), mean.argmax(1))
    torch.testing.assert_close(found.confidence, mean.amax(1).double(), rtol=1e-4, atol=1e-5)
    assert found.scores["accuracy"] == pytest.approx(float((mean.argmax(1) == batch.targets).double().mean()))
    expected = nn.functional.nll_loss(mean.log(), batch.targets).item()
    assert found.scores["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_an_ensemble_of_a_comparison_predicts_as_it_was_scored(tmp_path):
    workspace = Workspace(tmp_path, quiet=True)
    study = comparison(TASK, (Attention(2),), None, 1, "smoke", {}, arms=("matched", "ensemble"))
    results = run_request(Request(study, "smoke"), workspace)
    column = "scratch (matched), ensemble"
    (cell,) = (cell for cell in results.tasks[0].cells if cell.column == column)
    model = load_arm(results.folder, ("", "attention", column, 0), trust=("toys",))
    assert len(model.predictor_.networks) == model.n_members > 1
    data = TASK.load("test")
    found = model.predictor_.probabilities(data)
    assert float((found.argmax(1) == data.targets.numpy()).mean()) == pytest.approx(cell.score)
    assert (found.argmax(1) == cell.scored.predictions.prediction).all()
