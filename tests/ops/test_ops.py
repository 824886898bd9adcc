"""Operations against their plain definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

import toys
from selfpretrain.ops.longconv import causal_conv, fast_length, two_sided_conv
from selfpretrain.ops.rotary import angles, rotate
from selfpretrain.ops.vandermonde import modal_kernel


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
@settings(max_examples=20, deadline=None)
def test_convolutions_are_their_sums(length, seed):
    toys.settle(seed)
    u = torch.randn(2, length, 3, dtype=torch.double)
    past, future = torch.randn(2, 3, length, dtype=torch.double)
    torch.testing.assert_close(causal_conv(u, past), plain_conv(u, past))
    torch.testing.assert_close(two_sided_conv(u, past, future), plain_conv(u, past, future))


@given(length=st.integers(1, 50), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_modal_kernel_is_its_sum(length, seed):
    toys.settle(seed)
    rate = torch.complex(-torch.rand(2, 3, dtype=torch.double), torch.randn(2, 3, dtype=torch.double))
    weight = torch.randn(2, 2, 3, dtype=torch.cdouble)
    powers = torch.exp(rate[..., None] * torch.arange(length))
    plain = 2 * torch.einsum("chn,hnl->chl", weight, powers).real
    torch.testing.assert_close(modal_kernel(weight, rate, length), plain, atol=1e-10, rtol=1e-10)


def test_gradients_are_right():
    toys.settle()
    u = torch.randn(1, 5, 2, dtype=torch.double, requires_grad=True)
    past, future = (torch.randn(2, 5, dtype=torch.double, requires_grad=True) for _ in range(2))
    assert gradcheck(two_sided_conv, (u, past, future))
    decay, frequency, weight = (torch.randn(2, 3, dtype=torch.double, requires_grad=True) for _ in range(3))

    def kernel(d, f, w):
        return modal_kernel(torch.complex(w, d)[None], torch.complex(-d.exp(), f), 7)

    assert gradcheck(kernel, (decay, frequency, weight))


def test_rotation_keeps_length_and_shows_distance():
    toys.settle()
    theta = angles(9, 6)
    q, k = torch.randn(2, 1, 1, 1, 6, dtype=torch.double).expand(2, 1, 1, 9, 6)
    turned_q, turned_k = (rotate(x, theta.cos(), theta.sin()) for x in (q, k))
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1))
    logits = (turned_q @ turned_k.transpose(-1, -2))[0, 0]
    for distance in range(-8, 9):
        diagonal = logits.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


@pytest.mark.parametrize(("n", "fast"), [(1, 1), (7, 8), (11, 12), (4006, 4050), (2000, 2000)])
def test_fast_lengths(n, fast):
    assert fast_length(n) == fast
