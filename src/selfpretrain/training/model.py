"""The network: embed, then mix and transform ``depth`` times, then a head.

Parameter names follow one grammar, which transfer, freezing and optimizer groups speak:
``embed.*  blocks.<i>.mixer.*  blocks.<i>.mlp.*  blocks.<i>.norm1.*  blocks.<i>.norm2.*  norm.*  head.*``
"""

import math
import os
from collections.abc import Callable
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..config import Count, Rate, spec
from ..data.spec import SequenceSpec, Tokens, Values
from ..errors import SpecError
from ..mixers.base import LayerContext, Mixer, Positions, refuse_causal
from ..registry import name_of
from ..shapes import Answered, Inputs, PaddingMask, PositionMask, Vectors
from ..system import distributed

SYMBOL_STD, POSITION_STD = 0.25, 0.5
"""Spread of the first vectors of symbols and of learned positions, chosen in docs/adr/0021."""
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}


@spec
class Model:
    """What a recipe says of a network."""

    mixer: Mixer
    width: Count = 64
    depth: Annotated[int, Field(ge=1, le=10_000)] = 2
    expand: Annotated[int, Field(ge=0)] = 2  # hidden width of the mlp as a multiple of width; 0: no mlp
    norm: Literal["layer", "rms", "batch"] = "layer"
    placement: Literal["pre", "post"] = "pre"  # norm before mixer and mlp, or after the residual sum
    activation: Literal["gelu", "relu", "silu"] = "gelu"
    gated: bool = False  # mlp with a gated linear unit
    dropout: Rate = 0.0  # on what mixer and mlp add to the residual path
    positions: Literal["auto"] | Positions = "auto"  # auto: what the mixer prefers
    pooling: Literal["mean", "max", "last"] = "mean"  # over real positions
    causal: bool = False
    init: Literal["standard", "random"] = "standard"  # random: N(0, 0.1) for every parameter, gains included

    def __post_init__(self) -> None:
        refuse_causal(self.mixer, LayerContext(self.width, 1, self.causal))

    def build(self, form: SequenceSpec, head: nn.Module, symbols: tuple[str, ...] | None = None) -> "Network":
        """The network, freshly initialised from torch's global random state.

        Args:
            symbols: how each symbol is written, for mixers that know some; None: by its number.

        Raises:
            SpecError: if mixer, width and positions do not fit together.
        """
        if self.encoding == "rotary" and not self.mixer.rotates:
            raise SpecError(f"{name_of(self.mixer)} has no queries and keys to rotate; use other positions")
        if self.encoding == "sinusoidal" and self.width % 2:
            raise SpecError(f"sinusoidal positions need an even width, not {self.width}")
        network = Network(self, form, head)
        if network.embed.symbol is not None:
            written = symbols or tuple(map(str, range(network.embed.symbol.num_embeddings)))
            network.embed.start(self.mixer.rows(written))
        if self.init == "random":
            for parameter in network.parameters():
                nn.init.normal_(parameter, std=0.1)
        return network

    @property
    def encoding(self) -> Positions:
        """How positions are told, with "auto" resolved."""
        return self.mixer.positions if self.positions == "auto" else self.positions


class Embed(nn.Module):
    """Symbols or values to vectors; a position that is hidden becomes a learned vector."""

    def __init__(self, spec: Model, form: SequenceSpec) -> None:
        super().__init__()
        self.signal = form.signal
        self.symbol: nn.Embedding | None = None
        if symbols := _symbols(spec, form):
            self.symbol = nn.Embedding(symbols, spec.width)
            nn.init.normal_(self.symbol.weight, std=SYMBOL_STD)
        elif isinstance(form.signal, Values):
            self.value = nn.Linear(form.signal.channels, spec.width)
        self.mask_token = nn.Parameter(torch.randn(spec.width) * 0.02)
        if spec.encoding == "learned":
            self.position = nn.Parameter(torch.randn(form.length, spec.width) * POSITION_STD)
        elif spec.encoding == "sinusoidal":
            self.register_buffer("position", sinusoids(form.length, spec.width), persistent=False)
        self.placed = spec.encoding in ("learned", "sinusoidal")

    def forward(self, inputs: Inputs, masked: PositionMask = None) -> Vectors:
        """One vector per position.

        Raises:
            SpecError: if a sequence is longer than the positions that were learned or laid out.
        """
        if self.symbol is not None:
            x = self.symbol(self._looked_up(inputs))
            x = x if masked is None else torch.where(masked[..., None], self.mask_token, x)
        elif isinstance(self.signal, Values):
            values = self.signal.standardised(inputs)
            values = values if masked is None else values.masked_fill(masked[..., None], 0)
            x = self.value(values)
            x = x if masked is None else x + masked[..., None] * self.mask_token
        if not self.placed:
            return x
        if x.shape[1] > self.position.shape[0]:
            raise SpecError(f"sequence of length {x.shape[1]}, positions for {self.position.shape[0]}")
        return x + self.position[: x.shape[1]]

    @torch.no_grad()
    def start(self, rows: Float[Tensor, "V D"] | None) -> None:
        """Let symbols begin as these vectors, if there are any."""
        if rows is not None and self.symbol is not None:
            self.symbol.weight.copy_(rows)

    def _looked_up(self, inputs: Inputs) -> Int[Tensor, "B L"]:
        if isinstance(self.signal, Tokens):
            return inputs
        return self.signal.level_of(inputs[..., 0], self.signal.levels or 1)


class Block(nn.Module):
    """A mixer across positions and an mlp within them, each on a residual path."""

    def __init__(self, spec: Model, length: int) -> None:
        super().__init__()
        place = LayerContext(spec.width, length, spec.causal, spec.encoding == "rotary")
        self.pre, self.owns_residual = spec.placement == "pre", spec.mixer.owns_residual
        self.norm1 = None if spec.mixer.whole else make_norm(spec)
        self.mixer = spec.mixer.build(place)
        self.norm2 = make_norm(spec) if spec.expand else None
        self.mlp = Mlp(spec) if spec.expand else None
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """The sequence, mixed and transformed."""
        x = self._mixed(x, padding_mask)
        if self.mlp is None or self.norm2 is None:
            return x
        x = x + self.dropout(self.mlp(self.norm2(x, padding_mask) if self.pre else x))
        return x if self.pre else self.norm2(x, padding_mask)

    def _mixed(self, x: Vectors, padding_mask: PaddingMask) -> Vectors:
        if self.norm1 is None:
            return self.mixer(x, padding_mask).to(x.dtype)
        u = self.norm1(x, padding_mask) if self.pre else x
        x = (
            self.mixer(u, padding_mask, x)
            if self.owns_residual
            else x + self.dropout(self.mixer(u, padding_mask))
        )
        return x if self.pre else self.norm1(x, padding_mask)


class Mlp(nn.Module):
    """down(act(up(x))), or down(act(gate(x)) * up(x)) when gated."""

    def __init__(self, spec: Model) -> None:
        super().__init__()
        masked = spec.expand * spec.width
        self.up, self.down = nn.Linear(spec.width, masked), nn.Linear(masked, spec.width)
        self.gate = nn.Linear(spec.width, masked) if spec.gated else None
        self.act = ACTIVATIONS[spec.activation]

    def forward(self, x: Vectors) -> Vectors:
        """Every position on its own."""
        up = self.up(x)
        return self.down(self.act(up) if self.gate is None else self.act(self.gate(x)) * up)


class Network(nn.Module):
    """Embedding, blocks, final norm (where norms stand before the layers) and head."""

    def __init__(self, spec: Model, form: SequenceSpec, head: nn.Module) -> None:
        super().__init__()
        self.embed = Embed(spec, form)
        first = Block(spec, form.length)
        refuse_larger_than_memory(first, spec.depth)
        self.blocks = nn.ModuleList([first, *(Block(spec, form.length) for _ in range(spec.depth - 1))])
        self.norm = make_norm(spec) if spec.placement == "pre" else None
        self.head = head
        self.activation_checkpointing = (
            False  # blocks keep no activations, but work them out again on the way back
        )

    def features(
        self, inputs: Inputs, padding_mask: PaddingMask = None, masked: PositionMask = None
    ) -> Vectors:
        """What the head sees: one vector per position."""
        x = self.embed(inputs, masked).to(
            self.embed.mask_token.dtype
        )  # what blocks add to keeps its precision
        for block in self.blocks:
            if self.activation_checkpointing and torch.is_grad_enabled():
                x = checkpoint(block, x, padding_mask, use_reentrant=False)
            else:
                x = block(x, padding_mask)
        return x if self.norm is None else self.norm(x, padding_mask)

    def forward(
        self,
        inputs: Inputs,
        padding_mask: PaddingMask = None,
        masked: PositionMask = None,
        loss_mask: Answered = None,
    ) -> Float[Tensor, "answers K"]:
        """The head's answers: one per example, or one per position of ``loss_mask``."""
        x = self.features(inputs, padding_mask, masked)
        return self.head(x, padding_mask, loss_mask).to(x.dtype)


class LayerNorm(nn.Module):
    """Layer normalisation of every position on its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Zero mean, unit variance, learned gain and bias."""
        return self.norm(x)


class RMSNorm(nn.Module):
    """Root-mean-square normalisation of every position on its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Unit root mean square, learned gain."""
        return self.norm(x)


class BatchNorm(nn.Module):
    """Batch normalisation over real positions only and, in distributed training, over all processes."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Vectors, padding_mask: PaddingMask = None) -> Vectors:
        """Zero mean, unit variance per channel over the batch (running averages outside training)."""
        mean, variance = self._measure(x, padding_mask) if self.training else (self.mean, self.variance)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias

    def _measure(self, x: Vectors, padding_mask: PaddingMask) -> tuple[Tensor, Tensor]:
        real = x.new_ones(*x.shape[:2], 1) if padding_mask is None else padding_mask[..., None].to(x.dtype)
        n = distributed.all_reduce_with_gradient(real.sum())
        mean = distributed.all_reduce_with_gradient((x * real).sum((0, 1))) / n
        variance = distributed.all_reduce_with_gradient(((x - mean) ** 2 * real).sum((0, 1))) / n
        with torch.no_grad():
            self.mean.lerp_(mean, self.momentum)
            self.variance.lerp_(variance * n / (n - 1).clamp(min=1), self.momentum)
        return mean, variance


def refuse_larger_than_memory(block: nn.Module, depth: int) -> None:
    """Refuse so many equal blocks before they are made, if their weights alone cannot fit.

    Raises:
        SpecError: if this machine has less memory.
    """
    weights = [weight for weight in block.parameters() if not weight.is_meta]
    needed = depth * sum(weight.numel() * weight.element_size() for weight in weights)
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise SpecError(f"{depth:,} blocks take {needed >> 20:,} MB, this machine has {there >> 20:,} MB")


def _symbols(spec: Model, form: SequenceSpec) -> int:
    """How many symbols are looked up; 0: values are not."""
    if isinstance(form.signal, Tokens):
        return form.signal.vocab
    looked_up = spec.mixer.looks_up and form.signal.channels == 1
    return form.signal.levels or 0 if looked_up else 0


def make_norm(spec: Model) -> nn.Module:
    """The normalisation a model asks for."""
    return {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm}[spec.norm](spec.width)


def sinusoids(length: int, width: int) -> Float[Tensor, "L D"]:
    """Sin and cos of t * 10000^(-2m/D), interleaved. Source: Vaswani et al. (2017), section 3.5."""
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000) / width))
    theta = torch.outer(torch.arange(length, dtype=torch.float64), rate)
    return torch.stack([theta.sin(), theta.cos()], dim=-1).flatten(1).float()
