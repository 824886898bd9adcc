"""Layers of public packages, with the settings that ours have on the shelf.

Packages that offer the inner part alone get the projections that ours has around it. What differs from ours
is said case by case.
"""

import copy
from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor, nn

from selfpretrain.mixers.base import LayerContext
from selfpretrain.mixers.common.attention_heads import merge_heads, split_heads
from selfpretrain.registry import find

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Make = Callable[[int, int, int], nn.Module]
"""(width, heads, length) -> a module from (B, L, D) to the same."""


class Around(nn.Module):
    """Projections around an attention of heads (B, H, L, E)."""

    def __init__(self, width: int, heads: int, attend: Attend) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(p(x), self.heads) for p in (self.q, self.k, self.v))
        return self.out(merge_heads(self.attend(q, k, v)))


class Then(nn.Module):
    """A layer called as it wants to be, and the output projection it lacks."""

    def __init__(self, layer: nn.Module, call: Callable[[nn.Module, Tensor], Tensor], width: int = 0) -> None:
        super().__init__()
        self.layer, self.call = layer, call
        self.out = nn.Linear(width, width) if width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.call(self.layer, x))


def squares(width: int, heads: int, length: int) -> nn.Module:
    """All products as one matrix, the formula as it is written."""
    size = (width // heads) ** -0.5
    return Around(width, heads, lambda q, k, v: (q @ k.mT * size).softmax(-1) @ v)


def torch_attention(width: int, heads: int, length: int) -> nn.Module:
    """The layer of torch itself."""
    layer = nn.MultiheadAttention(width, heads, batch_first=True)
    return Then(layer, lambda layer, x: layer(x, x, x, need_weights=False)[0])


def local(width: int, heads: int, length: int) -> nn.Module:
    """Blocks of 128 and their neighbours."""
    attend = import_module("local_attention").LocalAttention(
        128, look_backward=1, look_forward=1, use_rotary_pos_emb=False
    )
    return Around(width, heads, attend)


def windowed(reach: int, first: int) -> Make:
    """Positions within reach, and a few first ones that are global and have projections of their own."""

    def make(width: int, heads: int, length: int) -> nn.Module:
        code = import_module("transformers.models.longformer.modeling_longformer")
        config = code.LongformerConfig(
            hidden_size=width,
            num_attention_heads=heads,
            attention_window=[2 * reach],
            attention_probs_dropout_prob=0.0,
        )

        def call(layer: nn.Module, x: Tensor) -> Tensor:
            masked = torch.zeros(x.shape[:2], dtype=torch.bool)
            of_all = masked.clone()
            of_all[:, :first] = True
            role = torch.zeros(x.shape[:2]).masked_fill(of_all, 10_000.0)
            return layer(x, role, masked, of_all, first > 0)[0]

        return Then(code.LongformerSelfAttention(config, 0), call, width)

    return make


def bigbird(width: int, heads: int, length: int) -> nn.Module:
    """Blocks of 64, three random ones."""
    code = import_module("transformers.models.big_bird.modeling_big_bird")
    config = code.BigBirdConfig(
        hidden_size=width,
        num_attention_heads=heads,
        block_size=64,
        num_random_blocks=3,
        max_position_embeddings=length,
        attention_probs_dropout_prob=0.0,
    )

    def call(layer: nn.Module, x: Tensor) -> Tensor:
        masks = code.BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(x.shape[:2]), 64)
        blocked, band, rows, columns = masks
        return layer(x, band, rows, columns, blocked, blocked)[0]

    return Then(code.BigBirdBlockSparseAttention(config, seed=0), call, width)


def linformer(width: int, heads: int, length: int) -> nn.Module:
    """256 sums; projections without bias."""
    return import_module("linformer").LinformerSelfAttention(width, length, k=256, heads=heads)


def linear(width: int, heads: int, length: int) -> nn.Module:
    """Features by softmax instead of elu + 1."""
    code = import_module("linear_attention_transformer.linear_attention_transformer")
    return code.SelfAttention(width, heads)


def performer(causal: bool) -> Make:
    """256 softmax features."""

    def make(width: int, heads: int, length: int) -> nn.Module:
        return import_module("performer_pytorch").SelfAttention(
            width, causal, heads, width // heads, nb_features=256, qkv_bias=True
        )

    return make


def nystrom(width: int, heads: int, length: int) -> nn.Module:
    """64 landmarks and a convolution over 35 positions; queries, keys and values without bias."""
    return import_module("nystrom_attention").NystromAttention(
        width, width // heads, heads, num_landmarks=64, residual_conv_kernel=35
    )


def nystrom_hf(width: int, heads: int, length: int) -> nn.Module:
    """The same in transformers, which takes this one length."""
    code = import_module("transformers.models.nystromformer.modeling_nystromformer")
    config = code.NystromformerConfig(
        hidden_size=width,
        num_attention_heads=heads,
        segment_means_seq_len=length,
        num_landmarks=64,
        conv_kernel_size=35,
        attention_probs_dropout_prob=0.0,
    )
    return Then(code.NystromformerSelfAttention(config), lambda layer, x: layer(x)[0], width)


def reformer(width: int, heads: int, length: int) -> nn.Module:
    """Two rounds, chunks of 64; queries without bias."""
    return import_module("reformer_pytorch").LSHSelfAttention(width, heads=heads, bucket_size=64, n_hashes=2)


def reformer_hf(width: int, heads: int, length: int) -> nn.Module:
    """The same in transformers."""
    code = import_module("transformers.models.reformer.modeling_reformer")
    config = code.ReformerConfig(
        hidden_size=width,
        num_attention_heads=heads,
        attention_head_size=width // heads,
        num_hashes=2,
        num_buckets=length // 64,
        lsh_attn_chunk_length=64,
        lsh_attention_probs_dropout_prob=0.0,
        attn_layers=["lsh"],
    )
    return Then(code.LSHSelfAttention(config), lambda layer, x: layer(x).hidden_states, width)


def sinkhorn(width: int, heads: int, length: int) -> nn.Module:
    """Blocks of 64, eight iterations; what sorts is a linear map; with Gumbel noise."""
    return import_module("sinkhorn_transformer").SinkhornSelfAttention(
        width, 64, length, heads=heads, sinkhorn_iter=8, use_simple_sort_net=True
    )


def fnet(width: int, heads: int, length: int) -> nn.Module:
    """The transform alone."""
    code = import_module("transformers.models.fnet.modeling_fnet")
    return Then(
        code.FNetBasicFourierTransform(code.FNetConfig(hidden_size=width)), lambda layer, x: layer(x)[0]
    )


def mega(width: int, heads: int, length: int) -> nn.Module:
    """64 keys, 16 averages and no bias on the distance; it has norms of its own."""
    return import_module("mega_pytorch.mega_pytorch").MegaLayer(
        dim=width, ema_heads=16, attn_dim_qk=64, attn_dim_value=2 * width, causal=False
    )


def mamba2(width: int, heads: int, length: int) -> nn.Module:
    """64 states and one group, causal: its plain PyTorch path, in chunks of 64, where it is fastest."""
    code = import_module("transformers.models.mamba2.modeling_mamba2")
    config = code.Mamba2Config(
        hidden_size=width,
        num_heads=heads,
        head_dim=2 * width // heads,
        state_size=64,
        n_groups=1,
        expand=2,
        conv_kernel=4,
        chunk_size=64,
    )
    return code.Mamba2Mixer(config, 0)


def library(name: str) -> Make:
    """A layer taken out of transformers as the library runs it on a CPU: its plain PyTorch path."""

    def make(width: int, heads: int, length: int) -> nn.Module:
        mixer = find("mixers", name)()
        layer = copy.deepcopy(mixer.build(LayerContext(width, length, causal=True)).past.layer)
        for part in layer.modules():
            vars(part).pop("_rnn_scan", None)
            if "_inference_fn" in vars(part):
                part._inference_fn = type(part)(part.config)._inference_fn
        return Then(layer, lambda layer, x: type(layer).forward(layer, x, **mixer.arguments(x)))

    return make
