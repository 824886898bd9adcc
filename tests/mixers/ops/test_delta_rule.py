"""Delta rules and retention, which are computed in chunks, against the recurrences step by step."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

import toys
from selfpretrain.mixers.ops import delta_rule as delta_rule_module
from selfpretrain.mixers.ops import retention as retention_module
from selfpretrain.mixers.ops.delta_rule import decayed_delta_rule, delta_rule
from selfpretrain.mixers.ops.retention import retention
from selfpretrain.training import flops

B, H, M, E = 2, 2, 3, 4


def draw(length, dtype=torch.double):
    q = torch.randn(B, H, length, M, dtype=dtype)
    k = F.normalize(torch.randn(B, H, length, M, dtype=dtype), dim=-1)
    v = torch.randn(B, H, length, E, dtype=dtype)
    return q, k, v, torch.randn(B, H, M, E, dtype=dtype)


def plain(length, dtype=torch.double):
    q, k, v, state = draw(length, dtype)
    return q, k, v, torch.rand(B, H, length, 1, dtype=dtype), state


def decayed(length, dtype=torch.double, strength=1.0):
    q, a, v, state = draw(length, dtype)
    k = torch.randn(B, H, length, M, dtype=dtype)
    b, g = -a * torch.rand_like(a), -strength * torch.rand_like(a)
    return q, k, v, a, b, g, state


def retained(length, dtype=torch.double):
    q, k, v, state = draw(length, dtype)
    return q, k, v, torch.tensor([-0.001, -0.5], dtype=torch.double), state


def plain_steps(q, k, v, beta, state):
    y = []
    for t in range(v.shape[2]):
        found = (k[:, :, t, None] @ state)[:, :, 0]
        state = state + (beta * k)[:, :, t, :, None] * (v[:, :, t] - found)[:, :, None]
        y.append((q[:, :, t, None] @ state)[:, :, 0])
    return torch.stack(y, dim=2), state


def decayed_steps(q, k, v, a, b, g, state):
    y = []
    for t in range(v.shape[2]):
        matrix = torch.diag_embed(g[:, :, t].exp()) + b[:, :, t, :, None] * a[:, :, t, None]
        state = matrix @ state + k[:, :, t, :, None] * v[:, :, t, None]
        y.append((q[:, :, t, None] @ state)[:, :, 0])
    return torch.stack(y, dim=2), state


def retained_steps(q, k, v, log_decay, state):
    y = []
    for t in range(v.shape[2]):
        state = log_decay.exp()[:, None, None] * state + k[:, :, t, :, None] * v[:, :, t, None]
        y.append((q[:, :, t, None] @ state)[:, :, 0])
    return torch.stack(y, dim=2), state


RULES = {
    "delta": (delta_rule, plain, plain_steps),
    "decayed": (decayed_delta_rule, decayed, decayed_steps),
    "retention": (retention, retained, retained_steps),
}
every_rule = pytest.mark.parametrize(("rule", "make", "steps"), RULES.values(), ids=RULES)


@every_rule
def test_is_the_recurrence(rule, make, steps):
    toys.settle()
    for length in (1, 2, 31, 32, 33, 64, 65, 150):
        inputs = make(length)
        for found, expected in zip(rule(*inputs), steps(*inputs), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@every_rule
def test_gradients_are_right(rule, make, steps, monkeypatch):
    toys.settle()
    for module in (delta_rule_module, retention_module):
        monkeypatch.setattr(module, "CHUNK", 4)
    inputs = [x[:1].requires_grad_() if x.ndim > 1 else x for x in make(6)]
    assert gradcheck(rule, inputs)


@every_rule
def test_keeps_single_precision_at_great_length(rule, make, steps):
    toys.settle()
    single = [x.requires_grad_(x.ndim > 1) for x in make(16_384, torch.float32)]
    y, _ = rule(*single)
    truth, _ = rule(*(x.detach().double() for x in single))
    assert (y - truth).abs().max() < 1e-5 * truth.abs().max()
    y.sum().backward()
    assert all(x.grad.isfinite().all() for x in single if x.requires_grad)


def test_one_key_that_is_written_again_and_again_keeps_single_precision():
    """Powers of its triangular matrix grow to 1e8, and sums of them would leave no digit."""
    toys.settle()
    q, _, v, state = draw(64, torch.float32)
    k = F.normalize(torch.ones_like(q), dim=-1)
    y, last = delta_rule(q, k, v, torch.ones(B, H, 64, 1), state)
    kept = torch.einsum("bhm,bhme->bhe", k[:, :, -1], last)
    torch.testing.assert_close(kept, v[:, :, -1], atol=1e-5, rtol=1e-5)
    assert (y - plain_steps(q, k, v, torch.ones(B, H, 64, 1), state)[0]).abs().max() < 1e-5


def test_strongest_decay_that_is_allowed_stays_finite():
    toys.settle()
    q, k, v, a, b, _, state = decayed(200, torch.float32)
    g = torch.full_like(a, -1.0).requires_grad_()
    y, _ = decayed_delta_rule(q, k, v, a, b, g, state)
    truth, _ = decayed_steps(*(x.detach().double() for x in (q, k, v, a, b, g, state)))
    assert (y - truth).abs().max() < 1e-5 * truth.abs().max()
    y.sum().backward()
    assert g.grad.isfinite().all()


def test_flops_of_the_delta_rule_are_its_products_and_its_triangular_system():
    toys.settle()
    length, T = 256, delta_rule_module.CHUNK
    inputs = [x.requires_grad_() for x in plain(length, torch.float32)]
    layer = torch.nn.ParameterList(torch.nn.Parameter(x) for x in inputs)
    counted = flops.count_flops(layer, lambda: delta_rule(*layer)[0].square().sum())
    pairs = 2 * T * T * (2 * M + E + M)  # of keys, of queries; weights times values and reads
    states = 2 * T * M * (M + E + E)  # matrix and addition of every chunk; queries times states
    carried = 2 * M * M * E
    system = T * T * (M + E)
    chunks = B * H * (length // T)
    # Backward, every product costs two; the system another one and the product of both solutions.
    expected = chunks * (3 * (pairs + states + carried) + 2 * system + 2 * T * T * (M + E))
    assert sum(counted) == pytest.approx(expected, rel=0.02)
