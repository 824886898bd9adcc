"""The network: an embedding, ``depth`` residual blocks (mixer and MLP), a final norm and a head.

Weight transfer, freezing and optimizer groups rely on these parameter names:
``embed.*  blocks.<i>.mixer.*  blocks.<i>.mlp.*  blocks.<i>.norm1.*  blocks.<i>.norm2.*  norm.*  head.*``
"""

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..config import Count, Natural, Rate, spec
from ..data.spec import SequenceSpec, Tokens, Values
from ..errors import SpecError
from ..mixers.base import KernelLayer, LayerContext, Mixer, Positions, recompute_layers, refuse_causal
from ..objectives.common.heads import Pooling
from ..objectives.common.latent import LatentHead
from ..registry import name_of
from ..shapes import Inputs, LossMask, PaddingMask, PositionMask, Vectors
from ..system import distributed

SYMBOL_STD = 0.25
"""Standard deviation of initial token embeddings, see docs/decisions.md."""
POSITION_STD = 0.5
"""Standard deviation of initial learned position embeddings, see docs/decisions.md."""
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}


@spec
class Model:
    """Hyperparameters of a network."""

    mixer: Mixer
    width: Count = 64
    depth: Annotated[int, Field(ge=1, le=10_000)] = 2
    expand: Natural = 2  # hidden width of the MLP as a multiple of width; 0: no MLP
    norm: Literal["layer", "rms", "batch"] = "layer"
    placement: Literal["pre", "post"] = "pre"  # norm before mixer and MLP, or after the residual sum
    activation: Literal["gelu", "relu", "silu"] = "gelu"
    gated: bool = False  # MLP with a gated linear unit
    dropout: Rate = 0.0  # on the outputs of mixer and MLP, before the residual sum
    positions: Literal["auto", Positions] = "auto"  # position encoding; auto: the mixer's default
    pooling: Pooling = "mean"  # over real (unpadded) positions; attention: with learned weights
    causal: bool = False  # no position depends on later ones
    # torch: embeddings as ``torch.nn`` has them; random: N(0, 0.1) for every parameter
    init: Literal["standard", "torch", "random"] = "standard"

    def __post_init__(self) -> None:
        refuse_causal(self.mixer, LayerContext(self.width, 1, self.causal))
        if self.init == "random" and vars(self.mixer).get("pretrained"):
            raise SpecError(f"init=random would overwrite the pretrained weights of {name_of(self.mixer)}")

    def build(
        self,
        form: SequenceSpec,
        head: nn.Module,
        symbols: tuple[str, ...] | None = None,
        masks_inputs: bool = False,
    ) -> "Network":
        """Return the network, initialised from torch's global random state.

        Args:
            symbols: the text of every symbol, for mixers with pretrained embeddings; None: its number.
            masks_inputs: whether it is for an objective that masks inputs, see ``Embed.start_as_torch``.

        Raises:
            SpecError: if mixer, width and positions do not fit together.
        """
        if self.encoding == "rotary" and not self.mixer.rotates:
            raise SpecError(f"{name_of(self.mixer)} has no queries and keys to rotate; use other positions")
        if self.encoding == "sinusoidal" and self.width % 2:
            raise SpecError(f"sinusoidal positions need an even width, not {self.width}")
        network = Network(self, form, head)
        if self.init == "torch":
            network.embed.start_as_torch(masks_inputs)
        if network.embed.symbol is not None:
            texts = symbols or tuple(map(str, range(network.embed.symbol.num_embeddings)))
            rows = self.mixer.symbol_embeddings(texts)
            if rows is not None:
                with torch.no_grad():
                    network.embed.symbol.weight.copy_(rows)
        if self.init == "random":
            for parameter in network.parameters():
                nn.init.normal_(parameter, std=0.1)
        if isinstance(head, LatentHead):
            head.attach(network)
        return network

    @property
    def encoding(self) -> Positions:
        """Position encoding, with "auto" resolved."""
        return self.mixer.positions if self.positions == "auto" else self.positions


class Embed(nn.Module):
    """The embedding of tokens or values, with a learned mask token at masked positions."""

    def __init__(self, spec: Model, form: SequenceSpec) -> None:
        super().__init__()
        self.signal = form.signal
        self.symbol: nn.Embedding | None = None
        if isinstance(form.signal, Tokens):
            symbols = form.signal.vocab
        else:  # some mixers look levels up, as symbols; others have values projected linearly
            symbols = (form.signal.levels or 0) if spec.mixer.looks_up and form.signal.channels == 1 else 0
        if symbols:
            self.symbol = nn.Embedding(symbols, spec.width)
            nn.init.normal_(self.symbol.weight, std=SYMBOL_STD)
        elif isinstance(form.signal, Values):
            self.value = nn.Linear(form.signal.channels, spec.width)
        self.mask_token = nn.Parameter(torch.randn(spec.width) * 0.02)
        if spec.encoding == "learned":
            self.position = nn.Parameter(torch.randn(form.length, spec.width) * POSITION_STD)
        elif spec.encoding == "sinusoidal":
            self.register_buffer("position", sinusoids(form.length, spec.width), persistent=False)
        self.adds_positions = spec.encoding in ("learned", "sinusoidal")

    def forward(self, inputs: Inputs, masked: PositionMask = None) -> Vectors:
        """Return one vector per position.

        Raises:
            SpecError: if a sequence is longer than the position encoding.
        """
        x = self.content(inputs, masked)
        if not self.adds_positions:
            return x
        if x.shape[1] > self.position.shape[0]:
            raise SpecError(f"sequence of length {x.shape[1]}, positions for {self.position.shape[0]}")
        return x + self.position[: x.shape[1]]

    def content(self, inputs: Inputs, masked: PositionMask = None) -> Vectors:
        """Return the embedding of the input at every position, whatever the position."""
        if self.symbol is not None:
            if isinstance(self.signal, Values):
                inputs = self.signal.level_of(inputs[..., 0], self.signal.levels or 1)
            x = self.symbol(inputs)
            x = x if masked is None else torch.where(masked[..., None], self.mask_token, x)
        elif isinstance(self.signal, Values):
            values = self.signal.standardise(inputs)
            values = values if masked is None else values.masked_fill(masked[..., None], 0)
            x = self.value(values)
            x = x if masked is None else x + masked[..., None] * self.mask_token
        return x

    @torch.no_grad()
    def start_as_torch(self, masks_inputs: bool) -> None:
        """Initialise as one layer of ``torch.nn`` that has the mask token among its weights.

        Symbols and the mask token are rows of an ``nn.Embedding``, N(0, 1). Values are the C inputs of an
        ``nn.Linear``, which has a further input for masked positions if there are any: its weights are
        U(-1/sqrt(C), 1/sqrt(C)), or with C + 1 in place of C. Source: the code of Amos et al. (2024).
        """
        if self.symbol is not None:
            nn.init.normal_(self.symbol.weight)
            nn.init.normal_(self.mask_token)
            return
        bound = (self.value.in_features + masks_inputs) ** -0.5
        for weight in (*self.value.parameters(), self.mask_token):
            nn.init.uniform_(weight, -bound, bound)


class Block(nn.Module):
    """A residual block: a mixer across positions, then an MLP at every position."""

    def __init__(self, spec: Model, length: int, number: int) -> None:
        super().__init__()
        rotary = spec.encoding == "rotary"
        place = LayerContext(spec.width, length, spec.causal, rotary, number, spec.depth)
        self.pre = spec.placement == "pre"
        self.owns_residual = spec.mixer.owns_residual
        self.norm1 = None if spec.mixer.whole else make_norm(spec)
        self.mixer = spec.mixer.build(place)
        self.norm2 = make_norm(spec) if spec.expand else None
        self.mlp = Mlp(spec) if spec.expand else None
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None, kernel: Tensor | None = None) -> Vectors:
        """Return the sequence after mixer and MLP.

        Args:
            kernel: that of the mixer, see ``KernelLayer``; None: it has none, or computes its own.
        """
        x = self._mix(x, padding_mask, () if kernel is None else (kernel,))
        if self.mlp is None or self.norm2 is None:
            return x
        x = x + self.dropout(self.mlp(self.norm2(x, padding_mask) if self.pre else x))
        return x if self.pre else self.norm2(x, padding_mask)

    def _mix(self, x: Vectors, padding_mask: PaddingMask, kernel: tuple[Tensor, ...]) -> Vectors:
        if self.norm1 is None:
            return self.mixer(x, padding_mask).to(x.dtype)
        u = self.norm1(x, padding_mask) if self.pre else x
        if self.owns_residual:
            x = self.mixer(u, padding_mask, x)
        else:
            x = x + self.dropout(self.mixer(u, padding_mask, *kernel))
        return x if self.pre else self.norm1(x, padding_mask)


class Mlp(nn.Module):
    """down(act(up(x))), or down(act(gate(x)) * up(x)) when gated."""

    def __init__(self, spec: Model) -> None:
        super().__init__()
        hidden = spec.expand * spec.width
        self.up = nn.Linear(spec.width, hidden)
        self.down = nn.Linear(hidden, spec.width)
        self.gate = nn.Linear(spec.width, hidden) if spec.gated else None
        self.act = ACTIVATIONS[spec.activation]

    @staticmethod
    def size(spec: Model) -> int:
        """Return the bytes of the matrices of an MLP in single precision."""
        return 4 * (3 if spec.gated else 2) * spec.expand * spec.width**2

    def forward(self, x: Vectors) -> Vectors:
        """Apply the MLP to every position independently."""
        up = self.up(x)
        return self.down(self.act(up) if self.gate is None else self.act(self.gate(x)) * up)


class Network(nn.Module):
    """Embedding, blocks, final norm (pre-norm only) and head."""

    def __init__(self, spec: Model, form: SequenceSpec, head: nn.Module) -> None:
        super().__init__()
        self.embed = Embed(spec, form)
        # One block may be too large already: that of its MLP is known without building it.
        check_memory(Mlp.size(spec), spec.depth)
        first = Block(spec, form.length, 0)
        check_memory(sum(x.numel() * x.element_size() for x in first.parameters()), spec.depth)
        self.blocks = nn.ModuleList([first, *(Block(spec, form.length, i) for i in range(1, spec.depth))])
        self.norm = make_norm(spec) if spec.placement == "pre" else None
        self.head = head
        self.whole = spec.mixer.whole
        self.activation_checkpointing = False  # recompute the activations of blocks in the backward pass
        self.joint_kernels = False  # compute the convolution kernels of all blocks at once

    def networks(self) -> "list[Network]":
        """Return the networks that are trained independently of one another: this one."""
        return [self]

    def recompute_activations(self, on: bool) -> None:
        """Recompute activations in the backward pass, to save memory: block by block.

        A block that is a whole network recomputes those of its own layers, if it can.
        """
        inside = self.whole and recompute_layers(self.blocks, on)
        self.activation_checkpointing = on and not inside

    def features(
        self, inputs: Inputs, padding_mask: PaddingMask = None, masked: PositionMask = None
    ) -> Vectors:
        """Return the input of the head: one vector per position."""
        # The residual stream stays in fp32 under autocast.
        x = self.embed(inputs, masked).to(self.embed.mask_token.dtype)
        for block, kernel in zip(self.blocks, self._kernels(x.shape[1]), strict=True):
            if self.activation_checkpointing and torch.is_grad_enabled():
                contexts = functools.partial(_recompute_contexts, block)
                x = checkpoint(block, x, padding_mask, kernel, use_reentrant=False, context_fn=contexts)
            else:
                x = block(x, padding_mask, kernel)
        return x if self.norm is None else self.norm(x, padding_mask)

    def _kernels(self, length: int) -> Sequence[Tensor | None]:
        """Return the kernel of each block's mixer; None if it computes its own."""
        layers = [block.mixer for block in self.blocks]
        if self.joint_kernels and isinstance(layers[0], KernelLayer):
            return layers[0].kernels(layers, length)
        return [None] * len(layers)

    def forward(
        self,
        inputs: Inputs,
        padding_mask: PaddingMask = None,
        masked: PositionMask = None,
        loss_mask: LossMask = None,
    ) -> Float[Tensor, "outputs K"]:
        """Return the head's outputs: one per example, or one per position of ``loss_mask``."""
        x = self.features(inputs, padding_mask, masked)
        if isinstance(self.head, LatentHead):
            return self.head(x, padding_mask, loss_mask, self, inputs).to(x.dtype)
        return self.head(x, padding_mask, loss_mask).to(x.dtype)


class PositionNorm(nn.Module):
    """Layer or root-mean-square normalisation of every position, which takes no notice of padding."""

    def __init__(self, norm: nn.LayerNorm | nn.RMSNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Normalise every position, then apply the learned gain and, of a layer norm, bias."""
        return self.norm(x)


class BatchNorm(nn.Module):
    """Batch normalisation over real positions only and, in distributed training, over all processes."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.momentum = 0.1
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Normalise every channel by the batch's mean and variance, or by running averages.

        These count in eval mode, and where the layer is frozen: then they stay as they are.
        """
        by_batch = self.training and self.weight.requires_grad
        alone = not by_batch or (padding_mask is None and distributed.world_size() == 1)
        if alone and x.device.type != "cpu":  # the library's kernel keeps ``x`` alone for the backward pass
            statistics = (self.mean, self.variance, self.weight, self.bias, by_batch, self.momentum)
            return F.batch_norm(x.flatten(0, 1), *statistics, eps=1e-5).view_as(x)
        mean = self.mean
        variance = self.variance
        if by_batch:
            real = (
                x.new_ones(*x.shape[:2], 1) if padding_mask is None else padding_mask[..., None].to(x.dtype)
            )
            n = distributed.all_reduce_with_gradient(real.sum())
            mean = distributed.all_reduce_with_gradient((x * real).sum((0, 1))) / n
            variance = distributed.all_reduce_with_gradient(((x - mean) ** 2 * real).sum((0, 1))) / n
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                # As in torch: the running variance is unbiased, that of the batch is not.
                self.variance.lerp_(variance * n / (n - 1).clamp(min=1), self.momentum)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias


def _recompute_contexts(
    block: nn.Module,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a block's forward pass and of its recomputation in the backward pass."""
    return contextlib.nullcontext(), _copied_buffers(block)


@contextlib.contextmanager
def _copied_buffers(block: nn.Module) -> Iterator[None]:
    """Exchange buffers for copies, so that running statistics of batches stay as they are.

    Boolean buffers stay: they hold patterns of attention, whose layout would be computed again.
    """
    kept = [(module._buffers, dict(module._buffers)) for module in block.modules()]
    for buffers, before in kept:
        numbers = {name: x for name, x in before.items() if x is not None and x.dtype != torch.bool}
        buffers.update({name: x.clone() for name, x in numbers.items()})
    try:
        yield
    finally:
        for buffers, before in kept:
            buffers.update(before)


def count_parameters(module: nn.Module) -> int:
    """Return the number of real parameters; a complex one counts as two, however it is stored."""
    return sum(map(real_size, module.parameters()))


def real_size(weight: Tensor) -> int:
    """Return how many real numbers a weight has."""
    return weight.numel() * (2 if weight.is_complex() else 1)


def check_memory(block: int, depth: int) -> None:
    """Check, before building them, that the weights of ``depth`` equal blocks fit into memory.

    Args:
        block: bytes of the weights of one block.

    Raises:
        SpecError: if this machine has less memory.
    """
    if torch.get_default_device().type == "meta":
        return
    needed = depth * block
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise SpecError(f"{depth:,} blocks take {needed >> 20:,} MB, this machine has {memory >> 20:,} MB")


def make_norm(spec: Model) -> nn.Module:
    """Return the normalisation layer of a model."""
    if spec.norm == "batch":
        return BatchNorm(spec.width)
    if spec.norm == "rms":
        return PositionNorm(nn.RMSNorm(spec.width, eps=1e-6))
    return PositionNorm(nn.LayerNorm(spec.width))


def sinusoids(length: int, width: int) -> Float[Tensor, "L D"]:
    """Return sin and cos of t * 10000^(-2m/D), interleaved. Source: Vaswani et al. (2017), section 3.5."""
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000) / width))
    theta = torch.outer(torch.arange(length, dtype=torch.float64), rate)
    return torch.stack([theta.sin(), theta.cos()], dim=-1).flatten(1).float()
