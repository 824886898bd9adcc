"""An objective of other code that asks nothing, or about padding, is refused in one line before training."""

from dataclasses import replace

import pytest
import torch

import toys
from own_objectives import Mine
from selfpretrain.cli import app
from selfpretrain.config import spec
from selfpretrain.data.dataset import Batch
from selfpretrain.data.spec import Classes, Reals, SequenceSpec, Values
from selfpretrain.errors import SpecError
from selfpretrain.mixers.linear import Linear
from selfpretrain.objectives.base import Denoise, ObjectiveBatch, check_hidden, check_targets
from selfpretrain.objectives.regress import Regress
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network
from selfpretrain.training.train import TrainingData, train


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "nothing",
            "mine asks nothing in the first batch, of 4 sequences; ask at one position",
        ),
        ("padding", "mine: loss_mask is True at padding"),
        ("shown", "mine shows the network all that it asks for: masked is False wherever loss_mask is True"),
        ("vector", "return the sum over all answers as a tensor ()"),
        ("drawn", "mine: make_targets gives another masked each time; draw from its argument random alone"),
        ("", ""),
    ],
)
def test_a_comparison_with_faulty_targets_is_refused(fault, said, tmp_path, capsys):
    command = ["compare", "--task", "toys:Majority", "--mixers", "linear", "--arms", "matched,spt"]
    command += ["--objective", "own_objectives:Mine", "--scale", "smoke", "--seeds", "1"]
    settings = ["-s", f"pretrain.objective.fault={fault}", "-s", "pretrain.batch=4"]
    code = app.run([*command, *settings, "--quiet", "--runs", str(tmp_path)])
    assert code == (2 if said else 0)
    assert said in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "stages").exists() == (said == "")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("loss_mask", torch.ones(2, 3, dtype=torch.bool), "loss_mask is torch.bool of shape (2, 3), not"),
        ("masked", torch.ones(2, 24, dtype=torch.int64), "masked is torch.int64 of shape (2, 24), not"),
        ("size", 3, "size is 3; return the number of answers as a tensor"),
        ("size", torch.ones(2), "size is tensor([1., 1.]); return the number of answers"),
    ],
)
def test_masks_and_sizes_of_another_kind_are_named(name, value, said):
    task = toys.Majority(shortest=24)
    batch = task.load("train").batch(torch.arange(2))
    targets = Mine().make_targets(batch, task.form, torch.Generator())
    check_targets(Mine(), targets)
    object.__setattr__(targets, name, value)  # the constructor checks types in tests alone
    with pytest.raises(SpecError) as error:
        check_targets(Mine(), targets)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("nan", "mine: score is NaN in validation; return a number from its scores"),
        ("unscored", "mine: scores returns no score, only loss"),
    ],
)
def test_scores_that_are_no_numbers_are_refused(fault, said):
    task = toys.Majority()
    stage = Stage(Mine(fault=fault), Budget(steps=1), evals=1)
    recipe = Recipe(task, Model(Linear(), width=8, depth=1), (stage,), 0)
    data = TrainingData(task.form, task.load("train"), task.load("val"))
    with pytest.raises(SpecError, match=said):
        train(stage, build_network(recipe), data)


@spec
class MyRegress(Regress):
    """Regression as it ships, under another name."""


def test_r2_of_equal_targets_is_no_fault_of_an_objective_that_inherits_it():
    task = toys.Majority()
    form = replace(task.form, target=Reals("y"))
    train_set, val = task.load("train"), task.load("val")
    val = replace(val, targets=torch.full((len(val),), 3.0))
    stage = Stage(MyRegress(), Budget(steps=1), evals=1)
    recipe = Recipe(task, Model(Linear(), width=8, depth=1), (stage,), 0)
    head = stage.objective.head(form, 8, "mean")
    data = TrainingData(form, replace(train_set, targets=train_set.targets.float()), val)
    train(stage, recipe.model.build(form, head), data)


@spec
class Rises(Denoise):
    """An objective with labels of its own, and no distance of values."""

    def make_targets(self, batch, form, random):
        """Return whether each value is above its neighbour, asked everywhere."""
        real = batch.real()
        labels = batch.inputs > batch.inputs.roll(1, dims=1)
        return ObjectiveBatch(batch, labels, real.sum(), loss_mask=real)


def test_an_objective_with_labels_of_its_own_needs_no_distance():
    form = SequenceSpec(Values(), 6, Classes(("a", "b")))
    batch = Batch(torch.randn(2, 6, 1), None, torch.zeros(2, dtype=torch.long))
    check_hidden(Rises(), Rises().make_targets(batch, form, torch.Generator()), form)
