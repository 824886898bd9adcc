"""Mixers that summarise, sort or transform a sequence, beyond the laws of their shelf."""

import math

import pytest
import torch

import toys
from selfpretrain.mixers.attention import Attention
from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.attention_heads import merge_heads, split_heads
from selfpretrain.mixers.fnet import FNet
from selfpretrain.mixers.linformer import Linformer
from selfpretrain.mixers.nystromformer import Nystromformer, _segments, pseudoinverse
from selfpretrain.mixers.reformer import ITSELF, Reformer
from selfpretrain.mixers.sinkhorn import Sinkhorn
from selfpretrain.mixers.synthesizer import Synthesizer

L, D, H = 12, 8, 2


def build(mixer, length=L, causal=False):
    toys.settle()
    return mixer.build(LayerContext(D, length, causal)).double()


def sequences(length=L):
    return torch.randn(2, length, D, dtype=torch.double)


def padded(length=L):
    padding_mask = torch.ones(2, length, dtype=torch.bool)
    padding_mask[0, length // 2 :] = False
    return padding_mask


def attention_like(layer, length=L):
    """Softmax attention with the projections of another layer."""
    attention = build(Attention(heads=H), length)
    mine = layer.state_dict()
    attention.load_state_dict({name: mine[name] for name in attention.state_dict()})
    return attention


def test_linformer_without_summing_up_is_attention():
    layer = build(Linformer(heads=H, rank=L))
    with torch.no_grad():
        layer.sum_k.copy_(torch.eye(L))
        layer.sum_v.copy_(torch.eye(L))
    x = sequences()
    torch.testing.assert_close(layer(x, None), attention_like(layer)(x, None))


@pytest.mark.parametrize("padding_mask", [None, padded()], ids=["whole", "padded"])
def test_nystromformer_with_all_positions_as_landmarks_is_attention(padding_mask):
    layer = build(Nystromformer(heads=H, landmarks=L, steps=30, kernel=0))
    x, real = sequences(), torch.ones(2, L, dtype=torch.bool) if padding_mask is None else padding_mask
    expected = attention_like(layer)(x, padding_mask)
    torch.testing.assert_close(layer(x, padding_mask)[real], expected[real], atol=1e-6, rtol=1e-6)


def test_nystromformer_cuts_segments_of_equal_length():
    real = torch.tensor([[True] * 7 + [False] * 3, [False] + [True] * 2 + [False] * 7])
    means, used = _segments(real, 3, torch.double)
    assert used.tolist() == [[True, True, True], [True, True, False]]
    assert means.count_nonzero(-1).tolist() == [[3, 2, 2], [1, 1, 0]]
    torch.testing.assert_close(means.sum(-1), used.double())
    assert not means.transpose(1, 2)[~real].any()


def test_nystromformer_convolves_values():
    layer = build(Nystromformer(heads=H, kernel=3))
    plain = build(Nystromformer(heads=H, kernel=0))
    plain.load_state_dict({name: w for name, w in layer.state_dict().items() if name != "near.weight"})
    x, w = sequences(), layer.near.weight[:, 0, :, 0]
    v = torch.nn.functional.pad(split_heads(layer.v(x), H), (0, 0, 1, 1))
    added = sum(w[None, :, j, None, None] * v[:, :, j : j + L] for j in range(3))
    more = layer(x, None) - plain(x, None)
    torch.testing.assert_close(more, merge_heads(added) @ layer.out.weight.T)


def test_the_pseudoinverse_is_that_of_every_matrix_on_its_own_in_few_steps():
    A = torch.randn(3, 2, 6, 6, dtype=torch.double)
    A[0, 0, :, 5] = A[0, 0, :, 0]  # one of them has no inverse
    torch.testing.assert_close(pseudoinverse(A, 40), torch.linalg.pinv(A), atol=1e-8, rtol=1e-8)
    A[1] *= 1000
    torch.testing.assert_close(pseudoinverse(A, 4)[:1], pseudoinverse(A[:1], 4))
    attention = (torch.randn(4, 16, 16, dtype=torch.double) * 3).softmax(-1)
    product = attention @ pseudoinverse(attention, 6) @ attention
    assert (product - attention).norm() < 0.01 * attention.norm()


def test_sinkhorn_balances_the_blocks_that_are_there():
    layer = build(Sinkhorn(heads=H, size=3, iterations=60))
    k = torch.randn(2, H, 4, 3, D // H, dtype=torch.double)
    there = torch.tensor([[True, True, True, True], [True, True, False, False]])
    order = layer._sort_matrix(k, there)
    torch.testing.assert_close(order.sum(-1), there[:, None].double().expand(-1, H, -1))
    torch.testing.assert_close(order.sum(-2), there[:, None].double().expand(-1, H, -1))


def test_sinkhorn_equals_the_formula():
    layer, x, size = build(Sinkhorn(heads=H, size=4)), sequences(), 4
    q, k, v = (split_heads(p(x), H).unflatten(2, (-1, size)) for p in (layer.q, layer.k, layer.v))
    order = layer._sort_matrix(k, torch.ones(2, 3, dtype=torch.bool))
    out = torch.zeros_like(q)
    for n in range(3):
        sorted_k = sum(order[:, :, n, m, None, None] * k[:, :, m] for m in range(3))
        sorted_v = sum(order[:, :, n, m, None, None] * v[:, :, m] for m in range(3))
        keys, values = torch.cat([k[:, :, n], sorted_k], 2), torch.cat([v[:, :, n], sorted_v], 2)
        out[:, :, n] = (q[:, :, n] @ keys.transpose(-1, -2) / (D // H) ** 0.5).softmax(-1) @ values
    torch.testing.assert_close(layer(x, None), layer.out(merge_heads(out.flatten(2, 3))))


def hashed_attention(layer, q, v):
    """The formula of Reformer for one head of one sequence, position by position."""
    length, rounds = len(q), layer.rotations.shape[1]
    k, near = q / q.norm(dim=-1, keepdim=True), []
    for r in range(rounds):
        turned = q @ layer.rotations[0, r]
        bucket = torch.cat([turned, -turned], -1).argmax(-1).tolist()
        chunk = {t: at // layer.size for at, t in enumerate(sorted(range(length), key=lambda t: bucket[t]))}
        near.append([[s for s in range(length) if chunk[t] - chunk[s] in (0, 1)] for t in range(length)])
    out = []
    for t in range(length):
        logits = [
            torch.stack([q[t] @ k[s] / len(q[t]) ** 0.5 if s != t else q.new_tensor(ITSELF) for s in seen[t]])
            for seen in near
        ]
        by_round = torch.stack([a.softmax(0) @ v[seen[t]] for a, seen in zip(logits, near, strict=True)])
        out.append(torch.stack([a.logsumexp(0) for a in logits]).softmax(0) @ by_round)
    return torch.stack(out)


def test_reformer_equals_the_formula():
    layer = build(Reformer(heads=1, size=4, rounds=3), length=22)
    x = sequences(22)[:1]
    expected = layer.out(hashed_attention(layer, layer.q(x)[0], layer.v(x)[0]))
    torch.testing.assert_close(layer(x, None)[0], expected)


@pytest.mark.parametrize("dot_product", [False, True])
@pytest.mark.parametrize("kind", ["dense", "random", "factorised"])
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
def test_synthesizer_equals_the_formula(kind, dot_product, causal):
    layer = build(Synthesizer(heads=H, kind=kind, dot_product=dot_product), causal=causal)
    x, padding_mask = sequences(9), padded(9)
    made = layer.made
    if kind == "dense":
        logits = torch.relu(split_heads(made.up(x), H)) @ made.down[:, :, :9]
    else:
        table = made.table if kind == "random" else made.left @ made.right.mT
        logits = table[None, :, :9, :9].expand(2, -1, -1, -1)
    if dot_product:
        logits = logits + split_heads(layer.q(x), H) @ split_heads(layer.k(x), H).mT / math.sqrt(D // H)
    seen = padding_mask[:, None, None].expand(2, 1, 9, 9)
    seen = seen.tril() if causal else seen
    weights = logits.masked_fill(~seen, -torch.inf).softmax(-1)
    v = split_heads(layer.v(x), H)
    torch.testing.assert_close(layer(x, padding_mask), layer.out(merge_heads(weights @ v)))


def test_fnet_is_two_discrete_fourier_transforms():
    def dft(n):
        angle = torch.outer(torch.arange(n), torch.arange(n)).double() * (-2 * math.pi / n)
        return torch.complex(angle.cos(), angle.sin()) / n**0.5

    x = sequences()
    expected = (dft(L) @ x.to(torch.complex128) @ dft(D)).real
    torch.testing.assert_close(build(FNet())(x, None), expected)
