"""MiniRocket features of values: shares of positions where a fixed convolution exceeds a threshold.

Dempster, Schmidt and Webb (2021), MiniRocket: the 84 kernels of nine weights, of which three are 2 and six
are -1, dilated by powers of two. A feature is the share of positions at which the output of a kernel exceeds
a threshold, a quantile of its outputs on training sequences. Each kernel reads a random subset of channels.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv1d

from ...data.dataset import Batch, SequenceDataset, generator
from ...data.spec import Split

WIDTH, TWOS = 9, 3
FEATURES = 2_000
"""Approximate number of features per sequence."""
WORK = 4e9
"""Maximum number of kernel outputs to compute: some seconds."""
SEEN = 32
"""Training sequences from which thresholds are computed."""
CHUNK = 16


def answers_above(splits: Mapping[Split, SequenceDataset]) -> dict[Split, np.ndarray] | None:
    """Return (n, features) shares for every split; None if too slow, or if sequences are too short."""
    longest = max(int(examples.longest.max()) for examples in splits.values())
    total = sum(int(examples.lengths.sum()) for examples in splits.values())
    dilations = [2**power for power in range(12) if (WIDTH - 1) * 2**power < longest]
    places = list(combinations(range(WIDTH), TWOS))
    # If not all dilations fit into the limit, keep the largest: they cover the longest range.
    dilations = dilations[-max(1, int(WORK / max(1, total * len(places)))) :]
    if not dilations or total * len(places) > WORK:
        return None
    kernels = torch.full((len(places), WIDTH), -1.0)
    kernels[torch.arange(len(places))[:, None], torch.tensor(places)] = 2.0
    weights = _over_channels(kernels, splits["train"].batch(torch.tensor([0])).inputs.shape[-1])
    quantiles = max(1, FEATURES // (len(places) * len(dilations)))
    some = splits["train"].take(torch.randperm(len(splits["train"]), generator=generator("kernels"))[:SEEN])
    found = {}
    thresholds = [_thresholds(some, weights, dilation, quantiles) for dilation in dilations]
    for split, examples in splits.items():
        parts = [
            torch.cat([_shares(batch, weights, *each) for each in zip(dilations, thresholds, strict=True)], 1)
            for batch in _in_order(examples)
        ]
        x = torch.cat(parts).numpy()
        found[split] = np.concatenate(np.split(x, examples.views), axis=1) if examples.views > 1 else x
    return found


def _over_channels(kernels: Tensor, channels: int) -> Tensor:
    """Return weights (kernels, channels, width); each kernel reads a random subset of channels."""
    random, masks = generator("kernels", "channels"), torch.zeros(len(kernels), channels)
    for mask in masks:
        number = int(2 ** (torch.rand(1, generator=random) * np.log2(min(channels, WIDTH) + 1)))
        mask[torch.randperm(channels, generator=random)[: max(1, number)]] = 1
    return kernels[:, None] * masks[..., None]


def _in_order(examples: SequenceDataset) -> list[Batch]:
    """Return all examples in batches; with several views, all first views come first."""
    n = examples.starts.numel()
    one_view = replace(
        examples,
        starts=examples.starts.reshape(1, n),
        lengths=examples.lengths.reshape(1, n),
        targets=examples.targets.repeat(examples.views),
        groups=None,
        weights=None,
    )
    return [one_view.batch(rows) for rows in torch.arange(n).split(CHUNK)]


def _answers(batch: Batch, weights: Tensor, dilation: int) -> Tensor:
    """Return the kernel outputs (B, kernels, L) for sequences with their mean subtracted."""
    real = batch.real()[..., None].float()
    x = batch.inputs.nan_to_num() * real
    x = (x - x.sum(1, keepdim=True) / real.sum(1, keepdim=True)) * real
    return conv1d(x.mT, weights, padding="same", dilation=dilation)


def _thresholds(some: SequenceDataset, weights: Tensor, dilation: int, quantiles: int) -> Tensor:
    """Return the (kernels, quantiles) thresholds: quantiles of the outputs on training sequences."""
    found = []
    for batch in _in_order(some):
        found.append(_answers(batch, weights, dilation).transpose(0, 1)[:, batch.real()])
    every = torch.cat(found, 1)
    every = every[:, torch.linspace(0, every.shape[1] - 1, min(every.shape[1], 10_000)).long()]
    return every.quantile((torch.arange(quantiles) + 0.5) / quantiles, dim=1).T


def _shares(batch: Batch, weights: Tensor, dilation: int, thresholds: Tensor) -> Tensor:
    """Return (B, kernels * quantiles) shares of the real positions with an output above the threshold."""
    answers, real = _answers(batch, weights, dilation), batch.real()[:, None]
    above = [((answers > level[:, None]) & real).sum(-1) for level in thresholds.T]
    return torch.stack(above, -1).flatten(1) / real.sum(-1)
