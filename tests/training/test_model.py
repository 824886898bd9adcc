"""The network: its settings, its groups of parameters, and weights that move from one stage to the next."""

import fnmatch
import itertools
import math

import pytest
import torch
from torch import nn

import toys
from selfpretrain.data.spec import Classes, SequenceSpec, Tokens, Values
from selfpretrain.errors import SpecError, TransferError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.s4d import S4D
from selfpretrain.objectives.causal import Causal
from selfpretrain.objectives.classify import Classify
from selfpretrain.objectives.masked import Masked
from selfpretrain.training.model import Model, sinusoids
from selfpretrain.training.optim import Optim
from selfpretrain.training.transfer import (
    EVERYTHING_BUT_THE_HEAD,
    QUERIES_AND_KEYS,
    Transfer,
    freeze,
    transfer_weights,
)

FORM = SequenceSpec(Tokens(vocab=5), 10, Classes(("a", "b", "c")))
GRAMMAR = ("embed.*", "blocks.*.mixer.*", "blocks.*.mlp.*", "blocks.*.norm[12].*", "norm.*", "head.*")
SETTINGS = {
    "norm": ("layer", "rms", "batch"),
    "placement": ("pre", "post"),
    "gated": (False, True),
    "positions": ("none", "sinusoidal", "learned", "rotary"),
    "pooling": ("mean", "max", "last"),
    "causal": (False, True),
}
COMBINATIONS = list(itertools.product(*SETTINGS.values()))[::13]
"""Every pair of settings is among them."""


def build(model, form=FORM, style="norm"):
    toys.settle()
    return model.build(form, Classify(style=style).head(form, model.width, model.pooling)).eval()


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda c: "-".join(map(str, c)))
def test_every_combination_ignores_padding(combination):
    net = build(Model(Attention(heads=2), 8, 1, 2, **dict(zip(SETTINGS, combination, strict=True))))
    x, padding_mask = torch.randint(5, (2, 9)), torch.ones(2, 9, dtype=torch.bool)
    padding_mask[0, 6:] = False
    other = torch.where(padding_mask, x, (x + 1) % 5)
    torch.testing.assert_close(net(x, padding_mask), net(other, padding_mask))
    torch.testing.assert_close(net(x, padding_mask)[:1], net(x[:1, :6]), atol=1e-5, rtol=1e-4)
    assert all(any(fnmatch.fnmatch(n, g) for g in GRAMMAR) for n, _ in net.named_parameters())


def test_batch_norm_leaves_padding_out_of_its_statistics():
    net = build(Model(Attention(heads=2), 8, 1, norm="batch")).train()
    x, padding_mask = torch.randint(5, (4, 9)), torch.rand(4, 9) < 0.7
    padding_mask[:, 0] = True
    other = torch.where(padding_mask, x, (x + 1) % 5)
    torch.testing.assert_close(net(x, padding_mask), net(other, padding_mask))


def test_a_frozen_batch_norm_keeps_its_statistics():
    """As in a head alone on pretrained features: these must not move while it is trained."""
    net = build(Model(Attention(heads=2), 8, 1, norm="batch")).train()
    x, padding_mask = torch.randint(5, (4, 9)), torch.ones(4, 9, dtype=torch.bool)
    net(x, padding_mask)
    freeze(net, ("blocks.*", "norm.*"))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    trained = net(x, padding_mask)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    torch.testing.assert_close(trained, net.eval()(x, padding_mask))


def test_networks_without_mlps_of_two_views_and_with_other_heads():
    assert not [n for n, _ in build(Model(S4D(states=4), 8, expand=0)).named_parameters() if ".mlp." in n]
    form = SequenceSpec(Tokens(vocab=5), 10, Classes(("a", "b", "c")), views=2)
    assert build(Model(Attention(heads=2), 8), form)(torch.randint(5, (6, 10))).shape == (3, 3)
    for style in ("linear", "norm", "mlp"):
        assert build(Model(Attention(heads=2), 8), style=style)(torch.randint(5, (6, 10))).shape == (6, 3)


def test_values_are_standardised():
    form = SequenceSpec(Values(2, centre=(3.0, -1.0), spread=(2.0, 0.5)), 7, Classes(("a", "b")))
    plain = SequenceSpec(Values(2, centre=(0.0, 0.0), spread=(1.0, 1.0)), 7, Classes(("a", "b")))
    x = torch.randn(2, 7, 2)
    scaled = x * torch.tensor([2.0, 0.5]) + torch.tensor([3.0, -1.0])
    model = Model(Attention(heads=2), 8)
    torch.testing.assert_close(build(model, form)(scaled), build(model, plain)(x))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Model(S4D(), positions="rotary"), "queries"),
        (Model(S4D(), width=7, positions="sinusoidal"), "even width"),
        (Model(Attention(heads=3), width=8), "heads"),
        (Model(Attention(heads=2), 8, positions="learned"), "positions for 10"),
    ],
)
def test_what_does_not_fit_is_refused(model, said):
    with pytest.raises(SpecError, match=said):
        build(model)(torch.randint(5, (1, 11)))


@pytest.mark.parametrize("mixer", [S4D(states=4), Attention(heads=2)])
def test_random_initialisation_is_of_everything(mixer):
    network = build(Model(mixer, 32, init="random"))
    parameters = torch.cat([p.detach().flatten() for p in network.parameters()])
    assert parameters.mean().abs() < 0.005
    assert parameters.std() == pytest.approx(0.1, rel=0.05)
    gains = [p for n, p in network.named_parameters() if n.endswith("norm.weight")]
    assert gains
    assert all(p.abs().max() < 0.6 for p in gains)


def test_sinusoids_are_the_formula():
    expected = [math.sin(3.0), math.cos(3.0), math.sin(0.03), math.cos(0.03)]
    torch.testing.assert_close(sinusoids(6, 4)[3], torch.tensor(expected))


@pytest.mark.parametrize("lr_dt", [1e-3, 5e-4, None])
def test_groups_of_the_optimizer(lr_dt):
    mixer = S4D(states=4, lr_dt=lr_dt)
    net = build(Model(mixer, 8, norm="layer"))
    optimizer = Optim(lr=1e-2, weight_decay=0.3).build(net, mixer.slow())
    of = {id(p): g for g in optimizer.param_groups for p in g["params"]}
    for name, parameter in net.named_parameters():
        group = of[id(parameter)]
        slow = any(name.endswith(s) for s in S4D.slow_parameters)
        highest = (lr_dt or 1e-2) if name.endswith("log_dt") else 1e-3
        assert group["lr"] == (highest if slow else 1e-2), name
        assert group["weight_decay"] == (0.0 if slow or parameter.ndim < 2 else 0.3), name
    assert len(of) == len(list(net.parameters()))


@pytest.mark.parametrize("schedule", ["cosine", "constant", "plateau"])
def test_course_of_the_learning_rate(schedule):
    optim = Optim(schedule=schedule, warmup=0.1, final=0.2)
    course = [optim.lr_factor(i / 100, i) for i in range(101)]
    assert course[0] == 0
    assert course[5] == pytest.approx(0.5)
    assert max(course) == pytest.approx(1, abs=1e-3)
    assert course[100] == pytest.approx(0.2 if schedule == "cosine" else 1.0)
    assert course[10:] == sorted(course[10:], reverse=True)


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_warm_up_in_steps_is_as_long_in_a_short_stage(schedule):
    optim = Optim(schedule=schedule, warmup_steps=20)
    short, long = ([optim.lr_factor(step / steps, step) for step in range(steps)] for steps in (100, 1000))
    assert short[:20] == long[:20] == [step / 20 for step in range(20)]
    share = Optim(schedule=schedule, warmup=0.2)
    assert short[20:] == pytest.approx([share.lr_factor(step / 100, step) for step in range(20, 100)])
    assert Optim(warmup_steps=20).lr_factor(1.0, 10) == 0.5


@pytest.mark.parametrize("objective", [Masked(), Causal(), Classify()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("channels", [0, 1, 3])
def test_embeddings_start_as_layers_of_torch(objective, channels):
    """The mask token is a row among symbols, and a column among values that some of are hidden."""
    signal = Values(channels) if channels else Tokens(vocab=50)
    task = SequenceSpec(signal, 10, FORM.target)
    model = Model(Attention(heads=2), width=512, depth=1, causal=True, init="torch")
    embed = model.build(task, objective.head(task, 512, "mean"), None, objective.masks_inputs).embed
    if not channels:
        assert embed.symbol.weight.std().item() == pytest.approx(1, rel=0.05)
        assert embed.mask_token.std().item() == pytest.approx(1, rel=0.2)
        return
    bound = (channels + isinstance(objective, Masked)) ** -0.5
    for weight in (embed.value.weight, embed.value.bias, embed.mask_token):
        assert 0.95 * bound < weight.abs().max() <= bound


def test_a_cosine_of_fixed_length_is_that_of_the_library_transformers():
    transformers = pytest.importorskip("transformers")
    weight = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = transformers.get_cosine_schedule_with_warmup(weight, 10, 50)
    for optim in (Optim(warmup_steps=10, cosine_steps=50), Optim(warmup=0.2, cosine_steps=50)):
        found = [optim.lr_factor(step / 120, step) for step in range(120)]
        assert found == pytest.approx([schedule.lr_lambdas[0](step) for step in range(120)], abs=1e-12)
        assert found[50] < 1e-12 and max(found[51:]) > 0.99, "after its end it rises again"


def network(objective, placement="pre"):
    form = toys.Majority().form
    model = Model(Attention(heads=2), width=8, placement=placement)
    return model.build(form, objective.head(form, 8, "mean"))


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_everything_but_the_head(placement):
    source, target = network(Masked(), placement).state_dict(), network(Classify(), placement)
    moved = transfer_weights(source, target, EVERYTHING_BUT_THE_HEAD)
    state = target.state_dict()
    assert all(torch.equal(state[name], source[name]) for name in moved.moved)
    assert all(name.startswith("head.") for name in (*moved.fresh, *moved.unused))
    assert set(moved.moved) | set(moved.fresh) == set(state)
    assert set(moved.moved) | set(moved.unused) == set(source)


def test_queries_and_keys_alone():
    moved = transfer_weights(network(Masked()).state_dict(), network(Classify()), QUERIES_AND_KEYS).moved
    kinds = ("q.weight", "q.bias", "k.weight", "k.bias")
    assert set(moved) == {f"blocks.{i}.mixer.{kind}" for i in range(2) for kind in kinds}


def test_mismatches_are_errors():
    a = {"x.weight": torch.zeros(2, 2)}
    b = nn.ModuleDict({"x": nn.Linear(3, 2)})
    with pytest.raises(TransferError, match="two shapes"):
        transfer_weights(a, b, Transfer(("x.weight",), ()))
    with pytest.raises(TransferError, match="not among"):
        transfer_weights(a, b, Transfer(("x.bias",), ()))
    with pytest.raises(TransferError, match="names nothing"):
        transfer_weights(a, b, Transfer(("y.*",), ()))


def test_freezing_by_name():
    net = network(Classify())
    freeze(net, ("blocks.*.mixer.*",))
    frozen = {name for name, p in net.named_parameters() if not p.requires_grad}
    assert frozen
    assert all(".mixer." in name for name in frozen)
    with pytest.raises(TransferError, match="names nothing"):
        freeze(net, ("blocks.*.mixr.*",))
    with pytest.raises(TransferError, match="leaves nothing to train"):
        freeze(net, ("*",))


def test_a_block_that_is_too_large_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr("selfpretrain.training.model.Block", None)
    huge = Model(Attention(heads=2), width=10**6, depth=1)
    with pytest.raises(SpecError, match=r"1 blocks take .* MB, this machine has"):
        huge.build(FORM, nn.Identity())
    with torch.device("meta"), pytest.raises(TypeError):  # no memory is needed there
        huge.build(FORM, nn.Identity())
