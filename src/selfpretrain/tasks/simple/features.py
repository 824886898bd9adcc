"""Base classes of features: matrices of sequences, whose parameters are measured on training data."""

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from torch import Tensor

from ...data.dataset import SequenceDataset

ALL = "all sequences"
"""End of the names of features that are measured on sequences without a label, too."""
MOST_DIRECTIONS = 100
"""Most directions in which features vary."""
Matrix = Any
"""(rows, features) matrix, dense or sparse."""
State = dict[str, Tensor]


class Features(abc.ABC):
    """A (rows, features) matrix of sequences, whose parameters are measured on training data."""

    name: str
    of_all = False
    """Whether the parameters are measured on all training sequences, labelled or not."""
    parameters: tuple[str, ...] = ()
    """Names of the attributes, all of them arrays, that are saved."""

    def measure(self, everything: SequenceDataset) -> None:  # noqa: B027  # most features need nothing
        """Measure what needs no labels on all training sequences, before ``fit``."""

    @abc.abstractmethod
    def fit(self, examples: SequenceDataset) -> None:
        """Measure the parameters on training examples."""

    @abc.abstractmethod
    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return the features, one row per example, or per position."""

    def state(self) -> State:
        """Return the parameters: codes, whose 64 bits are stored as signed integers, and numbers."""
        found = {name: np.asarray(getattr(self, name)) for name in self.parameters}
        return {
            k: torch.from_numpy(x.view(np.int64) if x.dtype == np.uint64 else x) for k, x in found.items()
        }

    def load(self, state: State) -> None:
        """Set the parameters."""
        for name in self.parameters:
            setattr(self, name, state[name].numpy().view(getattr(self, name).dtype))


class Numbers(Features):
    """Features that are numbers, shifted and scaled to mean 0 and standard deviation 1 on training data."""

    parameters = ("mean", "spread")

    def __init__(self) -> None:
        self.mean = np.zeros(1)
        self.spread = np.ones(1)

    @abc.abstractmethod
    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return the features of examples of one sequence each, before they are standardised."""

    def fit(self, examples: SequenceDataset) -> None:
        """Measure mean and spread."""
        x = self._views(examples)
        self.mean = x.mean(0, dtype=np.float64)
        self.spread = x.std(0, dtype=np.float64)
        self.spread[self.spread < 1e-9] = 1.0

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a dense matrix, of pairs of sequences one view after the other."""
        return (self._views(examples) - self.mean) / self.spread

    def _views(self, examples: SequenceDataset) -> np.ndarray:
        return np.concatenate(np.split(self.compute(sequences(examples)), examples.views), axis=1)


class SingularDirections(Features):
    """The directions in which features vary most, those first; they are not saved.

    Source: Deerwester et al. (1990), Indexing by latent semantic analysis.
    """

    def __init__(self, inner: Features) -> None:
        self.inner = inner
        self.name = f"directions of {inner.name}"
        self.components = np.empty((0, 0))  # (directions, features)

    def fit(self, examples: SequenceDataset) -> None:
        """Find the directions."""
        self.inner.fit(examples)
        x = self.inner.transform(examples)
        most = min(MOST_DIRECTIONS, *(size - 1 for size in x.shape))
        self.components = TruncatedSVD(most, random_state=0).fit(x).components_

    def transform(self, examples: SequenceDataset) -> Matrix:
        """Return a dense matrix with one column per direction."""
        return np.asarray(self.inner.transform(examples) @ self.components.T)


def of_all(kind: Callable[[], Features]) -> Features:
    """Return features whose parameters are measured on all training sequences, labelled or not."""
    found = kind()
    found.of_all = True
    found.name = f"{found.name}, {ALL}"
    return found


def directions(kind: Callable[[], Features]) -> Features:
    """Return the directions in which features vary most over all training sequences."""
    return of_all(lambda: SingularDirections(kind()))


def sequences(examples: SequenceDataset) -> SequenceDataset:
    """Return an example for every sequence: all first views, then all second ones."""
    if examples.views == 1:
        return examples
    n = examples.starts.numel()
    return replace(
        examples,
        starts=examples.starts.reshape(1, n),
        lengths=examples.lengths.reshape(1, n),
        targets=torch.zeros(n),  # not looked at
        groups=None,
        weights=None,
    )


def concatenated(examples: SequenceDataset) -> np.ndarray:
    """Return the sequences of examples of one sequence each, concatenated in their order."""
    return np.concatenate([examples.sequence(row) for row in range(len(examples))])
