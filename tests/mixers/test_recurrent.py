"""Recurrent mixers beyond the laws of their shelf and golden values."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import toys
from selfpretrain import registry
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.cells import Directions
from selfpretrain.mixers.common.transformers_layer import TransformersMixer
from selfpretrain.mixers.exprnn import ExpRNN
from selfpretrain.mixers.gla import GLA
from selfpretrain.mixers.gru import GRU
from selfpretrain.mixers.lipschitz import Lipschitz
from selfpretrain.mixers.lru import LRU
from selfpretrain.mixers.lstm import LSTM
from selfpretrain.mixers.mamba2 import Mamba2
from selfpretrain.mixers.slstm import SLSTM

D, L = 8, 30
KINDS = [registry.find("mixers", name) for name in registry.names("mixers")]
CELLED = [kind() for kind in KINDS if issubclass(kind, TransformersMixer) or toys.has_cells(kind)]
STEPWISE = (ExpRNN, GRU, Lipschitz, LSTM, SLSTM)
every_cell = pytest.mark.parametrize("mixer", CELLED, ids=registry.name_of)


def build(mixer, causal=False, width=D, length=L):
    toys.settle()
    return mixer.build(LayerContext(width, length, causal)).double()


def sequences(length=L, width=D):
    return torch.randn(2, length, width, dtype=torch.double)


def test_every_mixer_made_of_cells_is_tested_here():
    assert {kind for kind in KINDS if isinstance(build(kind()), Directions)} == {type(m) for m in CELLED}


@every_cell
def test_padding_may_stand_anywhere_and_none_is_the_same_to_the_last_bit(mixer):
    layer, x, found = build(mixer), sequences(), []
    padding_mask = torch.rand(2, L) < 0.6
    y = layer(x, padding_mask)
    for row in range(2):
        alone = layer(x[row, padding_mask[row]][None], None)
        torch.testing.assert_close(y[row, padding_mask[row]], alone[0], atol=1e-9, rtol=1e-9)
    future, layer.future = layer.future, layer.past  # the second cell goes the other way
    torch.testing.assert_close(layer(x).flip(1), layer(x.flip(1)), atol=1e-9, rtol=1e-9)
    layer.future = future
    layer, x = layer.float(), x.float().requires_grad_()
    for padding_mask in (None, torch.ones(2, L, dtype=torch.bool)):
        y = layer(x, padding_mask)
        found.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@every_cell
@pytest.mark.parametrize("length", [4_096, pytest.param(16_384, marks=pytest.mark.slow)])
def test_single_precision_is_close_to_double_at_great_length(mixer, length):
    length = 256 if isinstance(mixer, STEPWISE) else length
    layer, x = build(mixer, True, length=length), sequences(length)[:1]
    with torch.no_grad():
        truth, single = layer(x), layer.float()(x.float())
    assert (single - truth).abs().max() < 1e-4 * truth.abs().max()


@pytest.mark.parametrize(("mixer", "kind"), [(LSTM(states=5), nn.LSTM), (GRU(states=5), nn.GRU)])
def test_fused_kernels_in_two_directions_with_padding(mixer, kind):
    layer, x, lengths = build(mixer), sequences(), torch.tensor([L, 11])
    both = kind(D, 5, batch_first=True, bidirectional=True).double()
    forward, backward = layer.past.rnn.state_dict(), layer.future.rnn.state_dict()
    both.load_state_dict(forward | {f"{name}_reverse": value for name, value in backward.items()})
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    past, future = pad_packed_sequence(both(packed)[0], batch_first=True)[0].chunk(2, dim=-1)
    padding_mask = torch.arange(L) < lengths[:, None]
    expected = layer.past.out(past) + layer.future.out(future)
    torch.testing.assert_close(layer(x, padding_mask)[padding_mask], expected[padding_mask])


def test_lipschitz_is_its_formula():
    layer, x = build(Lipschitz(states=6, skew=0.6, damping=0.2, step=0.1), True), sequences()
    cell, h = layer.past, torch.zeros(2, 6, dtype=torch.double)
    A, V = (0.4 * (M + M.T) + 0.6 * (M - M.T) - 0.2 * torch.eye(6) for M in (cell.A, cell.V))
    for t in range(L):
        h = h + 0.1 * (h @ A.T + torch.tanh(h @ V.T + cell.enter(x[:, t])))
        torch.testing.assert_close(layer(x)[:, t], cell.out(h))


def test_lru_starts_on_a_ring_and_keeps_the_size_of_noise():
    cell = build(LRU(states=4000, smallest=0.5, largest=0.9, turn=1.0), True).past
    size = torch.exp(-cell.log_decay.exp())
    assert 0.5 <= size.min() < 0.51
    assert 0.89 < size.max() <= 0.9
    assert size.square().mean().item() == pytest.approx((0.25 + 0.81) / 2, rel=0.02)  # even on the disc
    assert 0.99 < cell.log_frequency.exp().max() <= 1
    torch.testing.assert_close(cell.log_gain.exp().square(), 1 - size.square(), rtol=1e-5, atol=0)


def test_mamba2_starts_with_steps_and_decays_of_its_range():
    cell = build(Mamba2(heads=500, shortest=0.01, longest=0.1), True, width=500).past
    dt, decay = F.softplus(cell.step), cell.log_decay.exp()
    assert 0.0099 < dt.min() < 0.011 and 0.09 < dt.max() < 0.1001 and 0.99 < decay.min() < 1.3


def test_gla_is_its_formula():
    layer, x = build(GLA(tau=2.0), True), sequences()
    cell, S = layer.past, torch.zeros(2, 4, 1, 2, dtype=torch.double)
    for t in range(L):
        q, k, v = (p(x[:, t]).unflatten(-1, (4, -1)) for p in (cell.q, cell.k, cell.v))
        a = cell.fade(x[:, t]).unflatten(-1, (4, -1)).sigmoid() ** 0.5
        S = a[..., None] * S + k[..., None] * v[..., None, :]
        o = (q[..., None, :] @ S)[..., 0, :] / q.shape[-1] ** 0.5
        y = cell.out(F.silu(cell.gate(x[:, t])) * cell.norm(o).flatten(1))
        torch.testing.assert_close(layer(x)[:, t], y)
