"""Datasets of sequences in memory, and padded batches of them.

A task describes its sequences (``SequenceSpec``) and loads a split (``SequenceDataset``). Training draws
padded batches (``Batch``) in an order that is a pure function of seed and step, so that training can be
interrupted at any step and resumed exactly.
"""

import abc
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import DataError
from ..shapes import Inputs, PaddingMask
from ..system.hardware import free_gpu_memory
from .spec import SequenceSpec

FEW = 2
"""Batches of at most this many examples are gathered without Numba: loading compiled code would cost more."""
PRELOADED = 0.25  # largest share of a GPU's free memory for the sequences of a split

UNPACKED = 4096  # sequences unpacked at a time


@dataclass(frozen=True)
class Batch:
    """A batch of examples, padded to one length.

    With several views per example, all first views come first, then all second ones: B = examples * views.
    """

    inputs: Inputs
    padding_mask: PaddingMask
    targets: Tensor  # (examples,) int64 classes or float32 values; or (examples, ...) int16
    views: int = 1
    weights: Tensor | None = None  # (examples,) weight in the loss; None: equal weights
    lengths: Int[Tensor, "B"] | None = None  # always on the CPU; None: use ``padding_mask``

    def to(self, device: torch.device | str) -> "Batch":
        """Return the same batch on another device. ``lengths`` stays on the CPU."""
        known = self._known("inputs", "padding_mask", "targets", "weights")
        moved: dict[str, Any] = {name: to_device(x, device) for name, x in known.items()}
        return replace(self, **moved)

    def real(self) -> Bool[Tensor, "B L"]:
        """Return the padding mask (B, L) on the CPU, True at real positions, even if there is no padding."""
        if self.padding_mask is None:
            return torch.ones(self.inputs.shape[:2], dtype=torch.bool)
        if self.lengths is None:
            return self.padding_mask.cpu()
        return torch.arange(self.inputs.shape[1]) < self.lengths[:, None]

    def part(self, rank: int, world: int) -> "Batch":
        """Return every ``world``-th example, starting at ``rank``; padding stays that of the whole batch."""
        by_view = self._known("inputs", "padding_mask", "lengths")
        parts: dict[str, Any] = {name: shard(x, rank, world, self.views) for name, x in by_view.items()}
        parts |= {name: x[rank::world] for name, x in self._known("targets", "weights").items()}
        return replace(self, **parts)

    def _known(self, *names: str) -> dict[str, Any]:
        return {name: x for name in names if (x := getattr(self, name)) is not None}


class Augmentation(abc.ABC):
    """A random change of training batches. Lengths, padding and targets stay; those of positions may move."""

    reads_inputs: ClassVar[bool] = False  # whether it computes with inputs in main memory

    @abc.abstractmethod
    def apply(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> Batch:
        """Return the batch with changed inputs; all randomness is drawn from ``random``, on the CPU."""


def shard(x: Tensor, rank: int, world: int, views: int) -> Tensor:
    """Return every ``world``-th example of a tensor whose views are stored one after the other."""
    return x.unflatten(0, (views, -1))[:, rank::world].flatten(0, 1)


def to_device(x: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device. Copies to a GPU use pinned memory, so that they do not block."""
    if torch.device(device).type == "cuda" and x.device.type == "cpu" and not x.is_pinned():
        x = x.pin_memory()
    return x.to(device, non_blocking=True)


def per_channel(numbers: Sequence[float], like: Tensor) -> Float[Tensor, "C"]:
    """Return one number per channel of (B, L, C) inputs, repeated if there are fewer, on their device."""
    each = list(islice(cycle(numbers), like.shape[-1]))
    return to_device(torch.tensor(each, dtype=like.dtype), like.device)


@dataclass(frozen=True)
class SequenceDataset:
    """One split: all sequences end to end in a flat tensor, their starts and lengths, and the targets.

    The flat tensor may be a memory-mapped file: ``take`` shares it and ``batch`` copies only its examples.
    Data that are mostly zeros may be packed as bytes with runs of zeros shortened (``pack_rows``); ``starts``
    then counts these bytes.
    """

    flat: Tensor  # (T,) symbols or (T, C) values, or packed bytes
    starts: Int[Tensor, "views n"]
    lengths: Int[Tensor, "views n"]
    targets: Tensor  # (n,), or (n, ...) if an example has several
    groups: Tensor | None = None  # (n,) int64: examples of one group (patient, file) stay in one split
    packed: bool = False
    padded: int = 0  # minimum padded length, for networks that need a fixed length; 0: none
    weights: Tensor | None = None  # (n,) float32 weight in the loss; None: equal weights

    @classmethod
    def from_sequences(cls, sequences: Sequence[np.ndarray], targets: np.ndarray) -> "SequenceDataset":
        """Return a dataset of a list of arrays, (length,) symbols or (length, channels) values."""
        lengths = torch.tensor([len(s) for s in sequences], dtype=torch.int64)
        flat = torch.from_numpy(np.concatenate(sequences))
        return cls(flat, (lengths.cumsum(0) - lengths)[None], lengths[None], _targets(targets))

    @classmethod
    def from_array(cls, inputs: np.ndarray, targets: np.ndarray) -> "SequenceDataset":
        """Return a dataset of equally long sequences in one array, (n, L) symbols or (n, L, C) values."""
        n, length = inputs.shape[:2]
        flat = torch.from_numpy(np.ascontiguousarray(inputs).reshape(n * length, *inputs.shape[2:]))
        starts = torch.arange(n, dtype=torch.int64) * length
        return cls(flat, starts[None], torch.full((1, n), length), _targets(targets))

    def __len__(self) -> int:
        return self.targets.shape[0]

    @property
    def views(self) -> int:
        """Return the number of sequences per example."""
        return self.starts.shape[0]

    @cached_property
    def longest(self) -> Int[Tensor, "n"]:
        """Return the length of each example's longest view, at least ``padded``; it determines the cost."""
        return self.lengths.amax(0).clamp(min=self.padded)

    @property
    def labelled(self) -> Bool[Tensor, "n"]:
        """Return True for examples with a target, or with at least one where an example has several."""
        if self.targets.is_floating_point():
            return self.targets.isfinite()
        return (self.targets >= 0).flatten(1).any(1) if self.targets.ndim > 1 else self.targets >= 0

    def clusters(self) -> Int[Tensor, "n"] | None:
        """Return a cluster number per example for clustered statistics, or None if all are independent.

        Clusters are the groups, if there are any; otherwise windows that overlap, directly or through others.
        """
        clusters = self.groups
        if clusters is None and self.views == 1 and not self.packed:
            order = self.starts[0].argsort(stable=True)
            ends = (self.starts[0] + self.lengths[0])[order].cummax(0).values
            begins = self.starts[0][order][1:] >= ends[:-1]  # no overlap with any earlier window
            clusters = torch.zeros(len(self), dtype=torch.int64)
            clusters[order[1:]] = begins.cumsum(0)
        if clusters is None or len(torch.unique(clusters)) == len(self):
            return None
        return torch.unique(clusters, return_inverse=True)[1]

    def take(self, rows: Tensor) -> "SequenceDataset":
        """Return the examples at ``rows``, sharing the flat tensor."""
        groups, weights = (None if x is None else x[rows] for x in (self.groups, self.weights))
        starts = self.starts[:, rows]
        lengths = self.lengths[:, rows]
        targets = self.targets[rows]
        return replace(self, starts=starts, lengths=lengths, targets=targets, groups=groups, weights=weights)

    def batch(self, rows: Tensor) -> Batch:
        """Return the examples at ``rows``, zero-padded to the longest of them and at least to ``padded``."""
        starts = self.starts[:, rows].reshape(-1)
        lengths = self.lengths[:, rows].reshape(-1)
        # `_gather_numba` checks bounds and raises; `_gather_torch` does not check starts and lengths.
        few = len(rows) <= FEW and not self.packed and min(int(starts.min()), int(lengths.min())) >= 0
        few = few and int((starts + lengths).max()) <= len(self.flat)
        gather = _gather_torch if few or self.flat.device.type != "cpu" else _gather_numba
        inputs = gather(self, starts, lengths, max(self.padded, int(lengths.max())))
        device = inputs.device
        targets = to_device(self.targets[rows], device)
        weights = None if self.weights is None else to_device(self.weights[rows], device)
        if int(lengths.min()) == inputs.shape[1]:
            return Batch(inputs, None, targets, self.views, weights, lengths)
        padding_mask = torch.arange(inputs.shape[1], device=device) < to_device(lengths, device)[:, None]
        return Batch(inputs, padding_mask, targets, self.views, weights, lengths)

    def sequence(self, row: int, view: int = 0) -> np.ndarray:
        """Return (length,) symbols or (length, C) values of one sequence, as they are stored."""
        start = int(self.starts[view, row])
        length = int(self.lengths[view, row])
        if not self.packed:
            return self.flat[start : start + length].cpu().numpy()
        one = (view, slice(row, row + 1))
        return _gather_numba(self, self.starts[one], self.lengths[one], length)[0].to(torch.uint8).numpy()

    def stack(self, view: int = 0) -> Tensor:
        """Return (n, L) symbols or (n, L, C) values of one view, as stored; all have one length."""
        whole = self.unpack("cpu") if self.packed else self
        return whole.flat[whole.starts[view][:, None] + torch.arange(int(self.lengths[view, 0]))]

    def batches(self, size: int) -> Iterator[tuple[Tensor, Batch]]:
        """Yield (rows, batch) over all examples once, shortest first. The last batch may be smaller."""
        for rows in self.longest.argsort(stable=True).split(size):
            yield rows, self.batch(rows)

    def preload(self, device: torch.device | str, share: float = PRELOADED) -> "SequenceDataset":
        """Return the split with its sequences on the device if they fit into ``share`` of its free memory."""
        if torch.device(device).type != "cuda":
            return self
        size = int(self.lengths.sum()) if self.packed else self.flat.numel() * self.flat.element_size()
        if size > share * free_gpu_memory(device):
            return self
        return self.unpack(device) if self.packed else replace(self, flat=self.flat.to(device))

    def unpack(self, device: torch.device | str) -> "SequenceDataset":
        """Return the split on a device, unpacked to one byte per position."""
        lengths = self.lengths.flatten()
        starts = self.starts.flatten()
        flat = torch.empty(int(lengths.sum()), 1, dtype=torch.uint8, device=device)
        ends = lengths.cumsum(0)
        for rows in torch.arange(len(lengths)).split(UNPACKED):
            inputs = _gather_numba(self, starts[rows], lengths[rows], int(lengths[rows].max()))
            mask = torch.arange(inputs.shape[1]) < lengths[rows][:, None]
            first = int(ends[rows[0]] - lengths[rows[0]])
            flat[first : int(ends[rows[-1]])] = inputs[mask].to(torch.uint8).to(device)
        return replace(self, flat=flat, starts=(ends - lengths).view_as(self.starts), packed=False)

    def digests(self) -> list[str]:
        """Return a short hash of each example's sequences (not its target), to find it in other splits."""
        flat = self.flat.cpu().numpy()  # sliced here: rows of tensors take ten times as long
        starts = self.starts.T.tolist()
        lengths = self.lengths.T.tolist()

        def sequence(row: int, view: int) -> np.ndarray:
            first = starts[row][view]
            return self.sequence(row, view) if self.packed else flat[first : first + lengths[row][view]]

        views = range(self.views)
        contents = (b"".join(sequence(row, v).tobytes() + b"|" for v in views) for row in range(len(self)))
        return [hashlib.sha256(content).hexdigest()[:16] for content in contents]


def sequences(examples: SequenceDataset) -> SequenceDataset:
    """Return an example for every sequence: all first views, then all second ones."""
    if examples.views == 1:
        return examples
    starts, lengths = (x.reshape(1, -1) for x in (examples.starts, examples.lengths))
    targets = torch.zeros(lengths.numel())  # not looked at
    return SequenceDataset(examples.flat, starts, lengths, targets, None, examples.packed, examples.padded)


def concatenated(examples: SequenceDataset) -> np.ndarray:
    """Return the sequences of examples of one sequence each, concatenated in their order."""
    return np.concatenate([examples.sequence(row) for row in range(len(examples))])


def generator(*key: int | str) -> torch.Generator:
    """Return a random generator seeded by its key alone, e.g. ``generator(seed, "mask", step)``."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def as_targets(targets: np.ndarray) -> np.ndarray:
    """Convert targets to the stored dtype: int64 classes (n,), int16 (n, ...), or float32 real numbers."""
    several = np.int16 if targets.ndim > 1 else np.int64
    return targets.astype(np.float32 if targets.dtype.kind == "f" else several)


def _targets(targets: np.ndarray) -> Tensor:
    if len(targets) and not np.issubdtype(targets.dtype, np.number):
        raise DataError(f"targets are {targets.dtype}, not numbers")
    return torch.from_numpy(as_targets(targets))


def _gather_numba(examples: SequenceDataset, starts: Tensor, lengths: Tensor, length: int) -> Tensor:
    """Return padded rows of a flat tensor in main memory, gathered by Numba."""
    from .rows import pad_rows, unpack_rows  # imports Numba, which takes half a second

    flat = examples.flat.numpy()
    rows = flat if flat.ndim == 2 or examples.packed else flat[:, None]
    kind = np.float32 if flat.ndim == 2 or examples.packed else np.int64
    out = np.zeros((len(starts), length, 1 if examples.packed else rows.shape[1]), dtype=kind)
    fill = unpack_rows if examples.packed else pad_rows
    wrong = fill(rows, starts.numpy(), lengths.numpy(), out)
    if wrong >= 0:
        raise DataError(
            f"a sequence of {int(lengths[wrong]):,} positions from {int(starts[wrong]):,} on is not inside "
            f"of the {len(flat):,} that are there; the data are damaged, see selfpretrain show --check"
        )
    return torch.from_numpy(out if kind is np.float32 else out[:, :, 0])


def _gather_torch(examples: SequenceDataset, starts: Tensor, lengths: Tensor, length: int) -> Tensor:
    """Return padded rows of a flat tensor by indexing, on the device of the tensor."""
    device = examples.flat.device
    position = torch.arange(length, device=device)
    padding_mask = position < to_device(lengths, device)[:, None]
    inputs = examples.flat[torch.where(padding_mask, to_device(starts, device)[:, None] + position, 0)]
    inputs = inputs.float() if inputs.ndim == 3 else inputs.long()
    return inputs * (padding_mask if inputs.ndim == 2 else padding_mask[..., None])
