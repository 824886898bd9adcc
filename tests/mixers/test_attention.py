"""Attention beyond the laws of its shelf."""

import pytest
import torch

import toys
from selfpretrain.errors import SpecError
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext


def test_equals_the_formula_with_independent_projections():
    toys.settle()
    layer = Attention(heads=1).build(LayerContext(6, 7, causal=True)).double()
    starts = [p.weight for p in (layer.q, layer.k, layer.v, layer.out)]
    assert all(not torch.equal(a, b) for i, a in enumerate(starts) for b in starts[:i])
    x = torch.randn(2, 7, 6, dtype=torch.double)
    logits = layer.q(x) @ layer.k(x).transpose(1, 2) / 6**0.5
    weights = logits.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf).softmax(-1)
    torch.testing.assert_close(layer(x, None), layer.out(weights @ layer.v(x)))


def test_rotary_attention_sees_distances_only():
    toys.settle()
    layer = Attention(heads=2).build(LayerContext(8, 4, rotary=True)).double()  # for shorter sequences
    token = torch.randn(4, 8, dtype=torch.double)
    far = torch.zeros(1, 12, 8, dtype=torch.double)
    padding_mask = torch.zeros(2, 12, dtype=torch.bool)
    x = far.repeat(2, 1, 1)
    x[0, :4], x[1, 5:9] = token, token
    padding_mask[0, :4], padding_mask[1, 5:9] = True, True
    y = layer(x, padding_mask)
    torch.testing.assert_close(y[0, :4], y[1, 5:9], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("width", "heads", "rotary"), [(10, 4, False), (6, 2, True)])
def test_says_what_does_not_fit(width, heads, rotary):
    with pytest.raises(SpecError, match=r"heads|head size"):
        Attention(heads=heads).build(LayerContext(width, 4, rotary=rotary))
