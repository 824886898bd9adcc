"""MiniRocket features of baselines: shares of positions at which kernel outputs exceed thresholds.

The 84 kernels have nine weights, of which three are 2 and six are -1, and are dilated by powers of two. The
thresholds are quantiles of their outputs on training sequences. Each kernel reads random channels. Outputs
have double precision, and no threshold is an output itself, as quantiles of whole numbers are: so rounding,
which differs with the sequences beside a sequence and their padding, decides nothing.

Source: Dempster, Schmidt and Webb (2021), MiniRocket.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv1d

from ...data.dataset import Batch, SequenceDataset, generator, sequences
from ...system.time_limit import check_time
from .features import Numbers, State

KERNEL_SIZE = 9  # weights of a kernel
TWOS = 3  # weights of a kernel that are 2; the others are -1
PLACES = list(combinations(range(KERNEL_SIZE), TWOS))  # places of these weights, of every kernel
FEATURES = 2_000  # approximate number of features per sequence, of baselines
WORK = 4e9  # maximum number of kernel outputs to compute: some seconds
SAMPLE = 32  # training sequences from which thresholds are computed
LEVELS = 10_000  # maximum number of outputs of a kernel from which its thresholds are computed
BATCH = 16  # maximum number of sequences whose outputs are computed at a time
POSITIONS = 2**19
"""Maximum number of their positions, with padding: 350 MB of outputs. A longer sequence is computed alone."""
NUDGE = 1e-10
"""Share of the largest value by which a threshold is raised: more than rounding, less than inputs resolve."""

Thresholds = list[tuple[int, Tensor]]  # dilation, and the (kernels, quantiles) thresholds at it


class KernelShares(Numbers):
    """Shares of positions at which the outputs of dilated kernels exceed thresholds."""

    name = "kernels (MiniRocket)"

    def __init__(self, number: int = FEATURES) -> None:
        self.number = number  # approximate, of features
        self.thresholds: Thresholds = []

    def fit(self, examples: SequenceDataset) -> None:
        """Measure the thresholds, and mean and spread of the shares."""
        self._measure_thresholds(examples)
        super().fit(examples)

    def _measure_thresholds(self, examples: SequenceDataset) -> None:
        positions = int(examples.lengths.sum())
        dilations = [2**power for power in range(12) if (KERNEL_SIZE - 1) * 2**power < examples.longest.max()]
        # If not all dilations fit into the limit, keep the largest: they cover the longest range.
        dilations = dilations[-max(1, int(WORK / (positions * len(PLACES)))) :] or [1]
        quantiles = max(1, self.number // (len(PLACES) * len(dilations)))
        rows = torch.randperm(len(examples), generator=generator("kernels"))[:SAMPLE]
        sample = sequences(examples.take(rows))
        weights = _kernels(sample)
        self.thresholds = [(each, _thresholds(sample, weights, each, quantiles)) for each in dilations]

    def compute(self, examples: SequenceDataset) -> np.ndarray:
        """Return (n, some thousand features)."""
        weights = _kernels(examples)
        rows = []
        for batch in _batches(examples):
            mask = batch.real()[:, None]
            shares = []
            for dilation, levels in self.thresholds:
                outputs = _kernel_outputs(batch, weights, dilation)
                above = [((outputs > level[:, None]) & mask).sum(-1) for level in levels.T]
                shares.append(torch.stack(above, -1).flatten(1) / mask.sum(-1, dtype=outputs.dtype))
            rows.append(torch.cat(shares, 1))
        return torch.cat(rows).numpy()

    def state(self) -> State:
        """Return mean, spread and thresholds."""
        return super().state() | {f"dilation {dilation}": x.contiguous() for dilation, x in self.thresholds}

    def load(self, state: State) -> None:
        """Set mean, spread and thresholds."""
        super().load(state)
        found = [(int(name.split()[1]), x) for name, x in state.items() if name.startswith("dilation")]
        self.thresholds = sorted(found, key=lambda pair: pair[0])


def channel_masks(examples: SequenceDataset) -> Tensor:
    """Return the random channels (kernels, channels) that every kernel reads: 1, and 0 for others."""
    channels = examples.batch(torch.tensor([0])).inputs.shape[-1]
    random = generator("kernels", "channels")
    masks = torch.zeros(len(PLACES), channels, dtype=torch.float64)
    for mask in masks:
        number = int(2 ** (torch.rand(1, generator=random) * np.log2(min(channels, KERNEL_SIZE) + 1)))
        mask[torch.randperm(channels, generator=random)[: max(1, number)]] = 1
    return masks


def kernel_weights() -> Tensor:
    """Return the weights (kernels, width) of all kernels."""
    kernels = torch.full((len(PLACES), KERNEL_SIZE), -1.0, dtype=torch.float64)
    kernels[torch.arange(len(PLACES))[:, None], torch.tensor(PLACES)] = 2.0
    return kernels


def _kernels(examples: SequenceDataset) -> Tensor:
    """Return the weights (kernels, channels, width) of kernels that each read random channels."""
    return kernel_weights()[:, None] * channel_masks(examples)[..., None]


def _batches(examples: SequenceDataset) -> Iterator[Batch]:
    """Yield all sequences in batches, in their order; batches of long sequences are smaller."""
    for rows in torch.arange(len(examples)).split(BATCH):
        size = max(1, POSITIONS // int(examples.longest[rows].max()))
        for some in rows.split(size):
            check_time()
            yield examples.batch(some)


def _kernel_outputs(batch: Batch, weights: Tensor, dilation: int) -> Tensor:
    """Return the kernel outputs (B, kernels, L) for sequences with their mean subtracted."""
    mask = batch.real()[..., None].double()
    x = batch.inputs.nan_to_num() * mask
    x = (x - x.sum(1, keepdim=True) / mask.sum(1, keepdim=True)) * mask
    return conv1d(x.mT, weights, padding="same", dilation=dilation)


def _thresholds(sample: SequenceDataset, weights: Tensor, dilation: int, quantiles: int) -> Tensor:
    """Return the (kernels, quantiles) thresholds: quantiles of the outputs on training sequences."""
    n_outputs = int(sample.lengths.sum())
    chosen = torch.linspace(0, n_outputs - 1, min(n_outputs, LEVELS)).long()
    parts = []
    for batch in _batches(sample):
        real = batch.real().flatten().nonzero()[:, 0]
        own = real[chosen[chosen < len(real)]]
        chosen = chosen[chosen >= len(real)] - len(real)
        outputs = _kernel_outputs(batch, weights, dilation)
        parts.append(outputs[own // outputs.shape[2], :, own % outputs.shape[2]])
    outputs = torch.cat(parts)
    shares = (torch.arange(quantiles, dtype=outputs.dtype) + 0.5) / quantiles
    sizes = [batch.inputs.nan_to_num().abs().amax((0, 1)) for batch in _batches(sample)]
    largest = torch.stack(sizes).amax(0)
    read = (weights != 0).any(-1)  # (kernels, channels)
    return (outputs.quantile(shares, dim=0) + NUDGE * (read * largest).amax(1)).T
