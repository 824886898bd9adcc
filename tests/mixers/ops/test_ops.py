"""Operations against their plain definitions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

import toys
from selfpretrain.mixers.ops import longconv
from selfpretrain.mixers.ops.longconv import causal_conv, fast_length, two_sided_conv


def plain_conv(u, past, future=None):
    y = torch.zeros_like(u)
    for t in range(u.shape[1]):
        for s in range(u.shape[1]):
            if s <= t:
                y[:, t] += past[:, t - s] * u[:, s]
            elif future is not None:
                y[:, t] += future[:, s - t - 1] * u[:, s]
    return y


@given(length=st.integers(1, 17), seed=st.integers(0, 99))
def test_convolutions_are_their_sums(length, seed):
    toys.settle(seed)
    u = torch.randn(2, length, 3, dtype=torch.double)
    past, future = torch.randn(2, 3, length, dtype=torch.double)
    torch.testing.assert_close(causal_conv(u, past), plain_conv(u, past))
    torch.testing.assert_close(two_sided_conv(u, past, future), plain_conv(u, past, future))
    short, taps = past.clone(), (length + 1) // 2
    short[:, taps:] = 0
    torch.testing.assert_close(causal_conv(u, past[:, :taps]), plain_conv(u, short))


def test_convolution_gradients_are_right():
    u = torch.randn(2, 5, 2, dtype=torch.double, requires_grad=True)
    past, future = (torch.randn(2, 5, dtype=torch.double, requires_grad=True) for _ in range(2))
    assert gradcheck(two_sided_conv, (u, past, future))
    assert gradcheck(causal_conv, (u, past[:, :3]))


def circular_conv(u, circle):
    n = circle.shape[1]
    spectrum = torch.fft.rfft(u.transpose(1, 2), n=n) * torch.fft.rfft(circle)
    return torch.fft.irfft(spectrum, n=n)[..., : u.shape[1]].transpose(1, 2)


@pytest.mark.parametrize("block", [64, 4096, 1 << 20])
def test_blocks_change_nothing(block, monkeypatch):
    monkeypatch.setattr(longconv, "BLOCK", block)
    inputs = torch.randn(3, 21, 5), torch.randn(5, 45)
    grad = torch.randn(3, 21, 5)
    outcomes = []
    for convolve in (circular_conv, longconv._BlockedConv.apply):
        u, circle = (x.clone().requires_grad_() for x in inputs)
        y = convolve(u, circle)
        outcomes.append((y, *torch.autograd.grad(y, (u, circle), grad)))
    for plain, blocked in zip(*outcomes, strict=True):
        torch.testing.assert_close(blocked, plain, atol=1e-5, rtol=1e-5)


def test_convolution_takes_half_precision_inputs():
    u, kernel = torch.randn(2, 40, 3), torch.randn(3, 40)
    half = causal_conv(u.bfloat16(), kernel)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), causal_conv(u.bfloat16().float(), kernel), atol=0.05, rtol=0.01)


@pytest.mark.parametrize(("n", "fast"), [(1, 1), (7, 8), (11, 12), (4006, 4050), (2000, 2000)])
def test_fast_lengths(n, fast):
    assert fast_length(n) == fast
