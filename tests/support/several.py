"""A toy whose examples have several answers; apart from ``toys``, whose text is in known fingerprints."""

from dataclasses import replace
from typing import Literal

import numpy as np
import torch

import toys
from selfpretrain.config import spec
from selfpretrain.data.dataset import SequenceDataset
from selfpretrain.data.spec import ClassSets, PositionClasses, SequenceSpec, Split


@spec
class Several(toys.Majority):
    """Which of two symbols is more frequent, and are there many? Or, at every position: is it another one?"""

    target: Literal["sets", "positions"] = "sets"

    @property
    def form(self) -> SequenceSpec:
        """That of the parent, with another target."""
        sets, positions = ClassSets(("ones", "long")), PositionClasses(("same", "changed"))
        return replace(super().form, target=sets if self.target == "sets" else positions)

    def load(self, split: Split) -> SequenceDataset:
        """The sequences of the parent."""
        examples = super().load(split)
        rows = [examples.sequence(row).reshape(-1) for row in range(len(examples))]
        if self.target == "sets":
            answers = [[row.mean() > 0.5, len(row) > self.length * 2 / 3] for row in rows]
        else:
            answers = [changes(row, self.length) for row in rows]
        return replace(examples, targets=torch.from_numpy(np.array(answers, dtype=np.int16)))


def changes(row: np.ndarray, length: int) -> np.ndarray:
    """(length,) whether a symbol is another than the one before; -1 beyond the end."""
    found = np.full(length, -1, dtype=np.int16)
    found[: len(row)] = np.diff(row.astype(np.int16), prepend=row[:1].astype(np.int16)) != 0
    return found


def majority(target: str, **settings: object) -> toys.Majority:
    """The toy with that kind of target."""
    kind = Several if target in ("sets", "positions") else toys.Majority
    return kind(target=target, **settings)
