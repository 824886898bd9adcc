"""Recurrences that are worked out in chunks or by FFT, against the recurrences step by step."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

import toys
from selfpretrain.mixers.ops import decayed_attention as decayed_attention_module
from selfpretrain.mixers.ops.decayed_attention import decayed_attention
from selfpretrain.mixers.ops.modal_scan import modal_scan

H, M, E = 2, 3, 4
one_or_many = pytest.mark.parametrize("factors", [1, M], ids=["one factor", "one per feature"])


def draw(length, factors, heads=H, dtype=torch.double, strength=1.0):
    q, k = torch.randn(2, 2, heads, length, M, dtype=dtype)
    v, state = torch.randn(2, H, length, E, dtype=dtype), torch.randn(2, H, M, E, dtype=dtype)
    return q, k, v, -strength * torch.rand(2, H, length, factors, dtype=dtype), state


def step_by_step(q, k, v, g, state):
    y = []
    for t in range(v.shape[2]):
        state = g[:, :, t, :, None].exp() * state + k[:, :, t, :, None] * v[:, :, t, None]
        y.append((q[:, :, t, None] @ state)[:, :, 0])
    return torch.stack(y, dim=2), state


@one_or_many
@given(length=st.integers(1, 150), heads=st.sampled_from([1, H]), strength=st.sampled_from([0.0, 0.1, 300.0]))
@settings(max_examples=10, deadline=None)
def test_decayed_attention_is_the_recurrence(factors, length, heads, strength):
    toys.settle(length)
    inputs = draw(length, factors, heads, strength=strength)
    for found, expected in zip(decayed_attention(*inputs), step_by_step(*inputs), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@one_or_many
def test_gradients_of_decayed_attention_are_right(factors, monkeypatch):
    toys.settle()
    for name in ("CHUNK", "CHUNK_PER_FEATURE"):
        monkeypatch.setattr(decayed_attention_module, name, 4)
    inputs = [x[:1].requires_grad_() for x in draw(6, factors)]
    assert gradcheck(decayed_attention, inputs)


@one_or_many
@pytest.mark.parametrize("strength", [1e-3, 100.0])
def test_decayed_attention_keeps_single_precision_at_great_length(factors, strength):
    toys.settle()
    single = [x.requires_grad_() for x in draw(16_384, factors, dtype=torch.float32, strength=strength)]
    y, _ = decayed_attention(*single)
    truth, _ = decayed_attention(*(x.detach().double() for x in single))
    assert (y - truth).abs().max() < 1e-5 * truth.abs().max()
    y.sum().backward()
    assert all(x.grad.isfinite().all() for x in single)


def modes(length):
    u = torch.randn(2, length, 3, dtype=torch.complex128)
    rate = torch.complex(-torch.rand(3, dtype=torch.double), 6 * torch.rand(3, dtype=torch.double))
    return u, rate, torch.randn(2, 3, dtype=torch.complex128)


@given(length=st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_modal_scan_is_the_recurrence(length):
    toys.settle(length)
    u, rate, state = modes(length)
    z, last = modal_scan(u, rate, state)
    for t in range(length):
        state = rate.exp() * state + u[:, t]
        torch.testing.assert_close(z[:, t], state, atol=1e-11, rtol=1e-11)
    torch.testing.assert_close(last, state, atol=1e-11, rtol=1e-11)


def test_gradients_of_modal_scan_are_right():
    toys.settle()
    assert gradcheck(modal_scan, [x.requires_grad_() for x in modes(7)])
