"""RetNet, RWKV-7, Hyena, sLSTM, LinOSS, S5 and Mamba beyond the laws of their shelf and golden values."""

import math

import pytest
import torch
import torch.nn.functional as F

import toys
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.hyena import Hyena
from selfpretrain.mixers.linoss import LinOSS
from selfpretrain.mixers.mamba import Mamba
from selfpretrain.mixers.mamba2 import Mamba2, Mamba2Cell
from selfpretrain.mixers.rwkv7 import RWKV7
from selfpretrain.mixers.s5 import S5
from selfpretrain.mixers.slstm import SLSTM


def build(mixer, causal=True, width=8, length=30):
    toys.settle()
    return mixer.build(LayerContext(width, length, causal)).double()


def test_rwkv7_starts_between_its_bounds_with_ranks_that_grow_with_the_width_or_are_given():
    cell = build(RWKV7(), width=64).past
    factors = torch.exp(-math.exp(-0.5) * torch.sigmoid(cell.decay_bias))
    assert 0.545 < factors.min() < 0.66 and 0.999 < factors.max() < 1
    assert not cell.decay.down.weight.any() and cell.decay.up.weight.any()
    for width, settings, ranks in (
        (64, {}, (32, 32)),
        (1024, {}, (64, 160)),
        (64, {"rank": 3, "gate_rank": 5}, (3, 5)),
    ):
        cell = build(RWKV7(heads=16, **settings), width=width).past
        assert (cell.decay.down.out_features, cell.gate.down.out_features) == ranks


@pytest.mark.parametrize("order", [2, 3])
def test_bidirectional_hyena_is_the_double_sum(order):
    layer, x = build(Hyena(order=order), causal=False, length=9), torch.randn(2, 9, 8, dtype=torch.double)
    K = layer.kernel(9)
    mixed, _ = layer.near(layer.enter(x), layer.near.initial_state(2))
    last, *gates, v = mixed.chunk(order + 1, dim=-1)
    for i, gate in enumerate(reversed(gates)):
        u, past, future = v * gate, *K[:, i]
        v = layer.D[i] * u
        for t in range(9):
            for s in range(9):
                v[:, t] = v[:, t] + (past[:, t - s] if s <= t else future[:, s - t - 1]) * u[:, s]
    torch.testing.assert_close(layer(x), layer.out(last * v), atol=1e-12, rtol=1e-10)


def test_kernels_of_hyena_of_a_shorter_sequence_are_a_prefix_and_both_directions_fade_alike():
    layer = build(Hyena(), causal=False, length=64)
    torch.testing.assert_close(layer.kernel(100)[..., :17], layer.kernel(17), atol=1e-12, rtol=1e-10)
    with torch.no_grad():
        layer.kernels.out.weight.fill_(1)
    past, future = layer.kernel(64)[:, 0]
    torch.testing.assert_close(past, future)
    fading = past[:, 63] / past[:, 63].max()
    torch.testing.assert_close(fading[-1] / fading[0], torch.tensor(0.01).double() ** (1 / 0.3 - 1 / 1.5))


def by_the_formula(cell, x):
    """sLSTM without the factor by which its state is divided."""
    H, size = cell.R.shape[1:3]
    near = F.silu(cell.near(x, cell.near.initial_state(len(x)))[0])
    h, c, n = (torch.zeros(len(x), H, size, dtype=torch.double) for _ in range(3))
    out = []
    for t in range(x.shape[1]):
        inputs = (near[:, t], near[:, t], x[:, t], x[:, t])
        i, f, z, o = (
            torch.einsum("bhe,hde->bhd", u.unflatten(-1, (H, -1)), cell.W[gate])
            + torch.einsum("bhe,hde->bhd", h, cell.R[gate])
            + cell.bias[gate]
            for gate, u in enumerate(inputs)
        )
        c, n = f.sigmoid() * c + i.exp() * z.tanh(), f.sigmoid() * n + i.exp()
        h = o.sigmoid() * c / n
        out.append(h.flatten(1))
    y = torch.stack(out, dim=1)
    return cell.norm(y.flatten(0, 1)).view_as(y) * cell.gain


def test_slstm_and_its_gradients_are_the_formula():
    layer, x = build(SLSTM(heads=2)), torch.randn(2, 30, 8, dtype=torch.double)
    with torch.no_grad():
        layer.past.R.normal_(std=0.5)
    grads = []
    for y in (layer(x), by_the_formula(layer.past, x)):
        grads.append(torch.autograd.grad((y * torch.arange(8)).sum(), list(layer.parameters())))
    torch.testing.assert_close(layer(x), by_the_formula(layer.past, x))
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(
    ("mixer", "length", "name", "value"),
    [
        (SLSTM(), 30, "bias", torch.tensor([200.0, 0.0, 0.0, 0.0])[:, None, None]),
        (LinOSS(states=4, rule="im"), 2000, "stiffness", torch.tensor([-1.0, 0.0, 1e-6, 1e3])),
        (LinOSS(states=4, rule="imex"), 2000, "stiffness", torch.tensor([-1.0, 0.0, 1e-6, 1e3])),
    ],
)
def test_extreme_weights_leave_outputs_and_gradients_finite(mixer, length, name, value):
    layer = build(mixer, length=length).float()
    with torch.no_grad():
        layer.past.get_parameter(name).copy_(value)
    y = layer(torch.randn(1, length, 8))
    y.square().mean().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_s5_starts_with_the_normal_part_of_hippo_in_blocks():
    cell = build(S5(states=16, blocks=2, shortest=0.01, longest=0.02), width=500).past
    torch.testing.assert_close(cell.log_decay.exp(), torch.full((8,), 0.5).double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(cell.frequency[:4], cell.frequency[4:])
    matrix = (
        torch.tril(-torch.ones(8, 8), -1) * torch.outer(root := (torch.arange(8) * 2 + 1.0).sqrt(), root) / 2
    )
    frequency = torch.linalg.eigvals(matrix - matrix.T).imag.sort().values[:4]
    torch.testing.assert_close(cell.frequency[:4].float().sort().values, frequency, rtol=1e-4, atol=1e-4)
    dt = cell.log_dt.exp()
    assert dt.min() > 0.0099
    assert dt.max() < 0.0201
    assert cell.B.square().sum(-1).mean().item() == pytest.approx(1 / 16, rel=0.1)
    assert cell.C.square().sum(-1).mean().item() == pytest.approx(2 / 16, rel=0.1)


@torch.no_grad()
@pytest.mark.parametrize("kind", [Mamba, Mamba2])
def test_a_mimetic_start_finds_similar_content_at_any_distance(kind):
    """Nothing is forgotten, and a vector is found by itself."""
    if kind is Mamba:
        pytest.importorskip("transformers")
    D, length = 32, 400
    content = F.normalize(torch.randn(8, D, dtype=torch.double), dim=1) * D**0.5
    for start, expected in (("independent", False), ("mimetic", True)):
        layer = build(kind(start=start, taps=1), width=D, length=length)
        kept, read = inner_product(layer.past, content)
        assert bool(kept**length > 0.5) == expected
        own, others = read.diagonal().mean(), read[~torch.eye(8, dtype=bool)].abs().mean()
        assert bool(own > 2 * others) == expected


def inner_product(cell, content):
    """Return the slowest decay per position, and c(x)^T b(y) of all pairs of vectors."""
    if isinstance(cell, Mamba2Cell):
        E, N, _ = cell.sizes
        _, recent, dt = cell.enter(content).split([E, E + 2 * N, cell.heads], dim=-1)
        _, b, c = F.silu(cell.bias + recent * cell.taps[0]).split(cell.sizes, dim=-1)
        rate = F.softplus(dt + cell.step) * cell.log_decay.exp()
    else:
        layer = cell.layer
        u = F.silu(layer.conv1d(layer.in_proj(content).mT.chunk(2)[0])[:, : len(content)]).mT
        N = layer.ssm_state_size
        dt, b, c = layer.x_proj(u).split([layer.time_step_rank, N, N], dim=-1)
        rate = F.softplus(layer.dt_proj(dt))[..., None] * layer.A_log.exp()
    return torch.exp(-rate).amin(), c @ b.mT
