"""Inference with trained networks: probabilities, numbers and embeddings, averaged over an ensemble."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from scipy.special import expit, softmax
from torch import Tensor

from ..data.dataset import Batch, SequenceDataset
from ..data.spec import SequenceSpec
from ..objectives.base import Objective
from ..objectives.common.heads import pool
from ..training.evaluate import POSITIONS
from ..training.model import Model, Network

MOST_ROWS = 512
"""Largest inference batch, in sequences."""
What = Literal["vectors", "numbers", "chances", "memberships", "position chances"]
"""Kind of output; "chances": softmax over K classes, "memberships": one sigmoid per class."""
ANSWERS: dict[str, What] = {
    "classes": "chances",
    "reals": "numbers",
    "sets": "memberships",
    "positions": "position chances",
}
MEMORY = (MemoryError, torch.OutOfMemoryError)


@dataclass(frozen=True)
class Predictor:
    """One trained network, or an ensemble whose predictions are averaged."""

    model: Model
    objective: Objective  # of the last stage
    form: SequenceSpec
    networks: tuple[Network, ...]
    temperature: float = 1.0  # logits are divided by it before softmax or sigmoid

    def to(self, device: str) -> "Predictor":
        """Move the networks to a device, and return self."""
        for network in self.networks:
            network.to(device)
        return self

    def outputs(self, data: SequenceDataset) -> np.ndarray:
        """Return the outputs of the heads (members, n, K) in float64: logits, or predicted numbers."""
        return np.stack([_run(_answers, network, self._padded(data)) for network in self.networks])

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return the probabilities (n, K) of the classes, averaged over the members."""
        return self.averaged(self.outputs(data))

    def averaged(self, logits: np.ndarray) -> np.ndarray:
        """Average the members' logits (members, n, K) as probabilities (n, K), or numbers as they are."""
        if self.what == "numbers":
            return logits.mean(0)
        scaled = logits / self.temperature
        return (expit(scaled) if self.what == "memberships" else softmax(scaled, axis=-1)).mean(0)

    @property
    def what(self) -> What:
        """Kind of output; "vectors" after pretraining alone."""
        return ANSWERS[self.form.target.kind] if self.objective.labelled else "vectors"

    def at_positions(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the probabilities (L, K) at the positions of every sequence, averaged over the members."""

        def answers(network: Network, batch: Batch) -> Tensor:
            return network(batch.inputs, batch.padding_mask).unflatten(0, batch.inputs.shape[:2])

        each = [_by_sequence(answers, network, self._padded(data)) for network in self.networks]
        return [self.averaged(np.stack(members)) for members in zip(*each, strict=True)]

    def embeddings(self, data: SequenceDataset) -> np.ndarray:
        """Return the pooled embeddings (n, D) of the first member, as its head sees them."""

        def pooled(network: Network, batch: Batch) -> Tensor:
            return pool(
                network.features(batch.inputs, batch.padding_mask), batch.padding_mask, self.model.pooling
            )

        return _run(pooled, self.networks[0], self._padded(data))

    def positions(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the embeddings (L, D) of the positions of every sequence, from the first member."""
        return _by_sequence(
            lambda n, b: n.features(b.inputs, b.padding_mask), self.networks[0], self._padded(data)
        )

    def _padded(self, data: SequenceDataset) -> SequenceDataset:
        return replace(data, padded=self.form.length) if self.model.mixer.fixed_length else data


def _by_sequence(ask: "Ask", network: Network, data: SequenceDataset) -> list[np.ndarray]:
    """Run ``ask`` in batches, and cut its outputs (B, L, K) to the length of every sequence."""
    found: dict[int, np.ndarray] = {}
    for rows, batch in data.batches(_size(data)):
        answers, lengths = _asked(ask, network, batch).numpy(), data.lengths[0, rows].tolist()
        found |= {row: answers[i, : lengths[i]] for i, row in enumerate(rows.tolist())}
    return [found[row] for row in range(len(data))]


def _answers(network: Network, batch: Batch) -> Tensor:
    return network(batch.inputs, batch.padding_mask)


Ask = Callable[[Network, Batch], Tensor]


def _run(ask: Ask, network: Network, data: SequenceDataset) -> np.ndarray:
    """Return the outputs (n, K) in the order of the examples; halve the batch once if memory runs out."""
    size = _size(data)
    try:
        return _in_batches(ask, network, data, size)
    except MEMORY:
        if size == 1:
            raise
        return _in_batches(ask, network, data, size // 2)


def _in_batches(ask: Ask, network: Network, data: SequenceDataset, size: int) -> np.ndarray:
    parts, order = [], []
    for rows, batch in data.batches(size):
        parts.append(_asked(ask, network, batch))
        order.append(rows)
    found = torch.empty_like(torch.cat(parts))
    found[torch.cat(order)] = torch.cat(parts)
    return found.numpy()


@torch.no_grad()
def _asked(ask: Ask, network: Network, batch: Batch) -> Tensor:
    network.eval()
    device = next(network.parameters()).device
    return ask(network, batch.to(device)).double().cpu()


def _size(data: SequenceDataset) -> int:
    return max(1, min(MOST_ROWS, POSITIONS // int(data.longest.max())))
