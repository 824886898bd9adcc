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
from selfpretrain.training.mixer_checks import PROBES, check

L, D = 12, 8
MIXERS = {name: registry.find("mixers", name) for name in registry.names("mixers")}
CAUSAL = [name for name, kind in MIXERS.items() if kind.causal]
CELLS = [name for name, kind in MIXERS.items() if toys.has_cells(kind)]
every_mixer = pytest.mark.parametrize("name", MIXERS)
WAYS = [(name, causal) for name, kind in MIXERS.items() for causal in {False, kind.causal}]
every_way = pytest.mark.parametrize(
    ("name", "causal"),
    WAYS,
    ids=[f"{'causal' if causal else 'bidirectional'}-{name}" for name, causal in WAYS],
)
BOTH = ("padding content", "padding length", "batch independence", "gradients", "odd lengths")
"""Probes that a causal layer may pass whose like in two directions, the same cell twice, does not."""


def build(kind, causal=False, length=L, width=D):
    toys.settle()
    mixer = kind()
    return mixer.build(LayerContext(width, length, causal, mixer.positions == "rotary")).double().eval()


def sequences(*shape, width=D):
    return torch.randn(*shape, width, dtype=torch.double)


@every_way
def test_keeps_the_contract(name, causal):
    mixer = MIXERS[name]()
    # More than a chunk of a recurrence, which is slow, or more than a block of sparse patterns.
    recurrent = isinstance(build(MIXERS[name], causal), Directions)
    length = (70 if causal else 20) if recurrent else 150
    place = LayerContext(D, length, causal, mixer.positions == "rotary")
    found = check(mixer, place, BOTH if recurrent and not causal else tuple(PROBES))
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
def test_types_masks_and_half_precision(name, causal):
    # In heads of two features, as at width 8, a norm may divide by what is nearly zero.
    layer, x = build(MIXERS[name], causal, width=32), sequences(2, L, width=32).requires_grad_()
    y = layer(x, None)
    assert y.dtype == x.dtype
    torch.testing.assert_close(layer(x, torch.ones(2, L, dtype=torch.bool)), y)
    if not causal:
        unequal = torch.arange(1.0, 33).double()  # a norm at the end makes the plain sum constant
        (seen,) = torch.autograd.grad((y[0, L // 2] * unequal).sum(), x)
        before, after = seen[0, : L // 2], seen[0, L // 2 + 1 :]
        assert min(before.abs().max(), after.abs().max()) > 1e-12, "sees both sides"
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        half = layer.float()(x.float(), None)
    assert (half - y).abs().max() < 0.05 * y.abs().max()


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


@pytest.mark.parametrize(
    ("name", "settings", "place", "said"),
    [
        ("attention", {"heads": 4}, LayerContext(10, L), "heads"),
        ("attention", {"heads": 2}, LayerContext(6, L, rotary=True), "head size"),
        ("gla", {}, LayerContext(12, L), "gla halves its heads of 3, which must be even"),
        ("mamba2", {"heads": 8}, LayerContext(12, L), "width 12 does not split into 8 heads"),
        ("b2s6", {"blocks": 3}, LayerContext(8, L), "16 channels of b2s6 do not split into 3 blocks"),
        ("mamba3", {"heads": 3}, LayerContext(8, L), "16 channels of mamba3 do not split into 3 heads"),
        ("rwkv4", {}, LayerContext(1, L), "use a width of 2 or more"),
        ("deltanet", {"heads": 3}, LayerContext(8, L), "width 8 does not split into 3 heads"),
        ("retnet", {"heads": 8}, LayerContext(8, L), "a head size of 1 must be even"),
        ("rwkv7", {"heads": 8}, LayerContext(8, L), "rwkv7 needs heads of 2 features"),
        ("slstm", {"heads": 8}, LayerContext(8, L), "use fewer heads than the width of 8"),
        ("s5", {"states": 12, "blocks": 4}, LayerContext(8, L), "states=12 must be divisible by 8"),
        ("s4", {"copies": 3}, LayerContext(4, L), "copies=3 does not divide the width 4"),
        ("mega", {"keys": 5}, LayerContext(8, L, rotary=True), "even number of keys, not 5"),
        ("nystromformer", {"kernel": 4}, LayerContext(8, L), "odd width, not 4"),
        (
            "sparse",
            {"pattern": "fixed", "size": 8, "summary": 9},
            LayerContext(8, L),
            "no 9 summary positions",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(name, settings, place, said):
    with pytest.raises(SpecError, match=said):
        MIXERS[name](**settings).build(place)


@pytest.mark.parametrize(
    ("name", "settings", "rotary", "longest"),
    [
        ("linformer", {}, False, L),
        ("synthesizer", {}, False, L),
        ("sinkhorn", {"size": 4}, False, L),
        ("bigbird", {}, False, L),
        ("mega", {}, False, L),
        ("mega", {}, True, None),
        ("mega", {"chunk": 7}, False, None),
        ("wavegan", {"channels": 2, "stages": 2}, False, 16),
    ],
)
def test_longer_sequences_are_refused_or_mixed(name, settings, rotary, longest):
    layer = MIXERS[name](**settings).build(LayerContext(D, L, rotary=rotary)).double()
    x = sequences(1, (longest or L) + 1)
    if longest:
        with pytest.raises(SpecError, match=f"length {longest + 1}, .* at most {longest}"):
            layer(x, None)
    else:
        assert layer(x, None).shape == x.shape


@every_mixer
def test_gradients_are_finite_for_inputs_a_hundred_times_as_large(name):
    layer, x = build(MIXERS[name]).float(), (100 * sequences(2, L)).float().requires_grad_()
    y = layer(x, None)
    (y * torch.linspace(-1, 1, D)).sum().backward()
    gradients = {key: each.grad for key, each in layer.named_parameters() if each.grad is not None}
    found = gradients | {"inputs": x.grad, "outputs": y}
    assert [key for key, each in found.items() if not each.isfinite().all()] == []
