"""The average of a network and a simple method, which err on different examples."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..data.dataset import SequenceDataset
from ..data.spec import SequenceSpec
from .predictor import Output, Predictor
from .simple import Answers, SimplePredictor


@dataclass(frozen=True)
class AveragePredictor:
    """A network and a simple method, whose probabilities or numbers are averaged with equal weights."""

    network: Predictor
    simple: SimplePredictor

    @property
    def form(self) -> SequenceSpec:
        """Form of the sequences."""
        return self.network.form

    @property
    def output(self) -> Output:
        """Kind of output."""
        return self.network.output

    def probabilities(self, data: SequenceDataset) -> np.ndarray:
        """Return class probabilities (n, K), or predicted numbers (n, 1)."""
        return (self.network.probabilities(data) + self.simple.probabilities(data)) / 2

    def position_probabilities(self, data: SequenceDataset) -> list[np.ndarray]:
        """Return the probabilities (L, K) at the positions of every sequence."""
        members = (self.network.position_probabilities(data), self.simple.position_probabilities(data))
        return [(a + b) / 2 for a, b in zip(*members, strict=True)]

    def outputs(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return probabilities or numbers (rows, K) for sequences (rows, L, ...) without padding."""
        members = (self.network.outputs(inputs, mask), self.simple.outputs(inputs, mask))
        return torch.stack(members).mean(0)


Answering = Predictor | SimplePredictor | AveragePredictor
"""What predicts: the network, a simple method, or both."""


def average_answers(network: Answers, simple: Answers) -> Answers:
    """Return the answers of the average on the same examples, from the answers of both."""
    y_true, of_network = network
    _, of_simple = simple
    return y_true, (of_network + of_simple) / 2
