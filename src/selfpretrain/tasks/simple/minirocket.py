"""MiniRocket features as published, for candidates of ``fit``; those of baselines (``kernels``) are simpler.

Three things differ: dilations are up to 32, evenly spaced by their logarithm, not powers of two; every other
kernel is read only where it does not reach beyond the ends of the sequence; and the thresholds of a kernel at
a dilation are quantiles of its outputs on one random sequence, of orders that cover 0 to 1 evenly. Sequences
are computed one by one, so that none depends on others, by loops that Numba compiles.

Where there are labels enough, two more statistics are taken of the positions at which an output exceeds its
threshold: their mean place, and their longest stretch.

Source: Dempster, Schmidt and Webb (2021), MiniRocket; for these two Tan et al. (2022), MultiRocket.
"""

from itertools import islice

import numpy as np
import torch
from jaxtyping import Float64, Int64

from ...data.dataset import SequenceDataset, generator
from ...system.jit import jit
from ...system.time_limit import check_time
from .features import Numbers, State
from .kernels import (
    FEATURES,
    KERNEL_SIZE,
    LEVELS,
    NUDGE,
    PLACES,
    WORK,
    KernelShares,
    channel_masks,
    kernel_weights,
)

MANY_FEATURES = 10_000  # approximate number of features per sequence, as published
DILATIONS = 32  # maximum number of dilations
GOLDEN = (np.sqrt(5) + 1) / 2  # multiples of the golden ratio, modulo 1, cover 0 to 1 evenly
REACH = KERNEL_SIZE // 2  # weights on either side of the middle of a kernel
STATISTICS = 3
"""Of the positions at which an output exceeds its threshold: share, mean place, longest stretch."""


class SharedKernels(KernelShares):
    """Shares as published, with thresholds of all training sequences: all folds share the features.

    Args:
        number: approximate number of thresholds.
        statistics: number of features for each; 1: shares alone.
    """

    once = True

    def __init__(self, number: int = FEATURES, statistics: int = 1) -> None:
        super().__init__(number)
        self.statistics = statistics

    def measure(self, everything: SequenceDataset) -> None:
        """Measure the thresholds."""
        super().measure(everything)
        self._measure_thresholds(everything)

    def fit(self, examples: SequenceDataset) -> None:
        """Measure mean and spread of the shares."""
        Numbers.fit(self, examples)

    def _measure_thresholds(self, examples: SequenceDataset) -> None:
        per_kernel = max(1, self.number // len(PLACES))
        most = int(WORK / (int(examples.lengths.sum()) * len(PLACES)))
        spaced = dilations(int(examples.lengths.max()), per_kernel, max(1, min(most, DILATIONS, per_kernel)))
        orders = iter(np.arange(1, per_kernel * len(PLACES) + 1) * GOLDEN % 1)
        random = generator("kernels")
        masks = channel_masks(examples).numpy()
        weights = kernel_weights().numpy()
        largest = np.zeros(masks.shape[1])
        found = []
        for dilation, number in spaced:
            levels = []
            rows = torch.randint(len(examples), (len(PLACES),), generator=random).tolist()
            for kernel, row in enumerate(rows):
                check_time()
                x = _values(examples, row)
                largest = np.maximum(largest, np.abs(x).max(0))
                outputs = weights[kernel] @ _moved(masks[kernel] @ (x - x.mean(0)).T, dilation)
                some = outputs[:: -(-len(outputs) // LEVELS)]
                levels.append(np.quantile(some, list(islice(orders, number))))
            found.append((dilation, np.stack(levels)))
        nudge = NUDGE * (masks * largest).max(1, keepdims=True)
        self.thresholds = [(dilation, torch.from_numpy(levels + nudge)) for dilation, levels in found]

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, some thousand features)."""
        masks, read = np.unique(channel_masks(examples).numpy(), axis=0, return_inverse=True)
        read = read.reshape(-1)
        places = np.array(PLACES)
        levels = [(dilation, each.contiguous().numpy()) for dilation, each in self.thresholds]
        found = np.empty((len(examples), self.statistics * sum(each.size for _, each in levels)))
        for row, features in enumerate(found):
            check_time()
            x = _values(examples, row)
            mixed = masks @ (x - x.mean(0)).T
            each = [
                _exceeding(mixed, read, places, dilation, at, index % 2, self.statistics)
                for index, (dilation, at) in enumerate(levels)
            ]
            features[:] = np.concatenate(each, axis=None)
        return found

    def load(self, state: State) -> None:
        """Set mean, spread and thresholds.

        Raises:
            ValueError: if the thresholds are not those of all kernels, or of other features.
        """
        super().load(state)
        if any(x.ndim != 2 or len(x) != len(PLACES) for _, x in self.thresholds):
            raise ValueError(f"thresholds of other kernels than the {len(PLACES)}")
        thresholds = sum(x.numel() for _, x in self.thresholds)
        if len(self.mean) not in (thresholds, STATISTICS * thresholds):
            raise ValueError(f"{len(self.mean)} features of {thresholds} thresholds")
        self.statistics = len(self.mean) // thresholds


def dilations(length: int, number: int, most: int) -> list[tuple[int, int]]:
    """Return dilations of kernels that fit into a length, and the number of features of a kernel at each.

    Args:
        number: features of a kernel.
        most: maximum number of dilations.
    """
    largest = max(1.0, (length - 1) / (KERNEL_SIZE - 1))
    each = np.logspace(0, np.log2(largest), most, base=2).astype(int)
    found, counts = np.unique(each, return_counts=True)
    counts = counts * number // most
    counts[: number - counts.sum()] += 1
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def _values(examples: SequenceDataset, row: int) -> Float64[np.ndarray, "L C"]:
    """Return a sequence, with 0 where a value is missing."""
    return np.nan_to_num(examples.sequence(row).astype(np.float32)).astype(np.float64)


@jit
def _moved(x: Float64[np.ndarray, "L"], dilation: int) -> Float64[np.ndarray, "size L"]:
    """Return what every weight of a kernel reads for each output: 0 beyond the ends of the sequence."""
    found = np.zeros((KERNEL_SIZE, len(x)))
    for tap in range(KERNEL_SIZE):
        shift = (tap - REACH) * dilation
        for i in range(max(0, -shift), min(len(x), len(x) - shift)):
            found[tap, i] = x[i + shift]
    return found


@jit
def _exceeding(
    x: Float64[np.ndarray, "inputs L"],
    read: Int64[np.ndarray, "kernels"],
    places: Int64[np.ndarray, "kernels 3"],
    dilation: int,
    levels: Float64[np.ndarray, "kernels features"],
    first: int,
    statistics: int,
) -> Float64[np.ndarray, "kernels features statistics"]:
    """Return statistics of the positions at which the outputs of kernels, each of its input, exceed levels.

    Of kernels of even numbers if first is 1, else of the others, positions from which they reach beyond the
    ends of the sequence do not count, unless all do. Where no output exceeds a level, its mean place is
    before the first position.
    """
    found = np.empty((*levels.shape, statistics))
    length = x.shape[1]
    edge = REACH * dilation
    total = np.empty(length)
    outputs = np.empty(length)
    for row in range(len(x)):
        moved = _moved(x[row], dilation)
        for i in range(length):
            total[i] = moved[:, i].sum()
        for kernel in range(len(places)):
            if read[kernel] != row:
                continue
            a, b, c = moved[places[kernel, 0]], moved[places[kernel, 1]], moved[places[kernel, 2]]
            for i in range(length):
                outputs[i] = 3 * (a[i] + b[i] + c[i]) - total[i]
            skipped = edge if (kernel + first) % 2 and length > 2 * edge else 0
            count = length - 2 * skipped
            for k in range(levels.shape[1]):
                level = levels[kernel, k]
                above = 0
                for i in range(skipped, length - skipped):
                    above += outputs[i] > level
                found[kernel, k, 0] = above / count
                if statistics > 1:
                    place, longest = _place_and_stretch(outputs[skipped : length - skipped], level)
                    found[kernel, k, 1] = (place / above if above else -1) / count
                    found[kernel, k, 2] = longest / count
    return found


@jit
def _place_and_stretch(outputs: Float64[np.ndarray, "L"], level: float) -> tuple[int, int]:
    """Return the sum of the positions at which outputs exceed a level, and their longest stretch."""
    place = stretch = longest = 0
    for i in range(len(outputs)):
        if outputs[i] > level:
            place += i
            stretch += 1
            longest = max(longest, stretch)
        else:
            stretch = 0
    return place, longest
