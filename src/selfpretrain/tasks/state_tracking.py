"""In which state is it now: the running product of permutations, or the parity of ones, at every position.

x1 s1 x2 s2 ...  x5 x6 x7 ...: every element x moves a state s, which starts as the identity; the first states
are shown after their elements, the later ones are the classes of theirs. Permutations of five (s5) cannot be
composed by a fixed number of layers of attention or of a linear recurrence with diagonal steps, whatever the
weights, if a conjecture of complexity theory holds (TC0 and NC1 differ).

Source: Merrill et al. (2024), The Illusion of State. What differs from it: the states shown; with ``shown=0``
denoising has nothing to learn, as no element can be predicted.
"""

import functools
import itertools
from typing import Literal

import numpy as np

from ..config import Count, Natural, spec
from ..data.spec import PositionClasses, SequenceSpec, Tokens
from .base import Card
from .common.ability import UNKNOWN, AbilityTask

Group = Literal["parity", "s3", "s4", "s5"]
POINTS: dict[Group, int] = {"parity": 2, "s3": 3, "s4": 4, "s5": 5}
"""Number of things that the elements of a group permute."""


@spec
class StateTracking(AbilityTask):
    """In which state is it now?"""

    card = Card(
        source="generated here, after Merrill et al. (2024), The Illusion of State",
        licence="none needed",
        counts="20,000 / 1,000 / 2,000 sequences of 48 positions, sixteen questions in each",
        baselines="commonest class 50 %, with group=s5 1 %",
        leaks="none: elements are drawn independently, and no sequence occurs twice",
    )

    group: Group = "parity"  # of two states, or all permutations of three, four or five things
    shown: Natural = 16  # states shown, each after its element
    asked: Count = 16  # elements whose states are asked for

    @property
    def form(self) -> SequenceSpec:
        """Return one token per element or state; one of the states at every question."""
        names = self._names()
        return SequenceSpec(Tokens(2 * len(names)), 2 * self.shown + self.asked, PositionClasses(names))

    def draw(self, random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return n sequences, and the states at their questions."""
        table = products(self.group)
        elements = random.integers(len(table), size=(n, self.shown + self.asked))
        states = np.zeros_like(elements)
        state = np.zeros(n, dtype=elements.dtype)  # the identity
        for t in range(elements.shape[1]):
            state = table[state, elements[:, t]]
            states[:, t] = state
        pairs = np.stack([elements, len(table) + states], axis=2)[:, : self.shown]
        inputs = np.concatenate([pairs.reshape(n, 2 * self.shown), elements[:, self.shown :]], axis=1)
        targets = np.full(inputs.shape, UNKNOWN)
        targets[:, 2 * self.shown :] = states[:, self.shown :]
        return inputs, targets

    def tiny(self) -> "StateTracking":
        """Return the task with 160 training sequences of 24 positions, and 40 in each of val and test."""
        return StateTracking(group=self.group, shown=8, asked=8, train=160, val=40, test=40, seed=self.seed)

    def symbols(self) -> tuple[str, ...]:
        """Return elements as in the names of the states, and states in brackets."""
        names = self._names()
        return (*(f"{name} " for name in names), *(f"[{name}] " for name in names))

    def _names(self) -> tuple[str, ...]:
        if self.group == "parity":
            return ("even", "odd")
        return tuple("".join(str(point + 1) for point in each) for each in _elements(self.group))


@functools.cache
def products(group: Group) -> np.ndarray:
    """Return the (G, G) table of products: the state ``table[s, x]`` follows s when x moves it."""
    elements = _elements(group)
    number = {each: i for i, each in enumerate(elements)}
    table = [[number[tuple(x[point] for point in s)] for x in elements] for s in elements]
    return np.array(table)


def _elements(group: Group) -> list[tuple[int, ...]]:
    """Return the permutations of a group, the identity first."""
    return list(itertools.permutations(range(POINTS[group])))


task = StateTracking
