"""Hydra features: how often, and how clearly, each of eight random kernels answers most of its group.

A group has eight kernels of nine normally distributed weights, which sum to 0 and whose sizes sum to 1. At
every position, the kernel with the largest answer gains that answer, and the kernel with the smallest answer
is counted. Half of the groups read differences of neighbouring values. Gains and counts are summed over
positions, as if all sequences were as long as the longest; the roots of these sums are the features. A sum
of 0 stays 0 when features are standardised, and features that are often 0 weigh less.

Source: Dempster, Schmidt and Webb (2023), Hydra: competing convolutional kernels for fast and accurate time
series classification; code of the authors, for weights of rare features and channels.
"""

import numpy as np
import torch
from jaxtyping import Float32

from ...data.dataset import SequenceDataset, concatenated, generator, sequences
from ...system.jit import jit
from ...system.time_limit import check_time
from .features import CONSTANT, Matrix, Numbers, State
from .kernels import KERNEL_SIZE

GROUPS = 64  # half of them of values, half of differences
KERNELS = 8  # of a group
MAX_CHANNELS = 8  # that a group reads
RARE = 4  # power of the share of zeros that is added to the spread of a feature
FARTHEST = 1e6  # standard deviations up to which values count; those of training are nearer


class CompetingKernels(Numbers):
    """What kernels that compete in groups gain, and how often they lose, at dilations of powers of two."""

    name = "competing kernels (Hydra)"
    parameters = ("mean", "spread", "scale", "length")
    once = True
    length = 1  # of the longest sequence
    scale = np.ones(1)  # standard deviation of every channel

    def measure(self, everything: SequenceDataset) -> None:
        """Measure the length, and the scale of every channel."""
        super().measure(everything)
        self.length = int(everything.lengths.max())
        values = np.nan_to_num(concatenated(sequences(everything)))
        self.scale = values.std(0, dtype=np.float64)
        self.scale[self.scale <= CONSTANT * np.abs(values).max(0)] = 1.0

    def fit(self, examples: SequenceDataset) -> None:
        """Measure mean and spread, and how rare every feature is."""
        found = self._views(examples)  # once: of many examples nothing is remembered
        self.mean = found.mean(0, dtype=np.float64)
        self.spread = found.std(0, dtype=np.float64)
        self.spread[self.spread < CONSTANT] = 1.0
        self.spread += (found == 0).mean(0) ** RARE

    def _standardised(self, examples: SequenceDataset) -> Matrix:
        found = self._views(examples)
        return (found - self.mean) / self.spread * (found != 0)

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, 1,024 per dilation)."""
        chosen = _chosen(len(self.scale))
        weights = _weights(self.length)
        found = []
        for row in range(len(examples)):
            check_time()
            x = (np.nan_to_num(examples.sequence(row)) / self.scale).clip(-FARTHEST, FARTHEST).T
            x = (x - x.mean(1, keepdims=True)).astype(np.float32, order="C")
            both = x, np.diff(x, axis=1) if x.shape[1] > 1 else x
            sums = [
                _competed(some, chosen[half], weights[at, half], 2**at)
                for at in range(len(weights))
                for half, some in enumerate(both)
            ]
            found.append(np.sqrt(np.concatenate(sums, axis=None) * (self.length / x.shape[1])))
        return np.stack(found)

    def load(self, state: State) -> None:
        """Set mean, spread, scale and length.

        Raises:
            ValueError: if the features are not those of that length, or the scale is not positive.
        """
        super().load(state)
        if self.length < 1 or len(self.mean) != 2 * GROUPS * KERNELS * _dilations(self.length):
            raise ValueError(f"{len(self.mean)} features of {self.length} positions")
        if not (self.scale > 0).all():
            raise ValueError("a scale that is not positive")


def count_answers(positions: int, length: int) -> int:
    """Return how many answers the kernels give at some positions, of sequences of at most a length."""
    return positions * GROUPS * KERNELS * _dilations(length)


def _dilations(length: int) -> int:
    """Return how many powers of two dilate kernels that fit into a length."""
    return 1 + max(0, int(np.log2(max(1.0, (length - 1) / (KERNEL_SIZE - 1)))))


def _weights(length: int) -> Float32[np.ndarray, "dilations 2 groups kernels size"]:
    shape = (_dilations(length), 2, GROUPS // 2, KERNELS, KERNEL_SIZE)
    weights = torch.randn(shape, generator=generator("hydra"))
    weights -= weights.mean(-1, keepdim=True)
    return (weights / weights.abs().sum(-1, keepdim=True)).numpy()


def _chosen(channels: int) -> Float32[np.ndarray, "2 groups channels"]:
    """Return the random channels that every group reads: 1, and 0 for others."""
    number = max(1, min(MAX_CHANNELS, (channels + 1) // 2))
    order = torch.rand((2, GROUPS // 2, channels), generator=generator("hydra", "channels")).argsort(-1)
    return (order < number).float().numpy()


@jit
def _competed(
    x: Float32[np.ndarray, "C L"],
    chosen: Float32[np.ndarray, "groups C"],
    weights: Float32[np.ndarray, "groups kernels size"],
    dilation: int,
) -> Float32[np.ndarray, "2 groups kernels"]:
    """Return what every kernel has gained, and how often its answer was the smallest of its group.

    Loops over positions take a third of the time to compile, and half to run, of slices that are assigned to.
    """
    groups, kernels, size = weights.shape
    length = x.shape[1]
    reach = size // 2 * dilation
    found = np.zeros((2, groups, kernels), dtype=np.float32)
    padded = np.zeros(length + 2 * reach, dtype=np.float32)
    answers = np.empty(length, dtype=np.float32)
    best = np.empty(length, dtype=np.float32)
    worst = np.empty(length, dtype=np.float32)
    winner = np.zeros(length, dtype=np.int32)
    loser = np.zeros(length, dtype=np.int32)
    for group in range(groups):
        padded.fill(0)
        for channel in range(len(x)):
            if chosen[group, channel]:
                for i in range(length):
                    padded[reach + i] += x[channel, i]
        best.fill(-np.inf)
        worst.fill(np.inf)
        for kernel in range(kernels):
            answers.fill(0)
            for tap in range(size):
                weight = weights[group, kernel, tap]
                moved = padded[tap * dilation : tap * dilation + length]
                for i in range(length):
                    answers[i] += weight * moved[i]
            for i in range(length):
                winner[i] = kernel if answers[i] > best[i] else winner[i]
                loser[i] = kernel if answers[i] < worst[i] else loser[i]
                best[i] = max(best[i], answers[i])
                worst[i] = min(worst[i], answers[i])
        for i in range(length):
            found[0, group, winner[i]] += best[i]
            found[1, group, loser[i]] += 1
    return np.maximum(found, 0)
