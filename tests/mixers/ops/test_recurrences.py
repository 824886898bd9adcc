"""Recurrences that are worked out in chunks or by scans, against their formulas position by position."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common import transformers_layer
from selfpretrain.mixers.common.cells import gated_scan
from selfpretrain.mixers.mamba import Mamba
from selfpretrain.mixers.ops import delta_rule, linear_attention, selective_scan
from selfpretrain.mixers.ops.modes import modal_scan
from selfpretrain.mixers.ops.selective_scan import cpu_selective_scan, is_faster
from selfpretrain.training import flops

B, H, M, E = 2, 2, 3, 4


def draw(length, dtype=torch.double, heads=H):
    q, k = torch.randn(2, B, heads, length, M, dtype=dtype)
    v, state = torch.randn(B, H, length, E, dtype=dtype), torch.randn(B, H, M, E, dtype=dtype)
    return q, k, v, state


def plain(length, dtype=torch.double):
    q, k, v, state = draw(length, dtype)
    return q, F.normalize(k, dim=-1), v, torch.rand(B, H, length, 1, dtype=dtype), state


def replaced(length, dtype=torch.double):
    q, k, v, state = draw(length, dtype)
    a = F.normalize(torch.randn(B, H, length, M, dtype=dtype), dim=-1)
    return q, k, v, a, -a * torch.rand_like(a), -torch.rand_like(a), state


def retained(length, dtype=torch.double):
    q, k, v, state = draw(length, dtype)
    return q, k, v, torch.tensor([-0.001, -0.5], dtype=torch.double), state


def decayed(factors, heads, strength):
    def make(length, dtype=torch.double):
        q, k, v, state = draw(length, dtype, heads)
        return q, k, v, -strength * torch.rand(B, H, length, factors, dtype=dtype), state

    return make


def gated(factors):
    def make(length, dtype=torch.double):
        q, k, v, state = draw(length, dtype)
        beta = 2 * torch.rand(B, H, length, 1, dtype=dtype)  # a share above one turns values around
        return q, F.normalize(k, dim=-1), v, -torch.rand(B, H, length, factors, dtype=dtype), beta, state

    return make


def step_by_step(change):
    """Outputs and last state of a recurrence over states (B, H, M, E), of its change from t-1 to t."""

    def steps(q, *inputs):
        *inputs, state = inputs
        y = []
        for t in range(inputs[1].shape[2]):
            now = (x[:, :, t] if x.ndim > 1 else x[:, None] for x in inputs)
            state = change(state, *now)
            y.append((q[:, :, t, None] @ state)[:, :, 0])
        return torch.stack(y, dim=2), state

    return steps


def overwrite(state, k, v, beta):
    known = (k[:, :, None] @ state)[:, :, 0]
    return state + (beta * k)[..., None] * (v - known)[:, :, None]


def replace(state, k, v, a, b, g):
    matrix = torch.diag_embed(g.exp()) + b[..., None] * a[:, :, None]
    return matrix @ state + k[..., None] * v[:, :, None]


def add(state, k, v, g):
    return g.exp()[..., None] * state + k[..., None] * v[:, :, None]


def fade_and_overwrite(state, k, v, g, beta):
    return overwrite(g.exp()[..., None] * state, k, v, beta)


RULES = {
    "delta rule": (delta_rule.delta_rule, plain, overwrite),
    "decayed delta rule": (delta_rule.decayed_delta_rule, replaced, replace),
    "retention": (linear_attention.retention, retained, add),
    "one factor, weak": (linear_attention.decayed_attention, decayed(1, H, 1e-3), add),
    "one factor, shared keys": (linear_attention.decayed_attention, decayed(1, 1, 100.0), add),
    "a factor per feature, weak": (linear_attention.decayed_attention, decayed(M, 1, 1e-3), add),
    "a factor per feature, strong": (linear_attention.decayed_attention, decayed(M, H, 300.0), add),
    "gated, a decay per head": (delta_rule.gated_delta_rule, gated(1), fade_and_overwrite),
    "gated, a decay per feature": (delta_rule.gated_delta_rule, gated(M), fade_and_overwrite),
}
every_rule = pytest.mark.parametrize(("rule", "make", "change"), RULES.values(), ids=RULES)


@every_rule
def test_is_the_recurrence(rule, make, change):
    for length in (1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 150):
        inputs = make(length)
        for found, expected in zip(rule(*inputs), step_by_step(change)(*inputs), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@every_rule
def test_gradients_are_right(rule, make, change, monkeypatch):
    for module in (linear_attention, delta_rule):
        for name in {"CHUNK", "CHUNK_WITH_DECAY", "CHUNK_PER_FEATURE"} & set(vars(module)):
            monkeypatch.setattr(module, name, 4)
    inputs = [x[:1].requires_grad_() if x.ndim > 1 else x for x in make(6)]
    assert gradcheck(rule, inputs, fast_mode=True)


@every_rule
def test_keeps_single_precision_at_great_length(rule, make, change):
    alone = (x[:1] if x.ndim > 1 else x for x in make(16_384, torch.float32))
    single = [x.requires_grad_(x.ndim > 1) for x in alone]
    y, _ = rule(*single)
    with torch.no_grad():
        truth, _ = rule(*(x.double() for x in single))
    assert (y - truth).abs().max() < 1e-5 * truth.abs().max()
    y.sum().backward()
    assert all(x.grad.isfinite().all() for x in single if x.requires_grad)


def test_one_key_that_is_written_again_and_again_keeps_single_precision():
    """Powers of its triangular matrix grow to 1e8, and sums of them would leave no digit."""
    q, _, v, state = draw(64, torch.float32)
    k = F.normalize(torch.ones_like(q), dim=-1)
    inputs = q, k, v, torch.ones(B, H, 64, 1), state
    y, last = delta_rule.delta_rule(*inputs)
    kept = torch.einsum("bhm,bhme->bhe", k[:, :, -1], last)
    torch.testing.assert_close(kept, v[:, :, -1], atol=1e-5, rtol=1e-5)
    assert (y - step_by_step(overwrite)(*inputs)[0]).abs().max() < 1e-5


def test_strongest_decay_that_is_allowed_stays_finite():
    q, k, v, a, b, _, state = replaced(200, torch.float32)
    g = torch.full_like(a, -1.0).requires_grad_()
    y, _ = delta_rule.decayed_delta_rule(q, k, v, a, b, g, state)
    truth, _ = step_by_step(replace)(*(x.detach().double() for x in (q, k, v, a, b, g, state)))
    assert (y - truth).abs().max() < 1e-5 * truth.abs().max()
    y.sum().backward()
    assert g.grad.isfinite().all()


def test_flops_of_the_delta_rule_are_its_products_and_its_triangular_system():
    length, T = 256, delta_rule.CHUNK
    layer = torch.nn.ParameterList(torch.nn.Parameter(x) for x in plain(length, torch.float32))
    counted = flops.count_flops(layer, lambda: delta_rule.delta_rule(*layer)[0].square().sum())
    pairs = 2 * T * T * (2 * M + E + M)  # of keys, of queries; weights times values and reads
    states = 2 * T * M * (M + E + E)  # matrix and addition of every chunk; queries times states
    carried = 2 * M * M * E
    system = T * T * (M + E)
    chunks = B * H * (length // T)
    # Backward, every product costs two; the system another one and the product of both solutions.
    expected = chunks * (3 * (pairs + states + carried) + 2 * system + 2 * T * T * (M + E))
    assert counted == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("length", [1, 2, 9, 50])
def test_scans_are_their_recurrences_with_their_gradients_and_leave_their_inputs_alone(length):
    a, b = torch.rand(2, length, 3, dtype=torch.double), torch.randn(2, length, 3, dtype=torch.double)
    before = a.clone(), b.clone()
    h, found = torch.zeros(2, 3, dtype=torch.double), gated_scan(a, b)
    assert torch.equal(a, before[0]) and torch.equal(b, before[1])
    u = torch.randn(2, length, 3, dtype=torch.complex128)
    rate = torch.complex(-torch.rand(3, dtype=torch.double), 6 * torch.rand(3, dtype=torch.double))
    state = torch.randn(2, 3, dtype=torch.complex128)
    modal = [x.clone().requires_grad_() for x in (u[:1, :7], rate, state[:1])]
    modes, last = modal_scan(u, rate, state)
    for t in range(length):
        h = a[:, t] * h + b[:, t]
        state = rate.exp() * state + u[:, t]
        torch.testing.assert_close(found[:, t], h)
        torch.testing.assert_close(modes[:, t], state, atol=1e-11, rtol=1e-11)
    torch.testing.assert_close(last, state, atol=1e-11, rtol=1e-11)
    for turn in (1, 0.6 + 0.8j):
        turned = [(turn * x[:1, :, :2]).requires_grad_() for x in (a, b)]
        assert gradcheck(gated_scan, turned, fast_mode=True)
    assert gradcheck(modal_scan, modal, fast_mode=True)


def selective(x, dt, A, B, C):
    """The recurrence of Mamba, with all states."""
    h = gated_scan(torch.exp(dt[..., None] * A), x[..., None] * B[:, :, None])
    return (h @ C[..., None])[..., 0]


def draw_selective(length, dtype=torch.double):
    x, dt = torch.randn(2, 3, length, 5, dtype=dtype)
    B, C = torch.randn(2, 3, length, 4, dtype=dtype)
    inputs = x, dt.abs(), -torch.rand(5, 4, dtype=dtype), B, C.mT.contiguous().mT
    return tuple(each.requires_grad_() for each in inputs)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("together", [1, 14, 128])
def test_selective_scan_without_operators_is_the_recurrence(threads, together, monkeypatch):
    inputs = draw_selective(7)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(selective_scan, "TOGETHER", together)  # one sequence, two and one, all three
    found, plain = cpu_selective_scan(*inputs), selective(*inputs)
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)
    back = torch.randn_like(plain)
    found, plain = (torch.autograd.grad(each, inputs, back) for each in (found, plain))
    torch.testing.assert_close(found, plain, rtol=1e-11, atol=1e-11)


def test_selective_scan_takes_a_batch_of_no_sequences():
    x, dt, A, B, C = draw_selective(7)
    found = cpu_selective_scan(x[:0], dt[:0], A, B[:0], C[:0])
    assert found.shape == (0, 7, 5)
    assert torch.autograd.grad(found.sum(), A)[0].abs().max() == 0


def test_selective_scan_leaves_its_operators_to_counters(monkeypatch):
    """What a stage costs does not depend on how its scan is computed."""
    x = torch.randn(1, 16, 8)
    network = Mamba().build(LayerContext(8, 16, causal=True))
    counted = [flops.count_flops(network, lambda: network(x).sum())]
    assert is_faster(x) and not is_faster(x.to("meta"))
    monkeypatch.setattr(transformers_layer, "is_faster", lambda _: False)
    counted += [flops.count_flops(network, lambda: network(x).sum())]
    assert counted[0] == counted[1]
