"""Which symbols stood among the blanks: they are to be named in their order, wherever they stood.

. a . . b . c  a b c  . . b a . . c  ? ? ?: in every round a few symbols stand at random places; all rounds
but the last are followed by a copy of theirs, the last one by as many questions, which its symbols answer.

Source: Gu & Dao (2023), Mamba, section 4.1.1, after Arjovsky et al. (2016) and Jing et al. (2019). What
differs from it: there is one round there; with ``rounds=1`` denoising cannot learn to copy, as no symbol can
be predicted.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from ..config import Count, spec
from ..data.spec import PositionClasses, SequenceSpec, Tokens
from ..errors import SpecError
from .base import Card
from .common.ability import UNKNOWN, AbilityTask


@spec
class SelectiveCopying(AbilityTask):
    """Which symbols stood among the blanks?"""

    card = Card(
        source="generated here, after Gu & Dao (2023), Mamba",
        licence="none needed",
        counts="20,000 / 1,000 / 2,000 sequences of 64 positions, eight questions in each",
        baselines="commonest class 13 %, the symbol that the last round has most often 33 %",
        leaks="none: symbols and places are drawn for every round, and no sequence occurs twice",
    )

    length: Annotated[int, Field(ge=2)] = 24  # positions of a round, symbols and blanks
    copied: Count = 8  # symbols of a round
    alphabet: Annotated[int, Field(ge=2)] = 8  # different symbols
    rounds: Count = 2  # all but the last are followed by a copy of their symbols

    def __post_init__(self) -> None:
        if self.copied > self.length:
            raise SpecError(f"copied={self.copied} symbols do not fit into length={self.length}")

    @property
    def form(self) -> SequenceSpec:
        """Return one token per symbol, blank or question; one of the symbols at every question."""
        length = self.rounds * (self.length + self.copied)
        return SequenceSpec(Tokens(self.alphabet + 2), length, PositionClasses(self._letters()))

    def draw(self, random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return n sequences, and the symbols at their questions."""
        blank = self.alphabet
        question = self.alphabet + 1
        parts: list[np.ndarray] = []
        for _ in range(self.rounds):
            symbols = random.integers(self.alphabet, size=(n, self.copied))
            order = random.permuted(np.tile(np.arange(self.length), (n, 1)), axis=1)
            part = np.full((n, self.length), blank)
            np.put_along_axis(part, np.sort(order[:, : self.copied], axis=1), symbols, axis=1)
            parts += [part, symbols]
        inputs = np.concatenate(parts, axis=1)
        targets = np.full(inputs.shape, UNKNOWN)
        targets[:, -self.copied :] = inputs[:, -self.copied :]
        inputs[:, -self.copied :] = question
        return inputs, targets

    def tiny(self) -> "SelectiveCopying":
        """Return the task with 160 training sequences of 24 positions, and 40 in each of val and test."""
        return SelectiveCopying(length=8, copied=4, alphabet=4, train=160, val=40, test=40, seed=self.seed)

    def symbols(self) -> tuple[str, ...]:
        """Return symbols as letters, blanks as ".", and questions as "?"."""
        return (*self._letters(), ".", "?")

    def _letters(self) -> tuple[str, ...]:
        return tuple(chr(ord("a") + i) if i < 26 else f"s{i}" for i in range(self.alphabet))


task = SelectiveCopying
