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
    """Symbols of a network: those of no sequence first, then the symbols of training, all ``shift`` higher.

    The symbols of no sequence come first so that the vocabulary ends with the greatest symbol of the training
    rows, whichever rows these are.
    """

    vocab: int
    shift: int = 0
    unknown: int | None = None
    begin: int | None = None
    end: int | None = None

    @classmethod
    def of(cls, kind: str, signs: bool) -> "Alphabet | None":
        """Return the alphabet of sequences of a kind, before any is seen; None for values."""
        if kind == "values":
            return None
        if kind == "text":
            return cls(BYTES, begin=STX, end=ETX) if signs else cls(BYTES)
        return cls(3, shift=3, unknown=0, begin=1, end=2) if signs else cls(1, shift=1, unknown=0)

    @classmethod
    def load(cls, plain: dict[str, Any] | None, signal: Signal) -> "Alphabet | None":
        """Return a saved alphabet.

        Raises:
            ValueError: if it is not that of a network that takes the signal.
        """
        if plain is None:
            return None
        extra = (plain[name] for name in ("unknown", "begin", "end"))
        special = [None if number is None else int(number) for number in extra]
        found = cls(int(plain["vocab"]), int(plain["shift"]), *special)
        fits = isinstance(signal, Tokens) and found.vocab == signal.vocab
        if not fits or not all(0 <= number < found.vocab for number in (found.shift, *special) if number):
            raise ValueError(f"an alphabet of {found.vocab} symbols for {signal}")
        return found

    @property
    def signs(self) -> int:
        """Number of positions that signs add to a sequence: 0 or 2."""
        return 0 if self.begin is None else SIGNS

    def fit(self, found: Sequences) -> "Alphabet":
        """Return the alphabet that ends with the greatest symbol of some shifted sequences."""
        if self.unknown is None:
            return self
        return replace(self, vocab=max(self.vocab, int(found.flat.max(initial=0)) + 1))

    def shifted(self, found: Sequences) -> Sequences:
        """Return sequences whose symbols are those of the alphabet, or beyond it."""
        if not self.shift or found.kind == "values":
            return found
        return replace(found, flat=(found.flat.astype(np.int64) + self.shift).astype(np.int32))

    def with_unknown(self, found: Sequences) -> Sequences:
        """Return shifted sequences with symbols that training did not contain replaced by the unknown one."""
        if self.unknown is None or found.kind == "values":
            return found
        return replace(found, flat=np.where(found.flat < self.vocab, found.flat, self.unknown))

    def with_signs(self, found: Sequences) -> Sequences:
        """Return shifted sequences with a sign at their begin and end, if the alphabet has them."""
        if self.begin is None or self.end is None or found.kind == "values":
            return found
        lengths = found.lengths + SIGNS
        ends = lengths.cumsum()
        flat = np.empty(int(lengths.sum()), dtype=found.flat.dtype)
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
