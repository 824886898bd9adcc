"""Labels and denoising at once."""

import pytest
import torch

import toys
from selfpretrain.config import from_dict, to_dict
from selfpretrain.data.dataset import generator
from selfpretrain.mixers.attention import Attention
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.masked import Masked
from selfpretrain.training.model import Model


@pytest.fixture
def made():
    task = toys.Majority()
    objective = Joint(Classify(), Masked(0.5), 0.25)
    torch.manual_seed(0)
    network = Model(Attention(2), 8, 1).build(task.form, objective.head(task.form, 8, "mean"))
    return objective, task.form, network, task.load("train").batch(torch.arange(6))


def run(network, targets):
    return network(targets.batch.inputs, targets.batch.padding_mask, targets.masked, targets.loss_mask)


def test_the_loss_is_the_sum_of_both(made):
    objective, form, network, batch = made
    targets = objective.make_targets(batch, form, generator(1))
    whole = objective.loss(run(network, targets), targets, form)
    x = network.features(batch.inputs, batch.padding_mask, targets.masked)
    masked = objective.denoise.make_targets(batch, form, generator(1))
    rebuilt = objective.denoise.loss(
        network.head.rebuild(x, batch.padding_mask, masked.loss_mask), masked, form
    )
    asked = objective.labels.make_targets(batch, form, generator(1))
    answered = objective.labels.loss(network.head.labels(x, batch.padding_mask), asked, form)
    torch.testing.assert_close(whole, answered + 0.25 * 6 * rebuilt / masked.size)
    assert int(targets.size) == 6
    whole.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.head.parameters())
    assert from_dict(to_dict(objective)) == objective


def test_nothing_is_hidden_where_nothing_is_trained(made):
    objective, form, network, batch = made
    with torch.no_grad():
        targets = objective.make_targets(batch, form, generator(1))
        outputs = run(network, targets)
    assert targets.masked is None and outputs.shape == (6, 2)
    sums = objective.metric_sums(outputs, targets, form)
    assert sums == objective.labels.metric_sums(outputs, targets, form)
    assert objective.predict(outputs).shape == (6,)
