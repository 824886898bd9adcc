"""Features of sequences for simple baselines: n-grams, one-hot tokens, values, statistics, MiniRocket.

MiniRocket, by Dempster, Schmidt and Webb (2021): the 84 kernels of nine weights, of which three are 2 and six
are -1, dilated by powers of two. A feature is the share of positions at which the output of a kernel exceeds
a threshold, a quantile of its outputs on training sequences. Each kernel reads a random subset of channels.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv1d

from ...data.dataset import Batch, SequenceDataset, generator
from ...data.spec import SequenceSpec, Split, Tokens

GRAMS = 4
"""Length of the longest n-gram."""
FEATURES = 200_000
"""Maximum number of n-gram features; the most frequent ones are kept."""
PIXELS = 4096
"""Maximum values per example to use all of them; longer examples are summarised."""
AROUND = 4
"""Context: neighbours on either side of a position."""
KERNEL_SIZE = 9
"""Weights of a MiniRocket kernel."""
TWOS = 3
"""Weights of a kernel that are 2; the others are -1."""
ROCKET_FEATURES = 2_000
"""Approximate number of MiniRocket features per sequence."""
ROCKET_WORK = 4e9
"""Maximum number of kernel outputs to compute: some seconds."""
ROCKET_SAMPLE = 32
"""Training sequences from which thresholds are computed."""
ROCKET_BATCH = 16

Matrix = Any
"""(n, features) matrix, dense or sparse."""
Splits = Mapping[Split, SequenceDataset]
Thresholds = list[tuple[int, Tensor]]
"""Dilation, and the (kernels, quantiles) thresholds at it."""
NGrams = list[tuple[np.ndarray, np.ndarray]]
"""For n = 1, 2, ...: the codes of all n-grams, and the index of the sequence that contains each."""


def sequence_features(form: SequenceSpec, splits: Splits) -> tuple[str, dict[Split, Matrix]]:
    """Return the name of the features that suit the signal, and the features of every split."""
    if isinstance(form.signal, Tokens):
        return f"1-{GRAMS}-grams", tfidf_ngrams(splits, form.signal.vocab)
    lengths = torch.cat([examples.lengths.flatten() for examples in splits.values()])
    equal = int(lengths.min()) == int(lengths.max())
    if equal and int(lengths[0]) * form.signal.channels * form.views <= PIXELS:
        return "values", standardise({split: values(examples) for split, examples in splits.items()})
    return "mean, sd, min, max", standardise({split: summary(e) for split, e in splits.items()})


def standardise(x: Mapping[Split, np.ndarray]) -> dict[Split, np.ndarray]:
    """Shift and scale every column to mean 0 and standard deviation 1 on train."""
    mean = x["train"].mean(0)
    scale = x["train"].std(0)
    scale[scale < 1e-9] = 1.0
    return {split: (part - mean) / scale for split, part in x.items()}


def values(examples: SequenceDataset) -> np.ndarray:
    """Return (n, positions * channels) values of equally long sequences, view after view."""
    return _each_view(examples, lambda sequence: sequence.reshape(-1).astype(np.float64))


def summary(examples: SequenceDataset) -> np.ndarray:
    """Return (n, 4 * channels) mean, standard deviation, minimum and maximum, view after view."""
    return _each_view(examples, _summary)


def _summary(sequence: np.ndarray) -> np.ndarray:
    sequence = sequence.astype(np.float64)
    return np.concatenate([sequence.mean(0), sequence.std(0), sequence.min(0), sequence.max(0)])


def _each_view(examples: SequenceDataset, features: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    views = [np.stack([features(s) for s in _sequences(examples, view)]) for view in range(examples.views)]
    return np.concatenate(views, axis=1)


def _sequences(examples: SequenceDataset, view: int) -> list[np.ndarray]:
    return [examples.sequence(row, view) for row in range(len(examples))]


def one_hot(examples: SequenceDataset, vocab: int) -> Matrix:
    """Return the one-hot encoding (n, positions * tokens) of equally long sequences, view after view."""
    from scipy import sparse

    parts = []
    for view in range(examples.views):
        rows = examples.stack(view).numpy().astype(np.int64)
        columns = (np.arange(rows.shape[1]) * vocab + rows).reshape(-1)
        starts = np.arange(len(rows) + 1) * rows.shape[1]
        shape = (len(rows), rows.shape[1] * vocab)
        parts.append(sparse.csr_matrix((np.ones(len(columns)), columns, starts), shape=shape))
    return sparse.hstack(parts).tocsr()


def tfidf_ngrams(splits: Splits, vocab: int) -> dict[Split, Matrix]:
    """Return TF-IDF weighted 1-4-grams; two views are joined by product and absolute difference."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfTransformer

    views = range(splits["train"].views)
    vocabulary = frequent_ngrams([ngrams(_sequences(splits["train"], view), vocab) for view in views])
    counts = {
        split: [count_ngrams(_sequences(examples, view), vocab, vocabulary) for view in views]
        for split, examples in splits.items()
    }
    tfidf = TfidfTransformer(sublinear_tf=True).fit(sparse.vstack(counts["train"]))
    x = {split: [tfidf.transform(view) for view in parts] for split, parts in counts.items()}
    return {split: parts[0] if len(parts) == 1 else compare_views(*parts) for split, parts in x.items()}


def compare_views(first: Matrix, second: Matrix) -> Matrix:
    """Return product and absolute difference of two views, concatenated."""
    from scipy import sparse

    return sparse.hstack([first.multiply(second), abs(first - second)]).tocsr()


def ngrams(rows: list[np.ndarray], vocab: int) -> NGrams:
    """Return the codes of all n-grams; an n whose codes do not fit into 63 bits is skipped."""
    flat = np.concatenate(rows).astype(np.int64)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    code = flat
    found = [(flat, owner)]
    for n in range(2, GRAMS + 1):
        if vocab**n >= 2**63:
            break
        code = code[:-1] * vocab + flat[n - 1 :]
        # The sequences are concatenated: drop n-grams that cross from one into the next.
        inside = owner[: len(code)] == owner[n - 1 :]
        found.append((code[inside], owner[: len(code)][inside]))
    return found


def frequent_ngrams(views: list[NGrams]) -> list[np.ndarray]:
    """Return the sorted codes of the ``FEATURES`` most frequent n-grams, for each n."""
    found = [
        np.unique(np.concatenate([code for code, _ in of_n]), return_counts=True)
        for of_n in zip(*views, strict=True)
    ]
    counts = np.concatenate([count for _, count in found])
    # N-grams with the count of the cutoff are all dropped, since nothing ranks one above another.
    least = np.sort(counts)[-FEATURES] + 1 if len(counts) > FEATURES else 0
    return [code[count >= least] for code, count in found]


def count_ngrams(
    rows: list[np.ndarray], vocab: int, vocabulary: list[np.ndarray], chunk: int = 2000
) -> Matrix:
    """Return the (n, n-grams) counts of each n-gram of the vocabulary in each sequence."""
    from scipy import sparse

    parts = []
    for start in range(0, len(rows), chunk):
        some = rows[start : start + chunk]
        columns = []
        for (code, owner), codes in zip(ngrams(some, vocab), vocabulary, strict=True):
            place = np.searchsorted(codes, code).clip(max=max(len(codes) - 1, 0))
            known = codes[place] == code if len(codes) else np.zeros(len(code), dtype=bool)
            ones = np.ones(int(known.sum()))
            shape = (len(some), len(codes))
            columns.append(sparse.csr_matrix((ones, (owner[known], place[known])), shape=shape))
        parts.append(sparse.hstack(columns))
    return sparse.vstack(parts).tocsr()


def position_features(form: SequenceSpec, examples: SequenceDataset) -> tuple[Matrix, np.ndarray]:
    """Return features (T, features) of labelled positions and their neighbours, and their classes (T,).

    Neighbours beyond the ends of a sequence are zeros.
    """
    from scipy import sparse

    parts = []
    classes = []
    for row, length in enumerate(examples.lengths[0].tolist()):
        targets = examples.targets[row, :length].numpy()
        sequence = _sparse_sequence(form, examples.sequence(row))
        shifts = [sparse.eye(length, k=k, format="csr") @ sequence for k in range(-AROUND, AROUND + 1)]
        parts.append(sparse.hstack(shifts).tocsr()[targets >= 0])
        classes.append(targets[targets >= 0].astype(np.int64))
    return sparse.vstack(parts).tocsr(), np.concatenate(classes)


def _sparse_sequence(form: SequenceSpec, sequence: np.ndarray) -> Matrix:
    """Return one-hot tokens or standardised values (L, features), as a sparse matrix."""
    from scipy import sparse

    if isinstance(form.signal, Tokens):
        return sparse.identity(form.signal.vocab, format="csr")[sequence.astype(np.int64)]
    return sparse.csr_matrix((sequence - np.array(form.signal.centre)) / np.array(form.signal.spread))


def minirocket(splits: Splits) -> dict[Split, np.ndarray] | None:
    """Return MiniRocket features (n, features); None if too slow, or if sequences are too short."""
    longest = max(int(examples.longest.max()) for examples in splits.values())
    total = sum(int(examples.lengths.sum()) for examples in splits.values())
    thresholds = minirocket_thresholds(splits["train"], longest, total)
    if thresholds is None:
        return None
    return {split: minirocket_shares(examples, thresholds) for split, examples in splits.items()}


def minirocket_thresholds(train: SequenceDataset, longest: int, total: int) -> Thresholds | None:
    """Return the thresholds of MiniRocket features, or None where ``minirocket`` does.

    Args:
        longest: length of the longest sequence to compute features of.
        total: number of positions to compute features of.
    """
    places = list(combinations(range(KERNEL_SIZE), TWOS))
    dilations = [2**power for power in range(12) if (KERNEL_SIZE - 1) * 2**power < longest]
    # If not all dilations fit into the limit, keep the largest: they cover the longest range.
    dilations = dilations[-max(1, int(ROCKET_WORK / max(1, total * len(places)))) :]
    if not dilations or total * len(places) > ROCKET_WORK:
        return None
    weights = _kernels(train)
    quantiles = max(1, ROCKET_FEATURES // (len(places) * len(dilations)))
    sample = train.take(torch.randperm(len(train), generator=generator("kernels"))[:ROCKET_SAMPLE])
    return [(dilation, _thresholds(sample, weights, dilation, quantiles)) for dilation in dilations]


def minirocket_shares(examples: SequenceDataset, thresholds: Thresholds) -> np.ndarray:
    """Return the MiniRocket features (n, features) of examples, view after view."""
    weights = _kernels(examples)
    x = torch.cat([_rocket_shares(batch, weights, thresholds) for batch in _batches(examples)]).numpy()
    return np.concatenate(np.split(x, examples.views), axis=1)


def _kernels(examples: SequenceDataset) -> Tensor:
    """Return the weights (kernels, channels, width) of the MiniRocket kernels."""
    places = list(combinations(range(KERNEL_SIZE), TWOS))
    kernels = torch.full((len(places), KERNEL_SIZE), -1.0)
    kernels[torch.arange(len(places))[:, None], torch.tensor(places)] = 2.0
    return _over_channels(kernels, examples.batch(torch.tensor([0])).inputs.shape[-1])


def _over_channels(kernels: Tensor, channels: int) -> Tensor:
    """Return weights (kernels, channels, width); each kernel reads a random subset of channels."""
    random = generator("kernels", "channels")
    masks = torch.zeros(len(kernels), channels)
    for mask in masks:
        number = int(2 ** (torch.rand(1, generator=random) * np.log2(min(channels, KERNEL_SIZE) + 1)))
        mask[torch.randperm(channels, generator=random)[: max(1, number)]] = 1
    return kernels[:, None] * masks[..., None]


def _batches(examples: SequenceDataset) -> list[Batch]:
    """Return all examples in batches; with several views, all first views come first."""
    n = examples.starts.numel()
    one_view = replace(
        examples,
        starts=examples.starts.reshape(1, n),
        lengths=examples.lengths.reshape(1, n),
        targets=torch.zeros(n),  # not looked at
        groups=None,
        weights=None,
    )
    return [one_view.batch(rows) for rows in torch.arange(n).split(ROCKET_BATCH)]


def _kernel_outputs(batch: Batch, weights: Tensor, dilation: int) -> Tensor:
    """Return the kernel outputs (B, kernels, L) for sequences with their mean subtracted."""
    mask = batch.real()[..., None].float()
    x = batch.inputs.nan_to_num() * mask
    x = (x - x.sum(1, keepdim=True) / mask.sum(1, keepdim=True)) * mask
    return conv1d(x.mT, weights, padding="same", dilation=dilation)


def _thresholds(sample: SequenceDataset, weights: Tensor, dilation: int, quantiles: int) -> Tensor:
    """Return the (kernels, quantiles) thresholds: quantiles of the outputs on training sequences."""
    outputs = torch.cat(
        [
            _kernel_outputs(batch, weights, dilation).transpose(0, 1)[:, batch.real()]
            for batch in _batches(sample)
        ],
        dim=1,
    )
    n_outputs = outputs.shape[1]
    outputs = outputs[:, torch.linspace(0, n_outputs - 1, min(n_outputs, 10_000)).long()]
    return outputs.quantile((torch.arange(quantiles) + 0.5) / quantiles, dim=1).T


def _rocket_shares(batch: Batch, weights: Tensor, thresholds: Thresholds) -> Tensor:
    """Return (B, features): the shares of real positions at which a kernel's output exceeds a threshold."""
    mask = batch.real()[:, None]
    parts = []
    for dilation, levels in thresholds:
        outputs = _kernel_outputs(batch, weights, dilation)
        above = [((outputs > level[:, None]) & mask).sum(-1) for level in levels.T]
        parts.append(torch.stack(above, -1).flatten(1) / mask.sum(-1))
    return torch.cat(parts, 1)
