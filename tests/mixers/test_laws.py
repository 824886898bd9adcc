"""Laws that every mixer on the shelf keeps; a new file is tested without being named here."""

import dataclasses
import fnmatch
import json

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import toys
from selfpretrain import registry
from selfpretrain.config import from_dict, to_dict
from selfpretrain.errors import SpecError
from selfpretrain.mixers.base import LayerContext, Mixer
from selfpretrain.mixers.common.cells import Directions
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
def test_keeps_the_contract(name, causal):
    mixer = MIXERS[name]()
    # More than two chunks of a recurrence, which is slow, or more than a block of sparse patterns.
    length = 70 if isinstance(build(MIXERS[name], causal), Directions) else 150
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


CUTS = (1, 127, 128, 129, 200, 299)
"""Beginnings that are kept of 300 positions, several chunks of whatever goes in chunks."""


@torch.no_grad()
@pytest.mark.parametrize("name", CAUSAL)
def test_later_positions_change_earlier_answers_by_nothing_at_all(name):
    """Not by rounding either; only a Fourier transform rounds all positions together, by that and no more."""
    layer = build(MIXERS[name], causal=True, length=300).float()
    x = sequences(1, 300).float().repeat(len(CUTS), 1, 1)
    kept = torch.arange(300) < torch.tensor(CUTS)[:, None]
    other = torch.where(kept[..., None], x, 10 * torch.randn_like(x))
    for scale in (1, 12):  # of the weights
        for part in layer.modules():
            if isinstance(part, nn.Linear):
                part.weight *= scale
        with Transforms() as transforms:
            first, second = layer(x, None), layer(other, None)
        assert first.isfinite().all()
        rounding = 1e-5 * max(first.abs().max(), second.abs().max()) if transforms.seen else 0
        assert (second - first)[kept].abs().max() <= rounding, scale


@every_way
def test_shapes_types_and_masks(name, causal):
    layer = build(MIXERS[name], causal)
    for length in (1, 2, 5, 11, L):
        x = sequences(2, length)
        y = layer(x, None)
        assert y.shape == x.shape and y.dtype == x.dtype
    torch.testing.assert_close(layer(x, torch.ones(2, L, dtype=torch.bool)), y)
    if not causal:
        seen = reach(layer)
        assert seen.triu(1).any() and seen.tril(-1).any(), "sees both sides"


@every_way
def test_half_precision_is_close(name, causal):
    # In heads of two features, as at width 8, a norm may divide by what is nearly zero.
    layer, x = build(MIXERS[name], causal, width=32).float(), sequences(2, L, width=32).float()
    plain = layer(x, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x, None)
    assert (y - plain).abs().max() < 0.05 * plain.abs().max()


@every_mixer
def test_what_it_says_of_itself_is_true(name):
    mixer = MIXERS[name]()
    assert isinstance(mixer, Mixer) and dataclasses.is_dataclass(mixer)
    assert from_dict(json.loads(json.dumps(to_dict(mixer)))) == mixer
    layer, again = build(MIXERS[name]), build(MIXERS[name]).state_dict()
    assert all(torch.equal(again[key], value) for key, value in layer.state_dict().items())
    names = [parameter for parameter, _ in layer.named_parameters()]
    assert [pattern for pattern in mixer.slow() if not fnmatch.filter(names, pattern)] == []
    if not mixer.causal:
        with pytest.raises(SpecError, match=f"{name} .* cannot be causal"):
            build(MIXERS[name], causal=True)


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
