"""Augmentation: random changes of the inputs of a batch that keep every label."""

import abc

import torch

from .dataset import Batch
from .spec import SequenceSpec


class Augmentation(abc.ABC):
    """A random change of training batches. Lengths, padding and targets stay as they are."""

    @abc.abstractmethod
    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """Return the batch with changed inputs; all randomness is drawn from ``random``, on the CPU."""
