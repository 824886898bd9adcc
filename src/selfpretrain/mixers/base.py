"""What a mixer must do."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SpecError
from ..registry import name_of

Positions = Literal["none", "sinusoidal", "learned", "rotary"]
State = tuple[Tensor, ...]
"""What a recurrence remembers of the past: tensors of B rows, whose size does not grow."""


@dataclass(frozen=True)
class LayerContext:
    """Where in a network a mixer will stand."""

    width: int
    length: int  # of the longest sequence it will see in training
    causal: bool = False
    rotary: bool = False


class Mixer(abc.ABC):
    """A spec of hyper-parameters that builds a module ``(x, valid) -> y``, both (B, L, D).

    The module must not let padded positions (``padding_mask`` False) reach real ones, nor, when causal, later
    positions reach earlier ones, nor one sequence another. The laws of the shelf check all of it.
    """

    positions: ClassVar[Positions] = "none"  # what ``Model(positions="auto")`` adds for this mixer
    rotates: ClassVar[bool] = False  # whether it can turn queries and keys by position
    owns_residual: ClassVar[bool] = False  # whether its module takes the residual path as well, and renews it
    slow_parameters: ClassVar[dict[str, float]] = {}  # see ``slow``, where no setting changes it
    causal: ClassVar[bool] = True  # whether it can be built so that no position sees a later one
    fixed_length: ClassVar[bool] = False  # whether its answers change with the length sequences are padded to
    whole: ClassVar[bool] = False  # whether it is a network of its own: no norm before it, no path around it
    denoises: ClassVar[bool] = True  # whether it answers at every position; else scratch only
    looks_up: ClassVar[bool] = False  # whether quantised values of one channel reach it as symbols do
    published: ClassVar[str] = ""  # what code gave the published numbers of that name, if not this formula

    @abc.abstractmethod
    def build(self, context: LayerContext) -> nn.Module:
        """The layer, freshly initialised from torch's global random state.

        Raises:
            SpecError: if the settings cannot be met there.
        """

    def slow(self) -> dict[str, float]:
        """Name pattern inside the module -> highest learning rate; such parameters are never decayed."""
        return self.slow_parameters

    def rows(self, symbols: tuple[str, ...]) -> Float[Tensor, "V D"] | None:
        """Vectors that the embedding of symbols starts from, given how they are written; None: fresh ones."""
        return None


def refuse_causal(mixer: Mixer, context: LayerContext) -> None:
    """Refuse a network whose positions must not see later ones, for mixers that cannot do without.

    Raises:
        SpecError: if the network is causal and the mixer cannot be.
    """
    if context.causal and not mixer.causal:
        masked = " (`spt compare --objective masked`)" if mixer.denoises else ""
        raise SpecError(
            f"{name_of(mixer)} mixes later positions into earlier ones and cannot be causal; "
            f"use a bidirectional model{masked} or another mixer"
        )


def check_length(length: int, longest: int) -> None:
    """Refuse sequences longer than a mixer has weights for.

    Raises:
        SpecError: if ``length`` exceeds ``longest``.
    """
    if length > longest:
        raise SpecError(f"sequence of length {length}, the mixer was built for at most {longest}")
