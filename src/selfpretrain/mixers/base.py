"""What a mixer must do."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

Positions = Literal["none", "sinusoidal", "learned", "rotary"]


@dataclass(frozen=True)
class Place:
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
    owns_residual: ClassVar[bool] = False  # whether its output already contains the block's residual path
    slow_parameters: ClassVar[dict[str, float]] = {}  # name pattern -> highest learning rate; never decayed

    @abc.abstractmethod
    def build(self, place: Place) -> nn.Module:
        """The layer, freshly initialised from torch's global random state.

        Raises:
            SpecError: if the settings cannot be met at this place.
        """
