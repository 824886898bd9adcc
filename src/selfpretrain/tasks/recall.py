"""Which value was paired with this key: several keys per sequence, in the order of the questions.

k1 v1 k2 v2 ... k2 v2 k1 v1 ...  k2 k1 ...: the pairs of a sequence are drawn afresh, shown ``shown`` times in
random order, and asked for at the end; the class of a position there is the value of its key.

Source: Arora et al. (2023), Zoology, multi-query associative recall. What differs from it: there pairs are
shown once and the questions are scattered among other tokens; with ``shown=1`` denoising cannot learn to
recall, as no value can be predicted.
"""

from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from ..config import Count, spec
from ..data.spec import PositionClasses, SequenceSpec, Tokens
from ..errors import SpecError
from .base import Card
from .common.ability import UNKNOWN, AbilityTask


@spec
class Recall(AbilityTask):
    """Which value was paired with this key?"""

    card = Card(
        source="generated here, after Arora et al. (2023), Zoology",
        licence="none needed",
        counts="20,000 / 1,000 / 2,000 sequences of 40 positions, eight questions in each",
        baselines="commonest class 6 %, the value that a sequence shows most often 26 %",
        leaks="none: pairs are drawn for every sequence, and no sequence occurs twice",
    )

    pairs: Annotated[int, Field(ge=2)] = 8  # pairs of a sequence, each of them asked for once
    shown: Count = 2  # times that every pair is shown
    keys: Annotated[int, Field(ge=2)] = 16  # different keys
    values: Annotated[int, Field(ge=2)] = 16  # different values

    def __post_init__(self) -> None:
        if self.pairs > self.keys:
            raise SpecError(f"pairs={self.pairs} need as many different keys, keys={self.keys} are fewer")

    @property
    def form(self) -> SequenceSpec:
        """Return one token per key or value; one of the values where a key is asked for."""
        names = tuple(f"v{i}" for i in range(self.values))
        length = (2 * self.shown + 1) * self.pairs
        return SequenceSpec(Tokens(self.keys + self.values), length, PositionClasses(names))

    def draw(self, random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return n sequences, and the values at their questions."""
        take = partial(np.take_along_axis, axis=1)
        order = np.tile(np.arange(self.pairs), (n, 1))
        keys = random.permuted(np.tile(np.arange(self.keys), (n, 1)), axis=1)[:, : self.pairs]
        values = random.integers(self.values, size=(n, self.pairs))
        *turns, asked = (random.permuted(order, axis=1) for _ in range(self.shown + 1))
        shown = np.concatenate(turns, axis=1)
        pairs = np.stack([take(keys, shown), self.keys + take(values, shown)], axis=2)
        inputs = np.concatenate([pairs.reshape(n, 2 * shown.shape[1]), take(keys, asked)], axis=1)
        targets = np.full(inputs.shape, UNKNOWN)
        targets[:, -self.pairs :] = take(values, asked)
        return inputs, targets

    def tiny(self) -> "Recall":
        """Return the task with 160 training sequences of four pairs, and 40 in each of val and test."""
        return Recall(pairs=4, keys=8, values=4, train=160, val=40, test=40, seed=self.seed)

    def symbols(self) -> tuple[str, ...]:
        """Return keys as k0, k1, ... and values as v0, v1, ..."""
        keys = (f"k{i} " for i in range(self.keys))
        return (*keys, *(f"v{i} " for i in range(self.values)))


task = Recall
