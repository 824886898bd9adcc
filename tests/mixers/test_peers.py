"""The same layers as other people have written them, with the same weights."""

import pytest
import torch

import toys
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.bigbird import BigBird
from selfpretrain.mixers.longformer import Longformer

pytestmark = pytest.mark.slow

L, D, H = 64, 16, 2


def build(mixer, causal=False):
    toys.settle()
    return mixer.build(LayerContext(D, L, causal))


def without_output(layer):
    torch.nn.init.eye_(layer.out.weight)
    torch.nn.init.zeros_(layer.out.bias)
    return layer


def padded():
    padding_mask = torch.ones(2, L, dtype=torch.bool)
    padding_mask[0, 48:] = False
    return padding_mask


def test_longformer():
    peers = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    layer = without_output(build(Longformer(heads=H, reach=4, first=3)))
    config = peers.LongformerConfig(
        hidden_size=D, num_attention_heads=H, attention_window=[8], attention_probs_dropout_prob=0.0
    )
    peer = peers.LongformerSelfAttention(config, 0).eval()
    for mine, names in ((layer.q, "query"), (layer.k, "key"), (layer.v, "value")):
        for name in (names, f"{names}_global"):
            getattr(peer, name).load_state_dict(mine.state_dict())
    x, padding_mask = torch.randn(2, L, D), padded()
    first = torch.zeros(2, L, dtype=torch.bool)
    first[:, :3] = True
    role = torch.zeros(2, L).masked_fill(~padding_mask, -10_000.0).masked_fill(first, 10_000.0)
    expected = peer(x, role, ~padding_mask, first, True)[0]
    torch.testing.assert_close(
        layer(x, padding_mask)[padding_mask], expected[padding_mask], atol=2e-6, rtol=1e-5
    )


def test_bigbird():
    peers = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    size = 4
    config = peers.BigBirdConfig(
        hidden_size=D, num_attention_heads=H, block_size=size, num_random_blocks=2, max_position_embeddings=L
    )
    peer = peers.BigBirdBlockSparseAttention(config, seed=0).train()  # its random blocks, which eval has not
    layer = without_output(build(BigBird(heads=H, size=size, random=0)))
    for mine, name in ((layer.q, "query"), (layer.k, "key"), (layer.v, "value")):
        getattr(peer, name).load_state_dict(mine.state_dict())
    drawn = []
    mask_of_random = peer._create_rand_mask_from_inputs
    peer._create_rand_mask_from_inputs = lambda a, b, blocks, *rest: (
        drawn.append(blocks[0]) or mask_of_random(a, b, blocks, *rest)
    )
    x, padding_mask = (
        torch.randn(2, L, D),
        torch.ones(2, L),
    )  # the peer takes the last block of padding for global
    blocked, band, rows, columns = peers.BigBirdModel.create_masks_for_block_sparse_attn(padding_mask, size)
    expected = peer(x, band, rows, columns, blocked, blocked)[0]
    layer.talks[:, 1:-1].scatter_(2, drawn[0], True)
    assert layer.talks[:, 1:-1].sum(-1).float().mean() > 6.5  # most of the random blocks are further ones
    torch.testing.assert_close(layer(x, None), expected, atol=2e-6, rtol=1e-5)
