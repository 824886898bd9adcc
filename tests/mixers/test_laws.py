"""Laws that every mixer on the shelf keeps; a new file is tested without being named here."""

import dataclasses
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import toys
from selfpretrain import registry
from selfpretrain.config import from_dict, to_dict
from selfpretrain.errors import SpecError
from selfpretrain.mixers.base import LayerContext, Mixer
from selfpretrain.training.mixer_checks import check

L, D = 12, 8
MIXERS = {name: registry.find("mixers", name) for name in registry.names("mixers")}
CAUSAL = [name for name, kind in MIXERS.items() if kind.causal]
CELLS = ["deltanet", "exprnn", "gla", "gru", "linoss", "lipschitz", "lru", "lstm", "mamba2"]
CELLS += ["retnet", "rwkv7", "s5", "slstm"]
every_mixer = pytest.mark.parametrize("name", MIXERS)
WAYS = [(name, causal) for name, kind in MIXERS.items() for causal in {False, kind.causal}]
every_way = pytest.mark.parametrize(
    ("name", "causal"),
    WAYS,
    ids=[f"{'causal' if causal else 'bidirectional'}-{name}" for name, causal in WAYS],
)


def build(kind, causal=False, length=L, width=D):
    toys.settle()
    mixer = kind()
    return mixer.build(LayerContext(width, length, causal, mixer.positions == "rotary")).double().eval()


def sequences(*shape, width=D):
    return torch.randn(*shape, width, dtype=torch.double)


def reach(layer, length=L):
    """(L, L) of bool: does output i depend on input j? By gradients, at a random point."""
    x = sequences(1, length)
    unequal = torch.arange(1.0, D + 1).double()  # a norm at the end makes the plain sum constant
    jacobian = torch.autograd.functional.jacobian(lambda u: (layer(u, None) @ unequal)[0], x)
    return jacobian.abs().sum(-1)[:, 0] > 1e-12


@every_way
@given(batch=st.integers(1, 3), length=st.sampled_from([1, 2, 5, 11, 12]))
@settings(max_examples=8, deadline=None)
def test_keeps_shape_and_type_at_any_length(name, causal, batch, length):
    x = sequences(batch, length)
    y = build(MIXERS[name], causal)(x, None)
    assert y.shape == x.shape
    assert y.dtype == x.dtype


@every_way
def test_keeps_the_contract(name, causal):
    mixer = MIXERS[name]()
    length = 150  # more than a block of sparse patterns
    found = check(mixer, LayerContext(D, length, causal, mixer.positions == "rotary"))
    assert found.failures == []
    possible = ("masked", "causal") if causal else ("masked",)
    assert found.objectives == (possible if mixer.denoises else ())


class Transforms(TorchDispatchMode):
    """Notices whether anything in it is a Fourier transform."""

    seen = False

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.seen |= "fft" in str(op)
        return op(*args, **(kwargs or {}))


@torch.no_grad()
@pytest.mark.parametrize("scale", [1, 12], ids=["ordinary weights", "large weights"])
@pytest.mark.parametrize("name", CAUSAL)
def test_later_positions_change_earlier_answers_by_nothing_at_all(name, scale):
    """Not by rounding either; only a Fourier transform rounds all positions together, by that and no more."""
    length = 300  # several chunks of whatever goes in chunks
    layer = build(MIXERS[name], causal=True, length=length).float()
    for part in layer.modules():
        if isinstance(part, nn.Linear):
            part.weight *= scale
    x = sequences(2, length).float()
    with Transforms() as transforms:
        first = layer(x, None)
    assert first.isfinite().all()
    for cut in (1, 127, 128, 129, 200, 299):
        other = torch.cat([x[:, :cut], 10 * sequences(2, length - cut).float()], dim=1)
        second = layer(other, None)
        rounding = 1e-5 * max(first.abs().max(), second.abs().max()) if transforms.seen else 0
        assert (second - first)[:, :cut].abs().max() <= rounding


@every_mixer
def test_says_truly_whether_it_can_be_causal(name):
    if not MIXERS[name].causal:
        with pytest.raises(SpecError, match=f"{name} .* cannot be causal"):
            build(MIXERS[name], causal=True)


@every_mixer
def test_bidirectional_sees_both_sides(name):
    seen = reach(build(MIXERS[name], causal=False))
    assert seen.triu(1).any()
    assert seen.tril(-1).any()


@every_way
def test_all_positions_valid_is_no_mask(name, causal):
    layer, x = build(MIXERS[name], causal), sequences(2, L)
    torch.testing.assert_close(layer(x, torch.ones(2, L, dtype=torch.bool)), layer(x, None))


@every_way
def test_half_precision_is_close(name, causal):
    # In heads of two features, as at width 8, a norm may divide by what is nearly zero.
    layer, x = build(MIXERS[name], causal, width=32).float(), sequences(2, L, width=32).float()
    plain = layer(x, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x, None)
    assert (y - plain).abs().max() < 0.05 * plain.abs().max()


@every_mixer
def test_the_same_seed_builds_the_same_layer(name):
    a, b = build(MIXERS[name]).state_dict(), build(MIXERS[name]).state_dict()
    assert all(torch.equal(a[key], b[key]) for key in a)


@every_mixer
def test_spec_survives_json(name):
    mixer = MIXERS[name]()
    assert isinstance(mixer, Mixer)
    assert from_dict(json.loads(json.dumps(to_dict(mixer)))) == mixer


@every_mixer
def test_slow_parameters_name_something(name):
    import fnmatch

    names = [n for n, _ in build(MIXERS[name]).named_parameters()]
    for pattern in MIXERS[name]().slow():
        assert fnmatch.filter(names, pattern), pattern


@every_mixer
def test_settings_are_documented_fields(name):
    assert dataclasses.is_dataclass(MIXERS[name])


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_goes_on_from_its_state(name):
    layer, x = build(MIXERS[name], causal=True, length=150), sequences(2, 150)
    cell, whole = layer.past, layer(x, None)
    first, state = cell(x[:, :73], cell.initial_state(2))
    second, _ = cell(x[:, 73:], state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, atol=1e-9, rtol=1e-9)


def test_a_careless_mixer_is_caught():
    failed = [
        line.partition(":")[0] for line in check(toys.Careless(), LayerContext(D, L, causal=True)).failures
    ]
    assert failed == ["causality", "padding content", "padding length"]
