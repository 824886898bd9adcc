"""Attention to some pairs of positions: local, window, sparse, longformer and bigbird beyond their laws."""

import itertools

import pytest
import torch
from torch.nn.attention import flex_attention

import toys
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.bigbird import BigBird
from selfpretrain.mixers.common import pairs as attended_pairs
from selfpretrain.mixers.common.attention_heads import merge_heads, rotate, split_heads
from selfpretrain.mixers.common.pairs import attend_pairs, make_block_mask
from selfpretrain.mixers.local import Local
from selfpretrain.mixers.longformer import Longformer
from selfpretrain.mixers.sparse import Sparse
from selfpretrain.mixers.window import Window

LONGEST, D, HEADS, BLOCK = 30, 8, 2, 4
PATTERNS = {
    "local": (Local(heads=HEADS, size=BLOCK), lambda i, j: (i // 4 - j // 4).abs() <= 1),
    "lopsided": (
        Local(heads=HEADS, size=3, before=2, after=0),
        lambda i, j: (i // 3 - j // 3 >= 0) & (i // 3 - j // 3 <= 2),
    ),
    "window": (Window(heads=HEADS, reach=5), lambda i, j: (i - j <= 5) & (j - i <= 5)),
    "strided": (Sparse(heads=HEADS, size=5), lambda i, j: ((i - j).abs() < 5) | ((i - j) % 5 == 0)),
    "fixed": (
        Sparse(heads=HEADS, pattern="fixed", size=5, summary=2),
        lambda i, j: (i // 5 == j // 5) | (j % 5 == 3) | (j % 5 == 4),
    ),
    "longformer": (
        Longformer(heads=HEADS, reach=2, first=3),
        lambda i, j: ((i - j).abs() <= 2) | (i < 3) | (j < 3),
    ),
}
every_pattern = pytest.mark.parametrize("name", [*PATTERNS, "bigbird"])
both_ways = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])


def build(name, causal, length=LONGEST):
    """A layer whose sequences have several blocks."""
    toys.settle()
    mixer = BigBird(heads=HEADS, size=BLOCK, random=2) if name == "bigbird" else PATTERNS[name][0]
    layer = mixer.build(LayerContext(D, length, causal, rotary=True)).double()
    if not layer.blockwise:
        layer.block = BLOCK
    return layer


def pairs(layer, name, length):
    """(H, L, L) of bool, straight from the definition."""
    i, j = torch.arange(length)[:, None], torch.arange(length)
    if name == "bigbird":
        seen = layer.talks.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)[:, :length, :length]
    else:
        seen = PATTERNS[name][1](i, j).expand(HEADS, -1, -1)
    return seen & (j <= i) if layer.causal else seen


def dense(layer, name, x, padding_mask):
    """The same layer by one masked softmax over all pairs."""
    L = x.shape[1]
    q, k, v = (split_heads(p(x), HEADS) for p in (layer.q, layer.k, layer.v))
    q, k = (rotate(y, layer.cos[:L].double(), layer.sin[:L].double()) for y in (q, k))
    seen = pairs(layer, name, L) & padding_mask[:, None, None, :]
    logits = q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5
    weights = logits.masked_fill(~seen, torch.finfo(logits.dtype).min).softmax(-1)
    return layer.out(merge_heads(weights @ v))


@every_pattern
@both_ways
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_is_masked_attention(name, causal, monkeypatch):
    """At any length, padded or not, with its gradients, and as the kernel for CUDA without its compiler."""
    layer = build(name, causal)
    for length, padded in itertools.product((1, 2, 4, 5, 13, 16, 29, LONGEST), (False, True)):
        x = torch.randn(2, length, D, dtype=torch.double)
        padding_mask = torch.rand(2, length) > 0.3 if padded else torch.ones(2, length, dtype=torch.bool)
        y, expected = layer(x, padding_mask if padded else None), dense(layer, name, x, padding_mask)
        torch.testing.assert_close(y[padding_mask], expected[padding_mask], atol=1e-12, rtol=1e-12)
    x, whole = x.requires_grad_(), torch.ones_like(padding_mask)
    by_blocks = torch.autograd.grad(layer(x, None).sin().sum(), [x, layer.k.weight])
    at_once = torch.autograd.grad(dense(layer, name, x, whole).sin().sum(), [x, layer.k.weight])
    torch.testing.assert_close(by_blocks, at_once, atol=1e-12, rtol=1e-10)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    q, k, v = (torch.randn(2, HEADS, LONGEST, D // HEADS) for _ in range(3))
    whole[0, 20:] = False
    with torch.no_grad():
        y = attend_pairs(q, k, v, whole, make_block_mask(layer._sees, HEADS, LONGEST, q.device))
    expected = layer.mix(q, k, v, whole)
    torch.testing.assert_close(y.transpose(1, 2)[whole], expected.transpose(1, 2)[whole])


@every_pattern
def test_masks_need_not_be_kept(name, monkeypatch):
    x = torch.randn(1, LONGEST, D, dtype=torch.double)
    kept = build(name, causal=True)(x, None)
    monkeypatch.setattr(attended_pairs, "MAX_CACHED", 0)
    layer = build(name, causal=True)
    assert torch.equal(layer(x, None), kept)
    assert all(near.mask is None for near in layer._plan)


def test_whole_blocks_need_no_mask():
    layer = build("local", causal=False, length=16)
    layer(torch.randn(1, 16, D, dtype=torch.double), None)
    assert [near.blocks for near in layer._plan] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    assert all(near.whole and near.mask is None for near in layer._plan)


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_goes_beyond_the_length_it_was_built_for(name):
    short, long = build(name, causal=False, length=6), build(name, causal=False)
    short.load_state_dict(long.state_dict())
    x = torch.randn(1, LONGEST, D, dtype=torch.double)
    short(x[:, :6], None)
    torch.testing.assert_close(short(x, None), long(x, None))


@both_ways
def test_bigbird_draws_as_many_blocks_as_it_says(causal):
    talks = BigBird(heads=4, size=2, random=3).build(LayerContext(8, 40, causal)).talks
    block = torch.arange(20)
    sure = (block[:, None] - block).abs() <= 1
    sure[0], sure[-1], sure[:, 0], sure[:, -1] = True, True, True, True
    assert talks[:, sure].all()
    drawn = (talks & ~sure).sum(-1)
    room = (~sure & (block <= block[:, None]) if causal else ~sure).sum(-1)
    assert torch.equal(drawn, room.clamp(max=3).expand(4, -1))
    assert not torch.equal(talks[0], talks[1])


def test_bigbird_sees_the_blocks_that_were_loaded():
    a, b = (BigBird(heads=HEADS, size=2, random=1).build(LayerContext(D, 40)).double() for _ in range(2))
    x = torch.randn(1, 40, D, dtype=torch.double)
    before = b(x, None)
    b.load_state_dict(a.state_dict())
    assert not torch.allclose(b(x, None), before)
    assert torch.equal(b(x, None), a(x, None))
