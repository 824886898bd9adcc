"""What a mixer must do."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SpecError
from ..registry import name_of
from ..shapes import Vectors

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

    The module must not let padded positions (``valid`` False) reach real ones, nor, when causal, later
    positions reach earlier ones, nor one sequence another. The laws of the shelf check all of it.
    """

    positions: ClassVar[Positions] = "none"  # what ``Model(positions="auto")`` adds for this mixer
    rotates: ClassVar[bool] = False  # whether it can turn queries and keys by position
    owns_residual: ClassVar[bool] = False  # whether its module takes the residual path as well, and renews it
    recurrent: ClassVar[bool] = False  # whether its causal modules are ``Recurrent``
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


class Recurrence(abc.ABC):
    """A causal layer as it is used along a sequence without end: the past is a state of constant size.

    What it is made of is worked out once, from the parameters as they are then; gradients do not go through.
    """

    @abc.abstractmethod
    def state(self, batch: int) -> State:
        """The state before the first position of so many sequences."""

    @abc.abstractmethod
    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        """One position further."""

    @abc.abstractmethod
    def advance(self, x: Vectors, state: State) -> tuple[Vectors, State]:
        """Several positions further, at once; as many steps would give the same."""

    @abc.abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What it takes to run the linear part elsewhere, in double precision."""


class Recurrent(abc.ABC):
    """A module that can also be run as a recurrence."""

    @abc.abstractmethod
    def recurrence(self) -> Recurrence:
        """The layer, as its parameters are now.

        Raises:
            SpecError: if it is not causal.
        """


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
