"""S4D beyond the laws of its shelf."""

import pytest
import torch

import toys
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.s4d import S4D


def recurrence(layer, u):
    """The state space model step by step, held constant over each step: y[t] without skip and gate."""
    A = torch.complex(-layer.log_decay.exp(), layer.frequency)
    step = A * layer.log_dt.exp()[:, None]
    C = torch.view_as_complex(layer.C)[0]
    state, out = torch.zeros_like(step), []
    for t in range(u.shape[0]):
        state = step.exp() * state + torch.expm1(step) / A * u[t, :, None]
        out.append(2 * (C * state).sum(-1).real)
    return torch.stack(out)


@pytest.mark.parametrize("init", ["lin", "inv", "inv2", "quad", "real", "random"])
def test_kernel_is_the_recurrence(init):
    toys.settle()
    layer = S4D(states=8, init=init).build(LayerContext(3, 40, causal=True)).double()
    u = torch.randn(40, 3, dtype=torch.double)
    K = layer.kernel(40)[0]
    by_kernel = torch.stack([(K[:, : t + 1].flip(-1) * u[: t + 1].T).sum(-1) for t in range(40)])
    torch.testing.assert_close(by_kernel, recurrence(layer, u), atol=1e-10, rtol=1e-10)


def test_kernel_of_a_shorter_sequence_is_a_prefix():
    toys.settle()
    layer = S4D(states=8).build(LayerContext(3, 64)).double()
    torch.testing.assert_close(layer.kernel(64)[..., :17], layer.kernel(17), atol=1e-12, rtol=1e-10)


def test_single_precision_is_close_to_double_at_great_length():
    toys.settle()
    layer = S4D().build(LayerContext(4, 16_384))
    single = layer.kernel(16_384)
    double = layer.double().kernel(16_384)
    assert (single - double).abs().max() < 1e-4 * double.abs().max()


def test_gradients_stay_finite_at_great_length():
    toys.settle()
    layer = S4D(states=4).build(LayerContext(2, 65_536))
    layer(torch.randn(1, 65_536, 2), None).square().mean().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_autocast_does_not_touch_the_kernel():
    toys.settle()
    layer = S4D().build(LayerContext(4, 256))
    plain = layer.kernel(256)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.kernel(256), plain)
