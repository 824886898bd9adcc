"""The base class of token mixers, the context in which they are built, and layers of other code."""

import abc
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import SpecError
from ..registry import name_of

Positions = Literal["none", "sinusoidal", "learned", "rotary"]
State = tuple[Tensor, ...]  # state of a recurrence: tensors with B rows, of constant size
Layers = Sequence[Any]  # layers of several blocks of a network: all of one class, with the same settings


@dataclass(frozen=True)
class LayerContext:
    """Properties of the network that a mixer is built for."""

    width: int
    length: int  # of the longest sequence in training
    causal: bool = False
    rotary: bool = False  # rotary position encoding
    block: int = 0  # number of the block in the network
    depth: int = 1  # blocks of the network


class Mixer(abc.ABC):
    """Hyperparameters of a mixer; ``build`` returns a module ``(x, padding_mask) -> y``, x and y (B, L, D).

    Outputs at real positions must not depend on padded positions (``padding_mask`` False), on other sequences
    or, when causal, on later positions. The tests of this package and ``selfpretrain check`` verify this.
    """

    positions: ClassVar[Positions] = "none"  # position encoding for ``Model(positions="auto")``
    rotates: ClassVar[bool] = False  # whether it supports rotary positions
    owns_residual: ClassVar[bool] = False  # whether its module takes and returns the residual path, too
    slow_parameters: ClassVar[dict[str, float]] = {}  # returned by ``slow`` unless a setting changes it
    causal: ClassVar[bool] = True  # whether it can be built so that no position sees a later one
    fixed_length: ClassVar[bool] = False  # whether its outputs depend on the padded length
    whole: ClassVar[bool] = False  # whether it is a complete network: no norm before it, no residual path
    denoises: ClassVar[bool] = True  # whether it has an output at every position; else no pretraining
    compiles: ClassVar[bool] = True  # whether torch.compile gives the same gradients
    looks_up: ClassVar[bool] = False  # whether quantised values of one channel are embedded as tokens
    published: ClassVar[str] = ""  # code behind the published numbers, if it differs from this formula

    @abc.abstractmethod
    def build(self, context: LayerContext) -> nn.Module:
        """Return the layer, initialised from torch's global random state.

        Raises:
            SpecError: if the settings do not fit the context.
        """

    def slow(self) -> dict[str, float]:
        """Return parameter name patterns with maximum learning rates; these parameters are not decayed."""
        return self.slow_parameters

    def libraries(self, device: str) -> dict[str, str]:
        """Return the versions of other libraries that the layer runs on a device."""
        return {}

    def version(self) -> str:
        """Return what else than its settings determines its first weights, such as a hash of files."""
        return ""

    def symbol_embeddings(self, symbols: tuple[str, ...]) -> Float[Tensor, "V D"] | None:
        """Return initial token embeddings, given the text of the symbols, or None for random ones."""
        return None


class KernelLayer(nn.Module, abc.ABC):
    """A layer around a kernel made of its weights alone, which its ``forward`` takes as a third argument.

    A network on a GPU computes those of all blocks at once (``Network.joint_kernels``), with as many launches
    as for one. Without the argument, the layer computes its own.
    """

    @staticmethod
    @abc.abstractmethod
    def kernels(layers: Layers, length: int) -> Sequence[Tensor]:
        """Return the kernels of each layer, for lags below ``length``."""


def refuse_causal(mixer: Mixer, context: LayerContext) -> None:
    """Check that a mixer supports a causal network, if the context is causal.

    Raises:
        SpecError: if the network is causal and the mixer cannot be.
    """
    if context.causal and not mixer.causal:
        advice = " (`selfpretrain compare --objective masked`)" if mixer.denoises else ""
        raise SpecError(
            f"{name_of(mixer)} mixes later positions into earlier ones and cannot be causal; "
            f"use a bidirectional model{advice} or another mixer"
        )


def check_length(length: int, longest: int) -> None:
    """Check that a sequence is not longer than a mixer has weights for.

    Raises:
        SpecError: if ``length`` exceeds ``longest``.
    """
    if length > longest:
        raise SpecError(f"sequence of length {length}, the mixer was built for at most {longest}")


def recompute_layers(network: nn.Module, on: bool) -> bool:
    """Let layers of Hugging Face's networks recompute their activations in the backward pass, or keep them.

    Returns:
        Whether there are such layers.
    """
    layers: list[Any] = [
        layer for layer in network.modules() if getattr(layer, "gradient_checkpointing", None) is not None
    ]
    for layer in layers:
        layer.gradient_checkpointing = on
        layer._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=False)
    return bool(layers)


class ForeignModule(nn.Module):
    """A layer that calls a module from outside this package; ``module`` keeps its own names of weights.

    Args:
        origin: the call that makes such a module, e.g. ``mylab:make(width=64)``.
    """

    def __init__(self, module: nn.Module, origin: str) -> None:
        super().__init__()
        self.module = module
        self.origin = origin

    def own_weights(self) -> dict[str, Tensor]:
        """Return the module's weights by its own names."""
        return dict(self.module.state_dict())
