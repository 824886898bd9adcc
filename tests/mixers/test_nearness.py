"""Starts and biases of attention that stand in for what pretraining may teach."""

import pytest
import torch

import toys
from selfpretrain.data.dataset import generator
from selfpretrain.mixers.alibi import Alibi
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.resnet import ResNet


@pytest.fixture(autouse=True)
def one_thread():
    toys.settle()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_alibi_is_its_formula_position_by_position(causal, padded):
    layer = Alibi(2).build(LayerContext(8, 7, causal)).double()
    x = torch.randn(2, 7, 8, dtype=torch.double, generator=generator("x"))
    mask = torch.ones(2, 7, dtype=torch.bool)
    if padded:
        mask[1, 4:] = False
    found = layer(x, mask if padded else None)
    q, k, v = layer.project(x)
    mixed = torch.zeros(2, 7, 8, dtype=torch.double)
    for b, h, t in ((b, h, t) for b in range(2) for h in range(2) for t in range(7)):
        seen = [s for s in range(7) if mask[b, s] and (s <= t or not causal)]
        scores = torch.stack(
            [q[b, h, t] @ k[b, h, s] / 2 - 2 ** (-8 * (h + 1) / 2) * abs(t - s) for s in seen]
        )
        mixed[b, t, 4 * h : 4 * h + 4] = scores.softmax(0) @ v[b, h, seen]
    expected = layer.out(mixed)
    assert torch.allclose(found[mask], expected[mask])


@torch.no_grad()
def test_a_mimetic_start_has_the_products_of_the_paper():
    D, heads = 64, 4
    layer = Attention(heads, start="mimetic").build(LayerContext(D, 16))
    product = layer.out.weight @ layer.v.weight
    noise = (product + 0.4 * torch.eye(D)) / 0.4 * D**0.5
    assert float(noise.std()) == pytest.approx(1, abs=0.05) and abs(float(noise.mean())) < 0.05
    assert float(product.diagonal().mean()) == pytest.approx(-0.4, abs=0.05)
    for q, k in zip(layer.q.weight.split(D // heads), layer.k.weight.split(D // heads), strict=True):
        score = q.T @ k
        assert torch.linalg.matrix_rank(score) == D // heads
        assert float(score.diagonal().mean()) > 5 * abs(float(score.mean()))
    for projection in (layer.q, layer.k, layer.v, layer.out):
        assert not projection.bias.any()


@torch.no_grad()
def test_positions_attend_to_similar_ones_from_a_mimetic_start():
    content = torch.randn(4, 64, generator=generator("content"))
    x = content[torch.arange(16) % 4][None]
    weights = Attention(4, start="mimetic").build(LayerContext(64, 16)).weights(x)[0].mean(0)
    same = (torch.arange(16)[:, None] - torch.arange(16)) % 4 == 0
    assert float(weights[same].mean()) > 1.5 * float(weights[~same].mean())


def test_a_residual_block_reaches_as_far_as_its_kernels():
    for causal, reach in ((False, (-6, 6)), (True, (-12, 0))):
        layer = ResNet().build(LayerContext(8, 40, causal)).double()
        x = torch.randn(1, 40, 8, dtype=torch.double, requires_grad=True, generator=generator("x"))
        layer(x)[0, 20].sum().backward()
        seen = x.grad[0].abs().sum(-1).nonzero()[:, 0] - 20
        assert (int(seen.min()), int(seen.max())) == reach
