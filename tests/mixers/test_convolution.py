"""Mixers with long kernels beyond the laws of their shelf."""

import pytest
import torch

import toys
from selfpretrain import registry
from selfpretrain.data.dataset import generator
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.convolution import Convolution
from selfpretrain.mixers.dlr import DLR
from selfpretrain.mixers.dss import DSS
from selfpretrain.mixers.ema import EMA
from selfpretrain.mixers.longconv import LongConv
from selfpretrain.mixers.lssl import LSSL
from selfpretrain.mixers.resnet import ResNet
from selfpretrain.mixers.s4 import S4
from selfpretrain.mixers.s4d import S4D
from selfpretrain.mixers.spade import Spade
from selfpretrain.objectives.classify import Classify
from selfpretrain.training.model import Model
from selfpretrain.training.recipe import Budget, Stage
from steps import TOKENS, apart, backward, data

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


def build(mixer, width=4, length=64, causal=False):
    toys.settle()
    return mixer.build(LayerContext(width, length, causal))


def error(x, truth):
    return ((x - truth).abs().max() / truth.abs().max()).item()


def test_every_long_kernel_is_tested_here():
    kinds = [registry.find("mixers", name) for name in registry.names("mixers")]
    convolutions = {kind for kind in kinds if isinstance(build(kind(), width=8), Convolution)}
    assert convolutions == {type(mixer) for mixer in VARIANTS}


def test_the_kernel_of_lssl_is_the_bilinear_recurrence():
    """As for every other kernel of states, which golden values of published code check."""
    layer = build(LSSL(states=6), causal=True).double()
    half, eye = layer.log_dt.exp()[:, None, None] / 2 * layer.A, torch.eye(6, dtype=torch.double)
    A_bar = torch.linalg.solve(eye - half, eye + half)
    state = torch.linalg.solve(eye - half, layer.log_dt.exp()[:, None] * layer.B)
    for answer in layer.kernel(100)[0].T:
        torch.testing.assert_close(answer, (layer.C[0] * state).sum(-1), atol=1e-11, rtol=1e-10)
        state = (A_bar @ state[..., None])[..., 0]


@every_variant
def test_kernel_at_any_length_and_the_sum_of_both_directions(mixer):
    layer, x = build(mixer).double(), torch.randn(2, 9, 4, dtype=torch.double)
    whole = layer.kernel(64)
    for length in (1, 2, 17, 31):
        torch.testing.assert_close(whole[..., :length], layer.kernel(length), atol=1e-12, rtol=1e-10)
    past, future = layer.kernel(9)
    y = layer.D * x
    for t in range(9):
        for s in range(9):
            y[:, t] += (past[:, t - s] if s <= t else future[:, s - t - 1]) * x[:, s]
    torch.testing.assert_close(layer(x), layer.gate(y), atol=1e-12, rtol=1e-10)


@every_variant
def test_kernel_and_gradients_in_single_precision_are_close_to_double(mixer):
    factor, grads = 10 if isinstance(mixer, LSSL) else 1, []
    layer, kernel_gradient = build(mixer, length=1024), torch.randn(2, 4, 128)
    single = layer.kernel(1024)
    assert single.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.kernel(1024), single)
    for precision in (torch.float32, torch.float64):
        layer.to(precision).zero_grad()
        layer.kernel(128).backward(kernel_gradient.to(precision))
        grads.append({n: p.grad.double() for n, p in layer.named_parameters() if p.grad is not None})
    assert error(single, layer.kernel(1024)) < 2e-6 * factor
    assert max(error(grads[0][name], truth) for name, truth in grads[1].items()) < 5e-6 * factor


@pytest.mark.parametrize("mixer", VARIANTS[:1] + VARIANTS[3:4] + VARIANTS[7:8] + VARIANTS[9:12], ids=repr)
def test_gradients_stay_finite_at_great_length(mixer):
    layer = build(mixer, width=1, length=65_536)
    if isinstance(mixer, S4D):
        single, double = layer.kernel(16_384), build(mixer, width=1, length=65_536).double().kernel(16_384)
        assert error(single, double) < 1e-4
    layer(torch.randn(1, 65_536, 1)).square().mean().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_copies_of_s4_are_shared():
    for copies in (1, 2, 4):
        layer = build(S4(states=8, copies=copies))
        assert [len(p) for p in (layer.log_decay, layer.frequency, layer.P, layer.B)] == [copies] * 4
        assert layer.kernel(5).shape == (2, 4, 5)
    assert build(S4()).B.max() == 2 and build(S4(b_clip=None)).B.max() > 40, "B is clipped"


def test_long_convolution_ends_with_its_taps():
    K = build(LongConv(), length=8).kernel(12)
    assert K[..., 7].all()
    assert not K[..., 8:].any()


def test_a_residual_block_reaches_as_far_as_its_kernels():
    for causal, reach in ((False, (-6, 6)), (True, (-12, 0))):
        layer = build(ResNet(), width=8, length=40, causal=causal).double()
        x = torch.randn(1, 40, 8, dtype=torch.double, requires_grad=True)
        layer(x)[0, 20].sum().backward()
        seen = x.grad[0].abs().sum(-1).nonzero()[:, 0] - 20
        assert (int(seen.min()), int(seen.max())) == reach


def everything(mixer, joint):
    """The loss of a network of three blocks, and all gradients."""
    toys.settle()
    head = Classify().head(TOKENS, 8, "mean")
    network = Model(mixer, width=8, depth=3).build(TOKENS, head)
    network.joint_kernels = joint
    targets = Classify().make_targets(data().batch(torch.arange(4)), TOKENS, generator("ask"))
    loss, _ = backward(network, Stage(Classify(), Budget(steps=1), batch=4), TOKENS, targets)
    return loss, [p.grad for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("mixer", [*VARIANTS, Spade(heads=2, size=4)], ids=repr)
def test_kernels_of_all_blocks_at_once_are_those_of_each(mixer):
    calls = []
    kind = type(build(mixer, width=8))
    with pytest.MonkeyPatch.context() as patch:
        plain = kind.kernels
        patch.setattr(kind, "kernels", staticmethod(lambda *given: calls.append(given) or plain(*given)))
        (loss, gradients), (alone, those) = (everything(mixer, joint) for joint in (True, False))
    assert sum(len(layers) > 1 for layers, _ in calls) == 1
    torch.testing.assert_close(loss, alone, atol=0, rtol=1e-6)
    assert all(apart(x, y) < 1e-5 for x, y in zip(gradients, those, strict=True) if y.any())
    if not isinstance(mixer, DLR):  # whose modes die at other lags in other layers
        assert all(torch.equal(x, y) for x, y in zip((loss, *gradients), (alone, *those), strict=True))
