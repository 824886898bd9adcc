"""Objectives in latent space: what they must not see, what collapses, and what the slow average does."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

import toys
from selfpretrain.data.dataset import generator
from selfpretrain.data.spec import SequenceSpec, Tokens
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.bigbird import BigBird
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.common.joint import Joint
from selfpretrain.objectives.contrastive import Contrastive
from selfpretrain.objectives.latent import COLLAPSED, SLICES, Latent, partners, sigreg
from selfpretrain.objectives.masked import Masked
from selfpretrain.studies.arms.joint import JointTraining
from selfpretrain.studies.recipes.defaults import small_arms
from selfpretrain.training.model import Model
from selfpretrain.training.optim import Optim
from selfpretrain.training.recipe import Budget, Recipe, Stage, build_network
from selfpretrain.training.train import TrainingData, train
from selfpretrain.training.transfer import EVERYTHING_BUT_THE_HEAD, Transfer, transfer_weights

WIDTH = 8
KINDS = [
    Latent(positions, target, guard)
    for positions, target, guard in itertools.product(
        ("next", "masked"), ("embedding", "features", "average"), ("stop-gradient", "sigreg")
    )
    if (target, guard) != ("average", "sigreg")
]
every_kind = pytest.mark.parametrize("objective", [*KINDS, Contrastive()], ids=str)


def network(objective, task, positions="learned"):
    model = Model(Attention(2), WIDTH, 1, causal=objective.needs_causal, positions=positions)
    return build_network(Recipe(task, model, (Stage(objective, Budget(steps=1)),)))


@every_kind
@pytest.mark.parametrize("signal", ["tokens", "values"])
def test_predictions_do_not_depend_on_what_they_predict(objective, signal):
    """Changed inputs: the masked ones, or the last of every sequence."""
    task = toys.Majority(signal=signal)
    net, batch = network(objective, task).eval(), task.load("train").batch(torch.arange(8))
    targets = objective.make_targets(batch, task.form, generator("test"))
    wanted = targets.loss_mask
    if objective.needs_causal:
        end = wanted & ~wanted.roll(-1, 1)
        wanted = end.roll(1, 1)
    wanted = wanted.view(*wanted.shape, *[1] * (batch.inputs.ndim - 2))
    other = replace(batch, inputs=torch.where(wanted, 1 - batch.inputs, batch.inputs))
    changed = objective.make_targets(other, task.form, generator("test"))
    seen = []
    net.head.linear.register_forward_hook(lambda module, args, out: seen.append(out))
    before, after = (net(*each.network_inputs()) for each in (targets, changed))
    first, second = (out[targets.loss_mask] if out.ndim == 3 else out for out in seen)
    torch.testing.assert_close(first, second)
    assert not torch.allclose(before, after)


@every_kind
def test_a_validation_has_a_score_and_says_whether_targets_collapsed(objective):
    task = toys.Majority(length=12, shortest=12)
    stage = Stage(objective, Budget(steps=6), Optim(lr=1e-2), 32, evals=2, select="last")
    net, data = network(objective, task), task.load("train")
    logged = []
    train(
        stage,
        net,
        TrainingData(task.form, data, data),
        log=lambda kind, progress, numbers: logged.append(numbers) if kind == "val" else None,
    )
    assert len(logged) == 2
    assert all(math.isfinite(each["score"]) for each in logged)
    if isinstance(objective, Latent):
        assert all(each["collapsed"] == (each["spread"] < COLLAPSED) for each in logged)
        assert all(each["rank"] >= 0.99 for each in logged)


def test_collapse_is_found_and_called_so():
    objective, task = Latent(), toys.Majority()
    targets = objective.make_targets(task.load("train").batch(torch.arange(8)), task.form, generator("test"))
    count = int(targets.size)
    predictions, alike = torch.randn(count, WIDTH), torch.ones(count, WIDTH)
    directions = torch.eye(4).repeat(count // 4 + 1, 2)[torch.randperm(count)]
    for target, collapsed in ((alike + 1e-3 * torch.randn_like(alike), 1.0), (directions, 0.0)):
        sums = objective.metric_sums(torch.cat([predictions, target], 1), targets, task.form)
        found = objective.scores({name: float(value) for name, value in sums.items()})
        assert found["collapsed"] == collapsed
        assert found["rank"] == pytest.approx(1.0 if collapsed else 4.0, rel=0.3)
        right = objective.metric_sums(torch.cat([target, target], 1), targets, task.form)
        assert objective.scores({name: float(value) for name, value in right.items()})[
            "score"
        ] == pytest.approx(1.0, abs=0.1)


def test_pairs_are_of_one_sequence():
    wanted = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 1]]).bool()
    partner, other = partners(wanted)
    assert partner.tolist() == [2, 3, 0, 1, 4, 6, 5]
    assert other.tolist() == [True] * 4 + [False] + [True] * 2


def test_without_a_guard_the_targets_would_collapse_and_with_either_they_do_not():
    """Both guards are there for a reason: gradients into targets alone make them equal."""
    task = toys.Words(length=8, shortest=8, examples=64, vocab=50)
    spreads = {}
    for objective in (Latent(), Latent(guard="sigreg"), Latent(guard="sigreg", weight=1e-9)):
        stage = Stage(objective, Budget(steps=100), Optim(lr=3e-2), 32, evals=1, select="last")
        net, data = network(objective, task), task.load("train")
        spreads[objective] = train(stage, net, TrainingData(task.form, data, data)).scores["spread"]
    guarded, regular, unguarded = spreads.values()
    assert unguarded < 0.1 < min(guarded, regular)


def test_sigreg_is_least_for_a_normal_distribution():
    random = generator("sigreg")
    normal = torch.randn(4000, 1, generator=random)
    size = torch.tensor(4000)
    least = float(sigreg(normal, size))
    others = (torch.zeros_like(normal), 2 * normal, normal.sign(), normal + 1)
    assert least < 1e-3
    assert min(float(sigreg(other, size)) for other in others) > 1e-2
    # All at 0: int over [-3, 3] of (1 - exp(-s^2 / 2))^2 exp(-s^2 / 2).
    s = torch.linspace(-3, 3, 100_001)
    expected = torch.trapezoid((1 - torch.exp(-(s**2) / 2)) ** 2 * torch.exp(-(s**2) / 2), s)
    assert float(sigreg(torch.zeros(9, SLICES), torch.tensor(9))) == pytest.approx(float(expected), rel=0.02)


def test_the_average_follows_slowly_and_is_not_trained():
    objective, task = Latent("masked", "average", decay=0.5), toys.Majority()
    net, data = network(objective, task), task.load("train")
    before = {name: value.clone() for name, value in net.state_dict().items()}
    average = net.head.average
    assert torch.equal(average.embed.mask_token, net.embed.mask_token)
    stage = Stage(objective, Budget(steps=1), Optim(lr=0.1), 8, evals=1, select="last")
    train(stage, net, TrainingData(task.form, data, data))
    assert not average.training
    for name, value in average.state_dict().items():
        expected = (before[name] + net.state_dict()[name]) / 2
        torch.testing.assert_close(value, expected, msg=name)
        assert value.requires_grad is False
    assert not torch.equal(average.embed.symbol.weight, before["embed.symbol.weight"])


def test_the_average_starts_from_the_weights_that_were_moved():
    objective, task = Latent("masked", "average"), toys.Majority()
    source = network(Masked(), task).state_dict()
    source = {name: value + 1 for name, value in source.items()}
    net = network(objective, task)
    transfer_weights(source, net, EVERYTHING_BUT_THE_HEAD)
    average = net.head.average
    assert not average.training
    for name, value in average.state_dict().items():
        assert torch.equal(value, source[name]), name
    assert not any(weight.requires_grad for weight in average.parameters())
    other = network(objective, task)
    average.embed.mask_token += 1
    transfer_weights(net.state_dict(), other, Transfer(fresh=()))
    assert torch.equal(other.head.average.embed.mask_token, average.embed.mask_token)


def test_an_average_copies_patterns_of_sparse_attention_only_if_they_changed():
    objective, task = Latent("masked", "average"), toys.Majority()
    recipe = Recipe(task, Model(BigBird(heads=2), 8, 1), (Stage(objective, Budget(steps=1)),))
    net = build_network(recipe)
    average = net.head.average
    (ours,), (theirs,) = (
        [x for x in each.buffers() if x.dtype == torch.bool] for each in (net.blocks, average.blocks)
    )
    net.head.follow(net)
    version = theirs._version
    net.head.follow(net)
    assert theirs._version == version
    ours.copy_(~ours)  # as a transfer of weights does
    net.head.follow(net)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("objective", KINDS, ids=str)
def test_gradients_reach_targets_only_where_nothing_stops_them(objective):
    task = toys.Majority()
    net, batch = network(objective, task), task.load("train").batch(torch.arange(8))
    targets = objective.make_targets(batch, task.form, generator("test"))
    outputs = net(*targets.network_inputs())
    (gradient,) = torch.autograd.grad(
        outputs[:, WIDTH : 2 * WIDTH].sum(), net.embed.symbol.weight, allow_unused=True
    )
    reached = gradient is not None and bool(gradient.abs().sum() > 0)
    assert reached == (objective.guard == "sigreg")


def test_settings_that_do_not_go_together_are_refused():
    task = toys.Majority()
    with pytest.raises(ValidationError, match=r"a slow average has no gradient .* use guard=stop-gradient"):
        Latent(target="average", guard="sigreg")
    model = Model(Attention(2), WIDTH, 1, causal=True)
    with pytest.raises(ValidationError, match="sees the whole batch: leave out grad_accumulation"):
        Recipe(task, model, (Stage(Latent(guard="sigreg"), Budget(steps=1), grad_accumulation=2),))
    with pytest.raises(SpecError, match="labels and latent targets at once"):
        Joint(Classify(), Latent()).head(task.form, WIDTH, "mean")
    assert "latent targets at once" in JointTraining().refusal(task, small_arms(task, Attention(2), Latent()))


def test_candidates_are_other_real_inputs_of_the_sequence():
    """Of four symbols, each has three others to compete with, wherever padding ends."""
    form = SequenceSpec(Tokens(4), 12, toys.Majority().form.target)
    task = toys.Words(length=12, shortest=4, examples=40, vocab=4)
    objective = Contrastive(candidates=12)
    net = network(objective, task).eval()
    batch = task.load("train").batch(torch.arange(16))
    targets = objective.make_targets(batch, form, generator("test"))
    logits = net(*targets.network_inputs())
    rows = targets.loss_mask.nonzero().tolist()
    assert len(rows) == len(logits)
    for (b, t), row in zip(rows, logits, strict=True):
        length = int(batch.real()[b].sum())
        others = batch.inputs[b, torch.arange(12) * length // 12] != batch.inputs[b, t + 1]
        assert row[1:].isfinite().tolist() == others.tolist()
        assert row[0].isfinite()
