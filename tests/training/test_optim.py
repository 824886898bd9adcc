"""Optimizers and averages of weights: what they do to weights, apart from the loop that they are part of."""

import copy

import pytest
import torch

import toys
from selfpretrain.config import to_dict
from selfpretrain.data.dataset import generator
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.hyena import Hyena
from selfpretrain.mixers.resnet import ResNet
from selfpretrain.mixers.s4d import S4D
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.averaged import Averaged
from selfpretrain.objectives.common.latent import move_average
from selfpretrain.objectives.masked import Masked
from selfpretrain.studies.arms.muon import MuonScratch
from selfpretrain.studies.recipes.defaults import small_arms
from selfpretrain.training.ensemble import EnsembleModel
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim, hidden_matrices
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network, training_data
from selfpretrain.training.train import TrainingData, train

TASK = toys.Majority()
STEPS = 6


def stage(**settings):
    return Stage(Classify(), Budget(steps=STEPS), batch=8, evals=STEPS, **settings)


def network(mixer=None):
    return build_network(Recipe(TASK, Model(mixer or Attention(2), 8, 1), (stage(),)))


def gradients(net):
    """Give every parameter a gradient, the same for equal networks."""
    random = generator("gradients")
    for parameter in net.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random)


def test_muon_updates_matrices_as_torch_does_and_all_else_as_adamw_does():
    ours, theirs = network(), network()
    optimizer = Optim(lr=1e-2, weight_decay=0.1, optimizer="muon").build(ours, {})
    names = {
        name for name, p in ours.named_parameters() if any(p is each for each in hidden_matrices(ours, {}))
    }
    assert names == {f"blocks.0.mixer.{x}.weight" for x in ("q", "k", "v", "out")} | {
        f"blocks.0.mlp.{x}.weight" for x in ("up", "down")
    }
    muon = torch.optim.Muon(
        [p for n, p in theirs.named_parameters() if n in names], 1e-2, 0.1, adjust_lr_fn="match_rms_adamw"
    )
    rest = copy.deepcopy(theirs)
    adamw = Optim(lr=1e-2, weight_decay=0.1).build(rest, {})
    for _ in range(3):
        for net, its in ((ours, optimizer), (theirs, muon), (rest, adamw)):
            gradients(net)
            its.step()
    for name, parameter in ours.named_parameters():
        other = (theirs if name in names else rest).get_parameter(name)
        assert torch.equal(parameter, other), name


def test_slow_parameters_of_a_mixer_stay_with_adamw():
    net = network(S4D(states=4))
    groups = Optim(lr=1e-2, optimizer="muon").build(net, S4D().slow()).param_groups
    (rate,) = (
        group["lr"] for group in groups if any(p is net.blocks[0].mixer.log_dt for p in group["params"])
    )
    assert rate == 1e-3


def test_slow_matrices_of_a_mixer_stay_with_adamw_without_decay():
    net, slow = network(Hyena()), Hyena().slow()
    kernels = {id(p) for p in net.blocks[0].mixer.kernels.parameters()}
    matrices = hidden_matrices(net, slow)
    assert any(matrix is net.blocks[0].mixer.out.weight for matrix in matrices)
    assert kernels and not kernels & {id(p) for p in matrices}
    optim = Optim(lr=1e-2, weight_decay=0.1, optimizer="muon")
    groups = [g for g in optim.build(net, slow).param_groups if kernels & {id(p) for p in g["params"]}]
    assert [(g["lr"], g["weight_decay"], "momentum" in g) for g in groups] == [(1e-3, 0.0, False)]
    assert 0 < optim.flops(net, slow) < optim.flops(net, {})


def test_muon_without_matrices_is_refused_in_one_line():
    with pytest.raises(SpecError, match="no linear layer that is trained; use optimizer=adamw"):
        Optim(optimizer="muon").build(torch.nn.Sequential(torch.nn.Linear(2, 2)), {})
    arms = small_arms(TASK, ResNet(), Masked(0.3)).with_setting("model.expand", "0")
    assert "no linear layer" in MuonScratch().refusal(TASK, arms)
    assert not MuonScratch().refusal(TASK, small_arms(TASK, Attention(2), Masked(0.3)))


def trained(select, average, model=None, objective=None):
    """The weights after every step of a stage, and what it returns."""
    chosen = stage(average=average, select=select, optim=Optim(lr=0.05))
    recipe = Recipe(TASK, model or Model(Attention(2), 8, 1), (chosen,))
    net, data = build_network(recipe), training_data(recipe)
    net.get_parameter("embed.mask_token").requires_grad_(False)
    seen = [copy.deepcopy(net.state_dict())]
    hook = net.register_forward_pre_hook(
        lambda *_: seen.append(copy.deepcopy(net.state_dict())) if net.training else None
    )
    train(chosen, net, TrainingData(TASK.form, data, data))
    hook.remove()
    return seen[1:], net.state_dict()


def test_the_average_is_what_is_kept():
    steps, kept = trained("last", 0.5)
    _, last = trained("last", 0.0)
    expected = steps[0]
    for k, weights in enumerate([*steps[1:], last], start=1):
        decay = min(0.5, (1 + k) / (10 + k))
        expected = {n: decay * a + (1 - decay) * weights[n] for n, a in expected.items()}
    for name, weight in kept.items():
        torch.testing.assert_close(weight, expected[name], msg=name)
    assert not torch.equal(kept["head.linear.weight"], last["head.linear.weight"])


def test_complex_weights_are_trained_and_averaged():
    network = torch.nn.Module()
    network.turn = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    start = network.turn.detach().clone()
    optimizer = Optim(lr=0.1).build(network, {})
    network.turn.abs().sum().backward()
    optimizer.step()
    assert (network.turn.real < 0.95).all()
    average = {"turn": start.clone()}
    move_average(average, network.state_dict(), 0.25)
    torch.testing.assert_close(average["turn"], 0.75 * start + 0.25 * network.turn.detach())


def test_settings_that_are_not_used_are_not_part_of_a_recipe():
    assert not {"average", "optimizer"} & {*to_dict(stage()), *to_dict(stage().optim)}
    assert {"average"} < {*to_dict(stage(average=0.9))}


def test_an_ensemble_trains_with_muon_and_an_average():
    objective = Averaged(Classify(), 2)
    model = EnsembleModel(Attention(2), 8, 1, members=2)
    chosen = Stage(objective, Budget(steps=2), Optim(optimizer="muon"), 8, evals=1, average=0.9)
    net = build_network(Recipe(TASK, model, (chosen,)))
    data = TASK.load("train")
    assert train(chosen, net, TrainingData(TASK.form, data, data)).stopped == "budget"
