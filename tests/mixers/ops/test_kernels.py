"""Kernels of state space models against their definitions, and discretisation against linear algebra."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

import toys
from selfpretrain.mixers.ops import powers as powers_module
from selfpretrain.mixers.ops._exact import full_precision
from selfpretrain.mixers.ops.modes import modal_kernel, shared_kernel
from selfpretrain.mixers.ops.powers import dense, dplr_kernel, powers_kernel
from selfpretrain.mixers.ops.state_matrices import bilinear_dplr

LENGTHS = [1, 2, 3, 7, 64, 97]


def modes(*shape, real=False):
    decay = -torch.rand(*shape, dtype=torch.double)
    return decay if real else torch.complex(decay, 3 * torch.randn(*shape, dtype=torch.double))


def numbers(*shape, real=False):
    return torch.randn(*shape, dtype=torch.double if real else torch.cdouble)


def plain_modal(weight, rate, length):
    """sum_n weight_n exp(rate_n l), term by term."""
    table = torch.exp(rate[..., None] * torch.arange(length))
    return torch.real(torch.einsum("chn,hnl->chl", weight, table))


def plain_recurrence(A, B, C, length):
    """C A^l B, step by step."""
    kernel = []
    for _ in range(length):
        kernel.append((C * B).sum(-1))
        B = (A @ B[..., None])[..., 0]
    return torch.stack(kernel, dim=-1)


def contraction(*shape):
    """A - I for some A that makes nothing longer."""
    A = torch.randn(*shape, shape[-1], dtype=torch.double)
    return A / torch.linalg.matrix_norm(A, 2)[..., None, None] - torch.eye(shape[-1])


def dplr(H, N, scale=1.0):
    decay, frequency = torch.randn(H, N).double().exp(), 10 * scale * torch.randn(H, N).double()
    A = torch.stack([-decay, frequency], dim=-1)
    P, B = scale * torch.randn(2, H, N, 2, dtype=torch.double)
    return A, P, B, torch.rand(H, dtype=torch.double) + 0.01


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("length", LENGTHS)
def test_modal_and_shared_kernels_are_their_sums(length, outputs):
    for real in (False, True):
        weight, rate = numbers(outputs, 3, 5, real=real), modes(3, 5, real=real)
        expected = plain_modal(weight, rate, length)
        torch.testing.assert_close(modal_kernel(weight, rate, length), expected, atol=1e-12, rtol=1e-12)
    weight, rate = numbers(outputs, 3, 5), modes(outputs, 5)
    expected = plain_modal(weight.transpose(0, 1), rate, length).transpose(0, 1)
    for block in (4, 512):
        found = shared_kernel(weight, rate, length, block)
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)


def test_modes_that_died_are_left_out_and_not_missed_but_not_those_that_are_no_number():
    decay = torch.tensor([[9.0, 1e-3, 40.0, 3.0, 0.1, 90.0], [9.0, 90.0, 9.0, 9.0, 9.0, 9.0]]).double()
    weight, rate = numbers(2, 3, 6), torch.complex(-decay, modes(2, 6).imag)
    plain = plain_modal(weight.transpose(0, 1), rate, 60).transpose(0, 1)
    torch.testing.assert_close(shared_kernel(weight, rate, 60, 4), plain, atol=1e-14, rtol=1e-12)
    rate = torch.complex(torch.tensor([[-0.1, torch.nan, -9.0]]).double(), torch.rand(1, 3).double())
    assert shared_kernel(numbers(1, 2, 3), rate, 10, 4).isnan().all()


@pytest.mark.parametrize("most_leaps", [1, 3, 128])
@pytest.mark.parametrize("length", LENGTHS)
def test_kernels_of_full_matrices_are_their_recurrences(length, most_leaps, monkeypatch):
    monkeypatch.setattr(powers_module, "MAX_ROW_PRODUCTS", most_leaps)
    toys.settle()
    for outputs in (1, 2):
        system, C = bilinear_dplr(*dplr(3, 4)), numbers(outputs, 3, 8, real=True)
        A = dense(system) + torch.eye(8)
        plain = torch.stack([plain_recurrence(A, system.B, c, length) for c in C])
        torch.testing.assert_close(dplr_kernel(system, C, length), plain, atol=1e-12, rtol=1e-10)
        change, B, C = contraction(3, 5), numbers(3, 5, real=True), numbers(outputs, 3, 5, real=True)
        plain = torch.stack([plain_recurrence(change + torch.eye(5), B, c, length) for c in C])
        found = powers_kernel(change, B[:, None], C, length)
        torch.testing.assert_close(found, plain, atol=1e-12, rtol=1e-10)


@given(seed=st.integers(0, 1000), log_dt=st.floats(-12, 2))
@settings(max_examples=10, deadline=None)
def test_dplr_kernel_keeps_single_precision_whatever_the_parameters(seed, log_dt):
    toys.settle(seed)
    A, P, B, dt = dplr(8, 16, 10.0)
    system = bilinear_dplr(A, P, B, torch.full_like(dt, 2.718**log_dt))
    C = numbers(1, 8, 32, real=True)
    truth = dplr_kernel(system, C, 500)
    assert (dplr_kernel(system, C.float(), 500) - truth).abs().max() < 1e-5 * truth.abs().max()


def test_gradients_of_kernels_are_right():
    few = torch.complex(torch.tensor([[-0.1, -20.0, -2.0]] * 2).double(), torch.rand(2, 3).double())
    system = dplr(2, 3)
    for kernel, inputs in (
        (lambda w, r: modal_kernel(w, r, 11), (numbers(2, 2, 3, real=True), modes(2, 3, real=True))),
        (lambda w, r: modal_kernel(w, r, 11), (numbers(2, 2, 3), modes(2, 3))),
        (lambda w, r: shared_kernel(w, r, 11, 4), (numbers(2, 2, 3), few)),
        (
            lambda change, B, C: powers_kernel(change, B[:, None], C, 13),
            (contraction(2, 3), numbers(2, 3, real=True), numbers(2, 2, 3, real=True)),
        ),
        (bilinear_dplr, system),
        (lambda C, *x: dplr_kernel(bilinear_dplr(*x), C, 13), (numbers(2, 2, 6, real=True), *system)),
    ):
        assert gradcheck(kernel, [x.clone().requires_grad_() for x in inputs], fast_mode=True)


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 1.0, 100.0]), log_dt=st.floats(-12, 3))
def test_no_step_of_a_dplr_system_makes_its_state_longer(seed, scale, log_dt):
    toys.settle(seed)
    A, P, B, dt = dplr(2, 5, scale)
    change = dense(bilinear_dplr(A, P, B, torch.full_like(dt, 2.718**log_dt)))
    assert torch.linalg.matrix_norm(change + torch.eye(10), 2).max() <= 1 + 1e-12


def test_short_steps_keep_their_digits():
    A, P, B, dt = dplr(3, 4)
    full = dense(bilinear_dplr(A, P, B, 1e-9 * dt)) / (1e-9 * dt[:, None, None])
    slower = dense(bilinear_dplr(A, P, B, 1e-10 * dt))
    torch.testing.assert_close(full, slower / (1e-10 * dt[:, None, None]), atol=1e-4, rtol=1e-6)


def test_exact_leaves_no_trace():
    products = torch.backends.mkldnn.matmul
    before = products.fp32_precision
    a = torch.randn(8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with full_precision(a.device):
            assert (a @ a).dtype == torch.float32
            assert products.fp32_precision == "ieee"
        assert (a @ a).dtype == torch.bfloat16
    assert products.fp32_precision == before
