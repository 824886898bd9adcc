"""n-gram statistics: predict how strongly neighbouring symbols belong together, as counted in all sequences.

At the boundaries before and after every position, the network predicts the pointwise mutual information of
the two symbols, and the entropies of what follows and precedes the n-grams there: ten numbers, standardised
over the training sequences. Nothing is masked. The loss is the L1 distance, over the boundaries that exist.

These numbers tell where words and parts begin: a network that can predict them needs few labels to find them.
Counted features instead of inputs as targets: Wei et al. (2022), Masked feature prediction, arXiv 2112.09133
(of images, at masked patches). The numbers: Jin and Tanaka-Ishii (2006), see ``data/ngrams.py``.
"""

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..config import spec
from ..data.dataset import Batch, SequenceDataset, concatenated, sequences, to_device
from ..data.ngrams import BOUNDARIES, NgramCounts, owners
from ..data.spec import SequenceSpec, Tokens
from ..errors import SpecError
from .base import Denoise, ObjectiveBatch
from .common.heads import PerPosition, Pooling

OUTPUTS = 2 * len(BOUNDARIES)


@dataclass(frozen=True)
class BoundaryStatistics:
    """Counts of n-grams, with mean and spread of their numbers over all boundaries between two symbols."""

    counts: NgramCounts
    mean: np.ndarray  # (numbers, 1)
    spread: np.ndarray  # (numbers, 1)

    @classmethod
    def of(cls, flat: np.ndarray, owner: np.ndarray) -> "BoundaryStatistics":
        """Return the statistics of concatenated sequences.

        Args:
            owner: (T,) the sequence of every position.
        """
        counts = NgramCounts()
        counts.measure(flat, owner)
        values = counts.boundaries(flat, owner)[:, owner[:-1] == owner[1:]]
        if not values.size:
            values = np.zeros((len(BOUNDARIES), 1))
        spread = values.std(1, keepdims=True)
        return cls(counts, values.mean(1, keepdims=True), np.where(spread > 0, spread, 1.0))

    def boundaries(self, flat: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Return (numbers, T - 1) standardised numbers of the boundary after every position but the last."""
        return (self.counts.boundaries(flat, owner) - self.mean) / self.spread


@spec
class NgramStatistics(Denoise):
    """L1 distance of the standardised numbers of the boundaries before and after every symbol."""

    sees_answers = True
    needs_tokens = True
    reads_inputs = True
    statistics: ClassVar[BoundaryStatistics | None] = None
    """Statistics of the training sequences, set by ``measured``; None: each batch has its own."""

    def measured(self, train: SequenceDataset) -> "NgramStatistics":
        """Return the objective with the statistics of the training sequences."""
        every = sequences(train)
        found = copy.copy(self)
        found.__dict__["statistics"] = BoundaryStatistics.of(concatenated(every), owners(every.lengths[0]))
        return found

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a linear head with ten outputs at every position.

        Raises:
            SpecError: if the task has values.
        """
        if not isinstance(form.signal, Tokens):
            raise SpecError("n-gram statistics are those of symbols, and this task has values; use masked")
        return PerPosition(width, OUTPUTS)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch as it is, with the numbers as labels; those beyond an end have no weight."""
        real = batch.real()
        owner = real.nonzero()[:, 0].numpy()
        flat = batch.inputs.cpu()[real].numpy()
        values = (self.statistics or BoundaryStatistics.of(flat, owner)).boundaries(flat, owner).T
        inside = owner[:-1] == owner[1:]
        numbers = np.zeros((2, len(flat), len(BOUNDARIES)), dtype=np.float32)  # before and after a position
        known = np.zeros_like(numbers)
        numbers[0, 1:][inside] = numbers[1, :-1][inside] = values[inside]
        known[0, 1:][inside] = known[1, :-1][inside] = 1 / OUTPUTS
        labels, weights = (_padded(np.concatenate(each, axis=1), real) for each in (numbers, known))
        labels = to_device(labels, batch.inputs.device)
        return ObjectiveBatch(batch, labels, real.sum(), loss_mask=real, position_weights=weights)


def _padded(values: np.ndarray, real: Tensor) -> Tensor:
    """Return values (positions, C) of real positions as (B, L, C), with zeros elsewhere."""
    found = torch.zeros(*real.shape, values.shape[1])
    found[real] = torch.from_numpy(values)
    return found


objective = NgramStatistics
