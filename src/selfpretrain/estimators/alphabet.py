"""Symbols that a model knows besides those of its data: an unknown symbol, and signs for begin and end.

A sign at the end gives a causal network a position that has seen the whole sequence, and a sign at both ends
shows n-grams where a sequence begins and ends. The unknown symbol stands for every symbol that training did
not contain.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..data.dataset import SequenceDataset
from ..data.spec import Signal, Tokens
from ..training.model import Network
from .inputs import BYTES, Sequences

STX = 2
"""Byte that begins a text; "start of text" in ASCII, which written language does not contain."""
ETX = 3
"""Byte that ends a text."""
SIGNS = 2
"""Positions that signs add to a sequence."""


@dataclass(frozen=True)
class Alphabet:
    """Symbols 0 to ``known`` - 1, and the numbers of the unknown symbol and of the signs, if any."""

    known: int
    unknown: int | None = None
    begin: int | None = None
    end: int | None = None

    @classmethod
    def of(cls, found: Sequences, signs: bool) -> "Alphabet | None":
        """Return the alphabet of training sequences; None for values."""
        if found.kind == "values":
            return None
        if found.kind == "text":
            return cls(BYTES, None, STX, ETX) if signs else cls(BYTES)
        known = int(found.flat.max()) + 1
        return cls(known, known, known + 1, known + 2) if signs else cls(known, known)

    @classmethod
    def load(cls, plain: dict[str, Any] | None, signal: Signal) -> "Alphabet | None":
        """Return a saved alphabet.

        Raises:
            ValueError: if it is not that of a network that takes the signal.
        """
        if plain is None:
            return None
        extra = (plain[name] for name in ("unknown", "begin", "end"))
        found = cls(int(plain["known"]), *(None if number is None else int(number) for number in extra))
        if not isinstance(signal, Tokens) or found.vocab != signal.vocab:
            raise ValueError(f"an alphabet of {found.vocab} symbols for {signal}")
        return found

    @property
    def vocab(self) -> int:
        """Number of symbols that the network has an embedding for."""
        return 1 + max(self.known - 1, *(each or 0 for each in (self.unknown, self.begin, self.end)))

    @property
    def signs(self) -> int:
        """Number of positions that signs add to a sequence: 0 or 2."""
        return 0 if self.begin is None else SIGNS

    def with_unknown(self, found: Sequences) -> Sequences:
        """Return sequences with symbols that training did not contain replaced by the unknown symbol."""
        if self.unknown is None or found.kind == "values":
            return found
        return replace(found, flat=np.where(found.flat < self.known, found.flat, self.unknown))

    def with_signs(self, found: Sequences) -> Sequences:
        """Return sequences with a sign at their begin and end, if the alphabet has them."""
        if self.begin is None or self.end is None or found.kind == "values":
            return found
        lengths = found.lengths + SIGNS
        ends = lengths.cumsum()
        flat = np.empty(int(lengths.sum()), dtype=found.flat.dtype if found.kind == "text" else np.int32)
        inner = np.ones(len(flat), dtype=bool)
        inner[ends - lengths] = inner[ends - 1] = False
        flat[inner] = found.flat
        flat[ends - lengths] = self.begin
        flat[ends - 1] = self.end
        return replace(found, flat=flat, lengths=lengths)


@torch.no_grad()
def embed_unseen(network: Network, train: SequenceDataset) -> None:
    """Set the embeddings of symbols that the training sequences do not contain to the mean of the others."""
    if network.embed.symbol is None:
        return
    weight = network.embed.symbol.weight
    seen = np.unique(np.concatenate([np.unique(train.sequence(row)) for row in range(len(train))]))
    unseen = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
    unseen[torch.from_numpy(seen.astype(np.int64)).to(weight.device)] = False
    weight[unseen] = weight[~unseen].mean(0)
