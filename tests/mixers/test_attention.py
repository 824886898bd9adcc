"""Attention to all positions, with its biases and starts, beyond the laws of its shelf."""

import pytest
import torch

from selfpretrain.data.dataset import generator
from selfpretrain.mixers.alibi import Alibi
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext


def test_equals_the_formula_with_independent_projections():
    layer = Attention(heads=1).build(LayerContext(6, 7, causal=True)).double()
    starts = [p.weight for p in (layer.q, layer.k, layer.v, layer.out)]
    assert all(not torch.equal(a, b) for i, a in enumerate(starts) for b in starts[:i])
    x = torch.randn(2, 7, 6, dtype=torch.double)
    logits = layer.q(x) @ layer.k(x).transpose(1, 2) / 6**0.5
    weights = logits.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf).softmax(-1)
    torch.testing.assert_close(layer(x, None), layer.out(weights @ layer.v(x)))


@pytest.mark.parametrize("length", [7, 50, 200])
def test_causal_attention_needs_no_mask_for_padding_that_comes_last(length):
    q, k, v = (torch.randn(3, 2, length, 8, requires_grad=True) for _ in range(3))
    real = torch.arange(length) < torch.tensor([length, length // 2, 1])[:, None]
    layer = Attention(heads=2).build(LayerContext(16, length, causal=True))
    mask = real[:, None, None] & torch.ones(length, length, dtype=torch.bool).tril()
    masked = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    outputs = [y * real[:, None, :, None] for y in (layer.mix(q, k, v, real), masked)]
    gradients = [torch.autograd.grad(y.square().sum(), (q, k, v)) for y in outputs]
    assert torch.equal(*outputs)
    assert all(map(torch.equal, *gradients))


def test_rotary_attention_sees_distances_only():
    layer = Attention(heads=2).build(LayerContext(8, 4, rotary=True)).double()  # for shorter sequences
    token = torch.randn(4, 8, dtype=torch.double)
    x = torch.zeros(2, 12, 8, dtype=torch.double)
    padding_mask = torch.zeros(2, 12, dtype=torch.bool)
    x[0, :4], x[1, 5:9] = token, token
    padding_mask[0, :4], padding_mask[1, 5:9] = True, True
    y = layer(x, padding_mask)
    torch.testing.assert_close(y[0, :4], y[1, 5:9], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_alibi_is_its_formula(causal):
    layer = Alibi(2).build(LayerContext(8, 7, causal)).double()
    x = torch.randn(2, 7, 8, dtype=torch.double)
    padding_mask = torch.ones(2, 7, dtype=torch.bool)
    padding_mask[1, 4:] = False
    q, k, v = layer.project(x)
    apart = (torch.arange(7)[:, None] - torch.arange(7)).abs()
    slopes = torch.tensor([2.0**-4, 2.0**-8])[:, None, None]
    seen = padding_mask[:, None, None].expand(2, 1, 7, 7)
    seen = seen.tril() if causal else seen
    scores = (q @ k.mT / 2 - slopes * apart).masked_fill(~seen, -torch.inf)
    expected = layer.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, padding_mask)[padding_mask], expected[padding_mask])
    torch.testing.assert_close(layer(x)[0], expected[0])


@torch.no_grad()
def test_a_mimetic_start_has_the_products_of_the_paper_and_attends_to_similar_positions():
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
    assert not any(projection.bias.any() for projection in (layer.q, layer.k, layer.v, layer.out))
    content = torch.randn(4, D, generator=generator("content"))
    weights = layer.weights(content[torch.arange(16) % 4][None])[0].mean(0)
    same = (torch.arange(16)[:, None] - torch.arange(16)) % 4 == 0
    assert float(weights[same].mean()) > 1.5 * float(weights[~same].mean())
