"""Inference with trained networks: probabilities, numbers and embeddings, averaged over an ensemble."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from scipy.special import expit, softmax
from torch import Tensor

from ..data.dataset import Batch, SequenceDataset
from ..data.spec import SequenceSpec, TargetName
from ..objectives.base import Objective
from ..objectives.common.heads import pool_features
from ..training.evaluate import POSITIONS
from ..training.model import Model, Network

MAX_ROWS = 512  # largest inference batch, in sequences
Output = TargetName | Literal["embedding"]
"""What is predicted: a kind of target or, after pretraining alone, embeddings."""
ESTIMATORS = {
    "classes": "SequenceClassifier",
    "reals": "SequenceRegressor",
    "sets": "MultilabelClassifier",
    "positions": "PositionClassifier",
}
"""Kind of target -> name of the estimator for it."""
PRETRAINER = "SequencePretrainer"  # name of the estimator for networks that are pretrained alone
MEMORY_ERRORS = (MemoryError, torch.OutOfMemoryError)

Forward = Callable[[Network, Batch], Tensor]


def kind_of(estimator: type) -> str:
    """Return the name of the estimator that a class is, or is derived from."""
    known = (*ESTIMATORS.values(), PRETRAINER)
    return next(each.__name__ for each in estimator.__mro__ if each.__name__ in known)


@dataclass(frozen=True)
class Predictor:
    """One trained network, or an ensemble whose predictions are averaged."""

    models: tuple[Model, ...]  # of each network
    objective: Objective  # of the last stage
    form: SequenceSpec
    networks: tuple[Network, ...]
    temperature: float = 1.0  # logits are divided by it before softmax or sigmoid

    @property
    def model(self) -> Model:
        """Model of the first network; those of an ensemble differ only in whether they are causal."""
        return self.models[0]

    @property
    def output(self) -> Output:
        """Return what is predicted."""
        return self.form.target.kind if self.objective.labelled else "embedding"

    def to(self, device: str) -> "Predictor":
        """Move the networks to a device, and return self."""
        for network in self.networks:
            network.to(device)
        return self

    def logits(self, data: SequenceDataset) -> np.ndarray:
        """Return the outputs of the heads (members, n, K) in float64: logits, or predicted numbers."""
        data = self._pad(data)
        return np.stack([_forward_all(_logits, network, data) for network in self.networks])

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return class probabilities (n, K), or predicted numbers (n, 1), averaged over the members."""
        return self.average(self.logits(data))

    def average(self, logits: np.ndarray) -> np.ndarray:
        """Average the members' logits (members, n, K) as probabilities (n, K), or numbers as they are."""
        if self.output == "reals":
            return logits.mean(0)
        scaled = logits / self.temperature
        probabilities = expit(scaled) if self.output == "sets" else softmax(scaled, axis=-1)
        return probabilities.mean(0)

    def position_probabilities(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the probabilities (L, K) at the positions of every sequence, averaged over the members."""

        def logits(network: Network, batch: Batch) -> Tensor:
            return _logits(network, batch).unflatten(0, batch.inputs.shape[:2])

        members = [_forward_positions(logits, network, self._pad(data)) for network in self.networks]
        return [self.average(np.stack(of_sequence)) for of_sequence in zip(*members, strict=True)]

    def embeddings(self, data: SequenceDataset) -> np.ndarray:
        """Return the pooled embeddings (n, D) of the first member, as its head sees them."""

        def pooled(network: Network, batch: Batch) -> Tensor:
            return pool_features(
                network.head, _features(network, batch), batch.padding_mask, self.model.pooling
            )

        return _forward_all(pooled, self.networks[0], self._pad(data))

    def position_embeddings(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the embeddings (L, D) of the positions of every sequence, from the first member."""
        return _forward_positions(_features, self.networks[0], self._pad(data))

    def _pad(self, data: SequenceDataset) -> SequenceDataset:
        return replace(data, padded=self.form.length) if self.model.mixer.fixed_length else data


def _logits(network: Network, batch: Batch) -> Tensor:
    return network(batch.inputs, batch.padding_mask)


def _features(network: Network, batch: Batch) -> Tensor:
    return network.features(batch.inputs, batch.padding_mask)


def _forward_all(forward: Forward, network: Network, data: SequenceDataset) -> np.ndarray:
    """Return the outputs (n, K) in the order of the examples; halve the batch once if memory runs out."""
    size = _batch_size(data)
    batches = None
    try:
        batches = list(_forward_batches(forward, network, data, size))
    except MEMORY_ERRORS:
        if size == 1:
            raise
    if batches is None:  # not above: while an error is handled, its traceback keeps the tensors
        batches = list(_forward_batches(forward, network, data, size // 2))
    outputs = torch.cat([output for _, output in batches])
    found = torch.empty_like(outputs)
    found[torch.cat([rows for rows, _ in batches])] = outputs
    return found.numpy()


def _forward_positions(forward: Forward, network: Network, data: SequenceDataset) -> list[np.ndarray]:
    """Return the outputs (length, K) at the positions of every sequence, without padding."""
    lengths = data.lengths[0].tolist()
    found: dict[int, np.ndarray] = {}
    for rows, outputs in _forward_batches(forward, network, data, _batch_size(data)):
        for row, output in zip(rows.tolist(), outputs.numpy(), strict=True):
            found[row] = output[: lengths[row]]
    return [found[row] for row in range(len(data))]


def _forward_batches(
    forward: Forward, network: Network, data: SequenceDataset, size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the row numbers of every batch, and the outputs in float64 on the CPU."""
    network.eval()
    device = next(network.parameters()).device
    for rows, batch in data.batches(size):
        with torch.no_grad():
            outputs = forward(network, batch.to(device)).double().cpu()
        yield rows, outputs


def _batch_size(data: SequenceDataset) -> int:
    return max(1, min(MAX_ROWS, POSITIONS // int(data.longest.max())))
