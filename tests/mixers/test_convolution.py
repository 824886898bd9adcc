"""Mixers with long kernels beyond the laws of their shelf."""

import math

import pytest
import torch

import recurrences
import toys
from selfpretrain import registry
from selfpretrain.errors import SpecError
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.convolution import Convolution
from selfpretrain.mixers.common.hippo import legs, legs_matrix
from selfpretrain.mixers.dlr import DLR
from selfpretrain.mixers.dss import DSS
from selfpretrain.mixers.ema import EMA
from selfpretrain.mixers.longconv import LongConv
from selfpretrain.mixers.lssl import LSSL
from selfpretrain.mixers.s4 import S4
from selfpretrain.mixers.s4d import S4D

VARIANTS = [
    S4(),
    S4(init="random"),
    S4(copies=1, b_clip=None),
    S4D(),
    S4D(init="legs", rule="bilinear"),
    S4D(init="inv"),
    S4D(init="random"),
    DSS(),
    DSS(variant="softmax", init="random"),
    DLR(states=64),
    DLR(states=64, init="random"),
    EMA(),
    LSSL(states=16),
    LSSL(states=16, init="random"),
    LongConv(),
]
every_variant = pytest.mark.parametrize("mixer", VARIANTS, ids=repr)
every_recurrence = pytest.mark.parametrize("mixer", VARIANTS[:-1], ids=repr)


def build(mixer, width=4, length=64, causal=False):
    toys.settle()
    return mixer.build(LayerContext(width, length, causal))


def modes(pairs):
    return torch.view_as_complex(pairs.detach().double().contiguous())


def error(x, truth):
    return ((x - truth).abs().max() / truth.abs().max()).item()


def test_every_long_kernel_is_tested_here():
    kinds = [registry.find("mixers", name) for name in registry.names("mixers")]
    convolutions = {kind for kind in kinds if isinstance(build(kind(), width=8), Convolution)}
    assert convolutions == {type(mixer) for mixer in VARIANTS}


@every_recurrence
def test_kernel_is_the_recurrence(mixer):
    layer = build(mixer, causal=True).double()
    torch.testing.assert_close(layer.kernel(100)[0], recurrences.kernel(layer, 100), atol=1e-11, rtol=1e-10)


@every_variant
@pytest.mark.parametrize("length", [1, 2, 17, 31])
def test_kernel_of_a_shorter_sequence_is_a_prefix(mixer, length):
    layer = build(mixer).double()
    torch.testing.assert_close(layer.kernel(64)[..., :length], layer.kernel(length), atol=1e-12, rtol=1e-10)


@every_variant
def test_bidirectional_is_the_double_sum(mixer):
    layer, x = build(mixer, length=9).double(), torch.randn(2, 9, 4, dtype=torch.double)
    past, future = layer.kernel(9)
    y = layer.D * x
    for t in range(9):
        for s in range(9):
            y[:, t] += (past[:, t - s] if s <= t else future[:, s - t - 1]) * x[:, s]
    torch.testing.assert_close(layer(x), layer.gate(y), atol=1e-12, rtol=1e-10)


@every_variant
def test_single_precision_is_close_to_double(mixer):
    layer = build(mixer, width=8, length=1024)
    single = layer.kernel(1024)
    assert single.dtype == torch.float32
    assert error(single, layer.double().kernel(1024)) < (2e-5 if isinstance(mixer, LSSL) else 2e-6)


@every_variant
def test_autocast_does_not_touch_the_kernel(mixer):
    layer = build(mixer)
    plain = layer.kernel(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.kernel(64), plain)


@every_variant
def test_gradients_in_single_precision_are_those_of_double(mixer):
    layer, kernel_gradient = build(mixer, length=128), torch.randn(2, 4, 128)
    grads = []
    for precision in (torch.float32, torch.float64):
        layer.to(precision).zero_grad()
        layer.kernel(128).backward(kernel_gradient.to(precision))
        grads.append({n: p.grad.double() for n, p in layer.named_parameters() if p.grad is not None})
    assert max(error(grads[0][name], truth) for name, truth in grads[1].items()) < (
        5e-5 if isinstance(mixer, LSSL) else 5e-6
    )


@pytest.mark.parametrize("mixer", VARIANTS[:1] + VARIANTS[3:4] + VARIANTS[7:8] + VARIANTS[9:12], ids=repr)
def test_gradients_stay_finite_at_great_length(mixer):
    layer = build(mixer, width=1, length=65_536)
    layer(torch.randn(1, 65_536, 1)).square().mean().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_s4_without_the_rank_one_part_is_diagonal():
    """P = 0, and S4D's C takes B in."""
    s4, s4d = build(S4(states=8)).double(), build(S4D(states=8, rule="bilinear")).double()
    with torch.no_grad():
        s4.P.zero_()
        for name in ("log_dt", "log_decay", "frequency"):
            getattr(s4d, name).copy_(getattr(s4, name))
        s4d.C.copy_(torch.view_as_real(modes(s4.C) * modes(s4.B)))
    torch.testing.assert_close(s4.kernel(200), s4d.kernel(200), atol=1e-12, rtol=1e-10)


def test_s4_starts_as_hippo():
    """In another basis: B* A^k B are the same numbers for the dense matrix and for its normal form."""
    w, P, B = (torch.cat([z, z.conj()]) for z in map(torch.view_as_complex, legs(8)))
    A, dense_B = legs_matrix(8)
    normal = torch.diag(w) - torch.outer(P, P.conj())
    power, dense_power = torch.eye(8).to(normal), torch.eye(8).to(A)
    for _ in range(6):
        torch.testing.assert_close(
            (B.conj() @ power @ B).real, dense_B @ dense_power @ dense_B, rtol=1e-9, atol=0
        )
        power, dense_power = power @ normal, dense_power @ A


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_copies_of_s4_are_shared(copies):
    layer = build(S4(states=8, copies=copies))
    assert [len(p) for p in (layer.log_decay, layer.frequency, layer.P, layer.B)] == [copies] * 4
    assert layer.kernel(5).shape == (2, 4, 5)


def test_copies_must_divide_the_width():
    with pytest.raises(SpecError, match="copies=3 does not divide the width 4"):
        build(S4(copies=3))


def test_b_is_clipped():
    assert build(S4()).B.max() == 2
    assert build(S4(b_clip=None)).B.max() > 40


def test_dss_softmax_is_the_softmax():
    layer = build(DSS(states=5, variant="softmax"), length=12).double()
    A = torch.complex(-layer.log_decay.exp(), layer.frequency)
    table = torch.exp(layer.log_dt.exp()[:, None, None] * A[:, None] * torch.arange(12))
    rows = table / table.sum(-1, keepdim=True)
    plain = torch.einsum("chn,n,hnl->chl", modes(layer.W), 1 / A, rows).real
    torch.testing.assert_close(layer.kernel(12), plain)


def test_ema_is_the_moving_average():
    layer, u = build(EMA(states=3), causal=True).double(), torch.randn(20, 4, dtype=torch.double)
    averages = layer.averages
    p = torch.sigmoid(averages.weight[0])
    h, out = torch.zeros(4, 3, dtype=torch.double), []
    for t in range(20):
        h = p * averages.enter[0] * u[t, :, None] + (1 - p * torch.sigmoid(averages.damping[0])) * h
        out.append((averages.leave[0] * h).sum(-1) / math.sqrt(3))
    K = layer.kernel(20)[0]
    by_kernel = torch.stack([(K[:, : t + 1].flip(-1) * u[: t + 1].T).sum(-1) for t in range(20)])
    torch.testing.assert_close(by_kernel, torch.stack(out))


def test_dlr_shares_its_modes():
    layer = build(DLR(states=6), causal=True).double()
    rate = torch.complex(-layer.root_decay.square(), layer.frequency)
    plain = torch.einsum("chn,nl->chl", modes(layer.W), torch.exp(rate[:, None] * torch.arange(30))).real
    torch.testing.assert_close(layer.kernel(30), plain)


def test_long_convolution_ends_with_its_taps():
    K = build(LongConv(), length=8).kernel(12)
    assert K[..., 7].all()
    assert not K[..., 8:].any()
