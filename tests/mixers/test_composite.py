"""Luna, Mega and SPADE beyond the laws of their shelf and golden values."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import toys
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.attention_heads import merge_heads, split_heads
from selfpretrain.mixers.luna import Luna
from selfpretrain.mixers.mega import Mega
from selfpretrain.mixers.spade import Spade
from selfpretrain.training.model import Model

D, L = 8, 20
both_ways = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
LAPLACE = torch.distributions.Normal(0.5**0.5, (4 * torch.pi) ** -0.5)


def build(mixer, causal=False, rotary=False, length=L):
    toys.settle()
    return mixer.build(LayerContext(D, length, causal, rotary)).double()


def padded():
    padding_mask = torch.ones(2, L, dtype=torch.bool)
    padding_mask[0, 13:] = False
    return torch.randn(2, L, D, dtype=torch.double), padding_mask


def loud(layer):
    """All parameters large, so that nothing hides behind a small one."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)
    return layer


def test_luna_is_its_formula():
    layer = build(Luna(heads=2, slots=5))
    x, padding_mask = padded()
    p = split_heads(layer.p(layer.memory), 2)
    q, k, v = (split_heads(project(x), 2) for project in (layer.q, layer.k, layer.v))
    logits = (p @ k.mT / 2).masked_fill(~padding_mask[:, None, None], -torch.inf)
    M = merge_heads(logits.softmax(-1) @ v)
    k, v = split_heads(layer.k_memory(M), 2), split_heads(layer.v_memory(M), 2)
    expected = layer.out(merge_heads((q @ k.mT / 2).softmax(-1) @ v))
    torch.testing.assert_close(layer(x, padding_mask)[padding_mask], expected[padding_mask])


def plain_mega(layer, x, padding_mask, size, weigh):
    """The formula of the module's docstring with loops over pairs and lags."""
    past = layer.averages.kernel(L)
    u, average = x * padding_mask[..., None], layer.skip * x * padding_mask[..., None]
    for t in range(L):
        for s in range(L):
            if s <= t or not layer.causal:
                average[:, t] += (past[0, :, t - s] if s <= t else past[1, :, s - t - 1]) * u[:, s]
    M = F.silu(average)
    Q, K = (layer.gain[i] * F.silu(layer.z(M)) + layer.shift[i] for i in range(2))
    V, mixed = F.silu(layer.v(x)), []
    for t in range(L):
        first = t // size * size
        near = slice(first, t + 1 if layer.causal else min(first + size, L))
        lags = torch.arange(near.start, near.stop)
        bias, seen = layer.near[t - lags + layer.longest - 1], padding_mask[:, near]
        dots = (Q[:, t, None] @ K[:, near].mT)[:, 0]
        logits = dots / seen.sum(-1, keepdim=True).clamp(min=1) + bias
        if weigh == "laplace":
            weights = LAPLACE.cdf(logits) * seen
        elif weigh == "relu2":
            weights = logits.clamp(min=0) ** 2 * seen
        else:
            weights = (dots / Q.shape[-1] ** 0.5 + bias).masked_fill(~seen, -1e9).softmax(-1)
        mixed.append((weights[:, None] @ V[:, near])[:, 0])
    H = F.silu(layer.h(M) + layer.out(F.silu(layer.reset(M)) * torch.stack(mixed, dim=1)))
    u = torch.sigmoid(layer.update(M))
    return u * H + (1 - u) * x


@both_ways
@pytest.mark.parametrize("chunk", [None, 6])
@pytest.mark.parametrize("weigh", ["softmax", "laplace", "relu2"])
def test_mega_is_its_formula(causal, chunk, weigh):
    layer = loud(build(Mega(keys=6, states=3, chunk=chunk, weigh=weigh), causal))
    x, padding_mask = padded()
    expected = plain_mega(layer, x, padding_mask, chunk or L, weigh)
    torch.testing.assert_close(layer(x, padding_mask)[padding_mask], expected[padding_mask])


def test_mega_has_a_dropout_of_its_own_while_it_trains():
    x, layer = torch.randn(2, L, D, dtype=torch.double), build(Mega(dropout=0.5))
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_rotary_mega_asks_for_distances_only():
    layer = loud(build(Mega(keys=6), rotary=True))
    Q, K = torch.randn(2, 1, 1, 1, 6, dtype=torch.double).expand(2, 1, 1, L, 6)
    Q, K, bias = layer._with_positions(Q, K)
    weights = layer._weights(Q, K, torch.ones(1, 1, 1, L, dtype=torch.bool), bias)[0, 0].log()
    logits = weights - weights[:, :1]  # up to a constant of each row
    torch.testing.assert_close(logits[3, 5:15] - logits[3, 4], logits[7, 9:19] - logits[7, 8])
    assert logits.std() > 0.1


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_closed_gate_leaves_the_residual_path_as_it_is(norm):
    network = Model(Mega(), width=D, depth=1, expand=0, norm=norm, dropout=0.5).build(
        toys.Majority().form, nn.Identity()
    )
    (block,) = network.train().blocks
    x = 5 + torch.randn(2, L, D)
    assert not torch.allclose(block(x), x, atol=1e-2)
    nn.init.constant_(block.mixer.update.bias, -100)
    torch.testing.assert_close(block(x), x)


@both_ways
def test_spade_is_far_and_near(causal):
    layer, (x, padding_mask) = build(Spade(size=3), causal), padded()
    far, near = layer.norm_far(layer.far(x, padding_mask)), layer.norm_near(layer.near(x, padding_mask))
    both = layer.out(torch.cat([far, near], dim=-1))
    torch.testing.assert_close(layer(x, padding_mask)[padding_mask], both[padding_mask])
    other = torch.cat([x[:, :-1], torch.randn(2, 1, D).double()], dim=1)
    nn.init.zeros_(layer.out.weight[:, :D])
    assert torch.equal(layer(x)[:, :15], layer(other)[:, :15])  # attention reaches one block to either side
