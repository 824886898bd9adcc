"""Linear attention and performers beyond the laws of their shelf."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import toys
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.attention_heads import merge_heads, split_heads
from selfpretrain.mixers.linear import Linear
from selfpretrain.mixers.ops.linear_attention import causal_linear_attention
from selfpretrain.mixers.performer import Performer

both_ways = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])


def naive(layer, features, x, padding_mask):
    """The formula with all pairs written out."""
    q, k, v = (split_heads(p(x), layer.heads) for p in (layer.q, layer.k, layer.v))
    weights = features(q) @ features(k).transpose(-1, -2) * padding_mask[:, None, None, :]
    weights = weights.tril() if layer.causal else weights
    return layer.out(merge_heads(weights @ v / weights.sum(-1, keepdim=True)))


def random_features(layer):
    def favor(x):
        x = x * x.shape[-1] ** -0.25
        return (x @ layer.directions.T - x.square().sum(-1, keepdim=True) / 2).exp()

    def relu(x):
        x = x * x.shape[-1] ** -0.25
        return (x @ layer.directions.T).clamp(min=0) / len(layer.directions) ** 0.5 + 1e-3

    return favor if layer.kind == "favor" else relu


@pytest.mark.parametrize("mixer", [Linear(heads=2), Performer(heads=2), Performer(heads=2, kind="relu")])
@both_ways
def test_equals_the_formula(mixer, causal):
    layer = mixer.build(LayerContext(8, 20, causal)).double()
    features = (lambda x: F.elu(x) + 1) if isinstance(mixer, Linear) else random_features(layer)
    x, padding_mask = torch.randn(2, 20, 8, dtype=torch.double), torch.ones(2, 20, dtype=torch.bool)
    padding_mask[0, 13:] = False
    expected = naive(layer, features, x, padding_mask)
    torch.testing.assert_close(
        layer(x, padding_mask)[padding_mask], expected[padding_mask], atol=1e-12, rtol=1e-10
    )


@given(length=st.integers(1, 40), chunk=st.integers(1, 45))
def test_chunks_do_not_matter(length, chunk):
    toys.settle()
    q, k = (torch.rand(2, 3, length, 5, dtype=torch.double) for _ in range(2))
    v = torch.randn(2, 3, length, 4, dtype=torch.double)
    weights = (q @ k.transpose(-1, -2)).tril()
    y = causal_linear_attention(q, k, v, chunk)
    torch.testing.assert_close(y, weights @ v / weights.sum(-1, keepdim=True))


def test_no_real_key_divides_nothing_by_zero():
    layer, x = Linear().build(LayerContext(8, 6, causal=True)), torch.randn(1, 6, 8, requires_grad=True)
    y = layer(x, torch.tensor([[False, False, True, True, True, True]]))
    y.square().sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()


@both_ways
def test_large_queries_and_keys_do_not_overflow(causal):
    layer = Performer(heads=1).build(LayerContext(64, 30, causal))
    y = layer(30 * torch.randn(1, 30, 64), None)
    y.sum().backward()
    assert y.isfinite().all()
    assert layer.q.weight.grad.isfinite().all()


def in_logarithms(layer, x):
    """The formula of random features where no exponent can be too large or too small; the logits q.k."""
    q, k, v = (split_heads(p(x), layer.heads) for p in (layer.q, layer.k, layer.v))
    logits, (q, k) = q @ k.mT / q.shape[-1] ** 0.5, (y * y.shape[-1] ** -0.25 for y in (q, k))
    of_q, of_k = (y @ layer.directions.T - y.square().sum(-1, keepdim=True) / 2 for y in (q, k))
    rows = torch.stack([(of_k + row).logsumexp(-1) for row in of_q.split(1, dim=2)], dim=2)
    if layer.causal:
        rows = rows.masked_fill(torch.ones_like(rows).bool().triu(1), -torch.inf)
    return layer.out(merge_heads(rows.softmax(-1) @ v)), logits


LARGE = [(False, 1), (False, 8), (False, 25), (True, 1), (True, 8), (True, 11.5)]


@pytest.mark.parametrize(("causal", "scale"), LARGE)
def test_performer_keeps_single_precision_in_the_range_that_it_states(causal, scale):
    layer = Performer(heads=1).build(LayerContext(64, 300, causal))
    with torch.no_grad():
        for projection in (layer.q, layer.k):
            projection.weight *= scale
    wide, x = copy.deepcopy(layer).double(), torch.randn(1, 300, 64)
    y, (truth, logits) = layer(x, None), in_logarithms(wide, x.double())
    assert logits.std() > 0.32 * scale**2
    assert (y - truth).abs().max() < 1e-4 * truth.abs().max()
    of_y, of_truth = (
        torch.autograd.grad(out.square().sum(), one.q.weight)[0] for one, out in ((layer, y), (wide, truth))
    )
    assert (of_y - of_truth).abs().max() < 1e-3 * of_truth.abs().max()


def test_directions_are_orthogonal_and_as_long_as_gaussian_ones():
    directions = Performer(heads=2, features=2000).build(LayerContext(16, 4)).directions.view(-1, 8, 8)
    products = directions @ directions.transpose(-1, -2)
    lengths = products.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(products, torch.diag_embed(lengths), atol=1e-4, rtol=0)
    assert lengths.mean().item() == pytest.approx(8, rel=0.05)
