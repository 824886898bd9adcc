"""Which process wrote the sequence: nested brackets, interleaved brackets or a cellular automaton.

Nested brackets close in the reverse order of opening (a prefix of a Dyck word), interleaved ones in any
order. The automaton is rule 110 on a ring, its rows read one after the other, several cells to a symbol. The
sequences have any alphabet and length, so that networks can be pretrained on them for another task: see the
arm ``elsewhere``.

Source: processes like those of arXiv 2505.22308 and 2601.21725, which differ in detail.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from typing import Annotated

import numpy as np
from pydantic import Field

from ..config import Count, Seed, spec
from ..data.dataset import SequenceDataset
from ..data.spec import SPLITS, Classes, SequenceSpec, Split, Tokens, Values
from .base import Card, DatasetStub, Task, with_stub

PROCESSES = ("nested brackets", "interleaved brackets", "automaton")
DEEPEST = 32  # brackets that may be open at once
ROW = 48  # cells of the automaton
RULE = 110
VALUES = 16  # different values, where sequences are of values


@spec
class Procedural(Task):
    """Which of three processes wrote the sequence?"""

    card = Card(
        source="generated here, after arXiv 2505.22308",
        licence="none needed",
        counts="6,000 / 600 / 1,200 sequences, a third of each process",
        leaks="none known",
    )

    denoising = "masked"

    signal: Tokens | Values = Tokens(16)  # alphabet or format of the values
    length: Count = 64
    train: Annotated[int, Field(ge=3)] = 6_000  # training sequences
    val: Annotated[int, Field(ge=3)] = 600  # validation sequences
    test: Annotated[int, Field(ge=3)] = 1_200  # test sequences
    seed: Seed = 0  # seed of the generator

    @property
    def form(self) -> SequenceSpec:
        """Return sequences of equal length, and three classes."""
        return SequenceSpec(self.signal, self.length, Classes(PROCESSES))

    def load(self, split: Split) -> SequenceDataset:
        """Return the sequences of one split, whose processes take turns."""
        if self.stub:
            return self.stub.examples(split)
        signal = self.signal
        kinds = signal.vocab if isinstance(signal, Tokens) else min(signal.levels or VALUES, VALUES)
        symbols, labels = _generate(getattr(self, split), self.length, kinds, self.seed, SPLITS.index(split))
        if not isinstance(signal, Values):
            return SequenceDataset.from_array(symbols, labels)
        # Of symbols in channels: levels from low to high, else numbers with the moments of the channel.
        share = (np.arange(kinds)[:, None] / max(1, kinds - 1)).repeat(signal.channels, axis=-1)
        if signal.levels:
            level = np.round(share * (signal.levels - 1)) / max(1, signal.levels - 1)
            values = signal.low + (signal.high - signal.low) * level
        else:
            both = (signal.centre, signal.spread)
            centre, spread = (np.array(list(islice(cycle(of), signal.channels))) for of in both)
            values = centre + spread * math.sqrt(12) * (share - 0.5)
        return SequenceDataset.from_array(values.astype(np.float32)[symbols], labels)

    def stubbed(self) -> "Procedural":
        """Return the task with a stub: 60,000 sequences of the papers' lengths take long to generate."""
        return with_stub(self, DatasetStub(self.form, self.train, self.val, self.test))

    def tiny(self) -> "Procedural":
        """Return the task with 150 training sequences, and 45 in each of val and test."""
        return Procedural(self.signal, self.length, train=150, val=45, test=45, seed=self.seed)


@functools.lru_cache(maxsize=8)
def _generate(number: int, length: int, kinds: int, seed: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (number, length) symbols 0..kinds-1 and the (number,) process of each."""
    random = np.random.default_rng((seed, split))
    labels = np.arange(number) % len(PROCESSES)
    symbols = np.zeros((number, length), dtype=np.uint8 if kinds <= 256 else np.int32)
    draws: tuple[Callable[..., np.ndarray], ...]
    draws = (brackets, partial(brackets, interleaved=True), automaton)
    for label, draw in enumerate(draws):
        symbols[labels == label] = draw(int((labels == label).sum()), length, kinds, random)
    return symbols, labels


def brackets(
    number: int, length: int, kinds: int, random: np.random.Generator, interleaved: bool = False
) -> np.ndarray:
    """Return (number, length) brackets: symbol k opens, and pairs + k closes, with pairs = kinds // 2.

    A bracket opens with probability 1/2, always if none is open, and never if ``DEEPEST`` are.

    Args:
        interleaved: close any open bracket instead of the last one.
    """
    pairs = max(1, kinds // 2)
    found = np.zeros((number, length), dtype=np.int64)
    open_kinds = np.zeros((number, DEEPEST), dtype=np.int64)
    height = np.zeros(number, dtype=np.int64)
    rows = np.arange(number)
    for position in range(length):
        opens = ((random.random(number) < 0.5) & (height < DEEPEST)) | (height == 0)
        top = np.maximum(height - 1, 0)
        closed = (random.random(number) * (top + 1)).astype(np.int64) if interleaved else top
        kind = np.where(opens, random.integers(pairs, size=number), open_kinds[rows, closed])
        # The last open bracket takes the place of the closed one.
        open_kinds[rows[~opens], closed[~opens]] = open_kinds[rows[~opens], top[~opens]]
        open_kinds[rows[opens], height[opens]] = kind[opens]
        found[:, position] = kind + pairs * ~opens
        height += np.where(opens, 1, -1)
    return found % kinds


def automaton(number: int, length: int, kinds: int, random: np.random.Generator) -> np.ndarray:
    """Return (number, length) symbols of floor(log2 kinds) cells each, row after row from random ones."""
    bits = max(1, int(math.log2(kinds)))
    table = RULE >> np.arange(8) & 1
    cells = random.integers(2, size=(number, ROW))
    rows = []
    for _ in range(-(-length * bits // ROW)):
        rows.append(cells)
        cells = table[4 * np.roll(cells, 1, 1) + 2 * cells + np.roll(cells, -1, 1)]
    states = np.concatenate(rows, axis=1)[:, : length * bits].reshape(number, length, bits)
    return (states << np.arange(bits)).sum(-1) % kinds


task = Procedural
