"""Datasets of sequences in memory, and padded batches of them.

A task describes its sequences (``SequenceSpec``) and loads a split (``SequenceDataset``). Training draws
padded batches (``Batch``) in an order that is a pure function of seed and step, so that it can be interrupted
anywhere and resumed exactly.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..errors import DataError
from ..shapes import Inputs, PaddingMask

FEW = 2
"""Examples of a batch for which compiled code is not worth loading."""

UNPACKED = 4096
"""Sequences that are unpacked together."""


@dataclass(frozen=True)
class Batch:
    """A few examples, padded to one length.

    With several views, all first sequences come first, then all second ones: B = examples * views.
    """

    inputs: Inputs
    padding_mask: PaddingMask
    targets: Tensor  # (examples,), int64 classes or float32 values; or (examples, ...) int16
    views: int = 1
    weights: Tensor | None = None  # (examples,) what each counts in a loss over labels; None: all the same
    lengths: Int[Tensor, "B"] | None = (
        None  # in main memory, wherever the rest is; None: ask ``padding_mask``
    )

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        padding_mask = None if self.padding_mask is None else sent(self.padding_mask, device)
        inputs, targets = sent(self.inputs, device), sent(self.targets, device)
        weights = None if self.weights is None else sent(self.weights, device)
        return replace(self, inputs=inputs, padding_mask=padding_mask, targets=targets, weights=weights)

    def real(self) -> Bool[Tensor, "B L"]:
        """Which positions are real, spelled out in main memory."""
        if self.padding_mask is None:
            return torch.ones(self.inputs.shape[:2], dtype=torch.bool)
        if self.lengths is None:
            return self.padding_mask.cpu()
        return torch.arange(self.inputs.shape[1]) < self.lengths[:, None]

    def part(self, rank: int, world: int) -> "Batch":
        """Every ``world``-th example, from ``rank`` on; padding stays as it is in the whole."""
        inputs = every(self.inputs, rank, world, self.views)
        padding_mask = (
            None if self.padding_mask is None else every(self.padding_mask, rank, world, self.views)
        )
        lengths = None if self.lengths is None else every(self.lengths, rank, world, self.views)
        weights = None if self.weights is None else self.weights[rank::world]
        targets = self.targets[rank::world]
        return replace(
            self, inputs=inputs, padding_mask=padding_mask, targets=targets, weights=weights, lengths=lengths
        )


def every(x: Tensor, rank: int, world: int, views: int) -> Tensor:
    """Every ``world``-th of the examples whose views stand one after the other."""
    return x.unflatten(0, (views, -1))[:, rank::world].flatten(0, 1)


def sent(x: Tensor, device: torch.device | str) -> Tensor:
    """A tensor on a device; what goes to a GPU goes from pinned memory, so that nobody waits for it."""
    if torch.device(device).type == "cuda" and x.device.type == "cpu" and not x.is_pinned():
        x = x.pin_memory()
    return x.to(device, non_blocking=True)


@dataclass(frozen=True)
class SequenceDataset:
    """A split: all its sequences end to end in one tensor, where each starts, and the targets.

    The flat tensor may be a memory-mapped file; taking a subset or a batch copies only what is taken. Where
    most values are zero it may be packed: bytes in which runs of zeros are shortened (``pack_rows``), and
    ``starts`` counts these bytes.
    """

    flat: Tensor  # (T,) symbols or (T, C) values, or packed bytes
    starts: Int[Tensor, "views n"]
    lengths: Int[Tensor, "views n"]
    targets: Tensor  # (n,), or (n, ...) where an example has several
    groups: Tensor | None = (
        None  # (n,) int64: examples of one group (patient, file, speaker) stay in one split
    )
    packed: bool = False
    padded: int = 0  # the least length of a batch, for networks that must see one length only
    weights: Tensor | None = None  # (n,) float32: what each counts in a loss over labels; None: all the same

    @classmethod
    def ragged(cls, sequences: Sequence[np.ndarray], targets: np.ndarray) -> "SequenceDataset":
        """From a list of arrays, (length,) symbols or (length, channels) values."""
        lengths = torch.tensor([len(s) for s in sequences], dtype=torch.int64)
        flat = torch.from_numpy(np.concatenate(sequences))
        return cls(flat, (lengths.cumsum(0) - lengths)[None], lengths[None], _targets(targets))

    @classmethod
    def even(cls, inputs: np.ndarray, targets: np.ndarray) -> "SequenceDataset":
        """From one array of equally long sequences, (n, L) symbols or (n, L, C) values."""
        n, length = inputs.shape[:2]
        flat = torch.from_numpy(np.ascontiguousarray(inputs).reshape(n * length, *inputs.shape[2:]))
        starts = torch.arange(n, dtype=torch.int64) * length
        return cls(flat, starts[None], torch.full((1, n), length), _targets(targets))

    def __len__(self) -> int:
        return self.targets.shape[0]

    @property
    def views(self) -> int:
        """Sequences per example."""
        return self.starts.shape[0]

    @cached_property
    def longest(self) -> Int[Tensor, "n"]:
        """Length of the longest view of every example, or of what it is padded to: what decides its cost."""
        return self.lengths.amax(0).clamp(min=self.padded)

    @property
    def labelled(self) -> Bool[Tensor, "n"]:
        """Which examples have a target, or some of theirs."""
        if self.targets.is_floating_point():
            return self.targets.isfinite()
        return (self.targets >= 0).flatten(1).any(1) if self.targets.ndim > 1 else self.targets >= 0

    def clusters(self) -> Int[Tensor, "n"] | None:
        """One number for examples that are no independent evidence; None if all are.

        Those of one group are not, else windows that share positions, directly or through others.
        """
        found = self.groups
        if found is None and self.views == 1 and not self.packed:
            order = self.starts[0].argsort(stable=True)
            ends = (self.starts[0] + self.lengths[0])[order].cummax(0).values
            begins = self.starts[0][order][1:] >= ends[:-1]  # after all that came before
            found = torch.zeros(len(self), dtype=torch.int64)
            found[order[1:]] = begins.cumsum(0)
        if found is None or len(torch.unique(found)) == len(self):
            return None
        return torch.unique(found, return_inverse=True)[1]

    def take(self, rows: Tensor) -> "SequenceDataset":
        """The examples at ``rows``, sharing the flat tensor."""
        groups, weights = (None if x is None else x[rows] for x in (self.groups, self.weights))
        starts, lengths, targets = self.starts[:, rows], self.lengths[:, rows], self.targets[rows]
        return replace(self, starts=starts, lengths=lengths, targets=targets, groups=groups, weights=weights)

    def batch(self, rows: Tensor) -> Batch:
        """The examples at ``rows``, padded with zeros to the longest of them, or further to ``padded``."""
        starts, lengths = self.starts[:, rows].reshape(-1), self.lengths[:, rows].reshape(-1)
        few = len(rows) <= FEW and not self.packed and self._inside(starts, lengths)
        gather = _indexed if few or self.flat.device.type != "cpu" else _gathered
        inputs = gather(self, starts, lengths, max(self.padded, int(lengths.max())))
        device = inputs.device
        targets = sent(self.targets[rows], device)
        weights = None if self.weights is None else sent(self.weights[rows], device)
        if int(lengths.min()) == inputs.shape[1]:
            return Batch(inputs, None, targets, self.views, weights, lengths)
        padding_mask = torch.arange(inputs.shape[1], device=device) < sent(lengths, device)[:, None]
        return Batch(inputs, padding_mask, targets, self.views, weights, lengths)

    def _inside(self, starts: Tensor, lengths: Tensor) -> bool:
        least = min(int(starts.min()), int(lengths.min()))
        return least >= 0 and int((starts + lengths).max()) <= len(self.flat)

    def sequence(self, row: int, view: int = 0) -> np.ndarray:
        """(length,) symbols or (length, C) values of one sequence, as they are stored."""
        start, length = int(self.starts[view, row]), int(self.lengths[view, row])
        if not self.packed:
            return self.flat[start : start + length].cpu().numpy()
        starts, lengths = self.starts[view, row : row + 1], self.lengths[view, row : row + 1]
        inputs = _gathered(self, starts, lengths, length)
        return inputs[0].to(torch.uint8).numpy()

    def stacked(self, view: int = 0) -> Tensor:
        """Return (n, L) symbols or (n, L, C) values of one view, as they are stored; they have one length."""
        whole = self.unpacked("cpu") if self.packed else self
        return whole.flat[whole.starts[view][:, None] + torch.arange(int(self.lengths[view, 0]))]

    def batches(self, size: int) -> Iterator[tuple[Tensor, Batch]]:
        """All examples once, shortest first, with the rows they come from; nothing is dropped."""
        for rows in self.longest.argsort(stable=True).split(size):
            yield rows, self.batch(rows)

    def resident(self, device: torch.device | str, share: float = 0.25) -> "SequenceDataset":
        """The same split with its sequences on the device, if they take up only a share of its memory."""
        if torch.device(device).type != "cuda":
            return self
        size = int(self.lengths.sum()) if self.packed else self.flat.numel() * self.flat.element_size()
        if size > share * torch.cuda.mem_get_info(device)[0]:
            return self
        return self.unpacked(device) if self.packed else replace(self, flat=self.flat.to(device))

    def unpacked(self, device: torch.device | str) -> "SequenceDataset":
        """The same split with a byte for every position, on a device."""
        lengths, starts = self.lengths.flatten(), self.starts.flatten()
        flat = torch.empty(int(lengths.sum()), 1, dtype=torch.uint8, device=device)
        ends = lengths.cumsum(0)
        for rows in torch.arange(len(lengths)).split(UNPACKED):
            inputs = _gathered(self, starts[rows], lengths[rows], int(lengths[rows].max()))
            real = torch.arange(inputs.shape[1]) < lengths[rows][:, None]
            first = int(ends[rows[0]] - lengths[rows[0]])
            flat[first : int(ends[rows[-1]])] = inputs[real].to(torch.uint8).to(device)
        return replace(self, flat=flat, starts=(ends - lengths).view_as(self.starts), packed=False)

    def digests(self) -> list[str]:
        """One short hash per example of its sequences (not its target): who is who, whatever the split."""
        return [_digest([self.sequence(row, v) for v in range(self.views)]) for row in range(len(self))]


def generator(*key: int | str) -> torch.Generator:
    """A random stream that depends on nothing but its key, e.g. ``generator(seed, "mask", step)``."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def as_targets(targets: np.ndarray) -> np.ndarray:
    """(n,) classes or real numbers, or (n, ...) several classes each, in the type that is kept."""
    several = np.int16 if targets.ndim > 1 else np.int64
    return targets.astype(np.float32 if targets.dtype.kind == "f" else several)


def _targets(targets: np.ndarray) -> Tensor:
    if len(targets) and not np.issubdtype(targets.dtype, np.number):
        raise DataError(f"targets are {targets.dtype}, not numbers")
    return torch.from_numpy(as_targets(targets))


def _gathered(examples: SequenceDataset, starts: Tensor, lengths: Tensor, length: int) -> Tensor:
    """The padded rows of a flat tensor in main memory.

    Raises:
        DataError: if a row is not inside of the flat tensor, because the data are damaged.
    """
    from .rows import pad_rows, unpack_rows  # with Numba, whose import takes half a second

    flat = examples.flat.numpy()
    rows = flat if flat.ndim == 2 or examples.packed else flat[:, None]
    kind = np.float32 if flat.ndim == 2 or examples.packed else np.int64
    out = np.zeros((len(starts), length, 1 if examples.packed else rows.shape[1]), dtype=kind)
    fill = unpack_rows if examples.packed else pad_rows
    wrong = fill(rows, starts.numpy(), lengths.numpy(), out)
    if wrong >= 0:
        raise DataError(
            f"a sequence of {int(lengths[wrong]):,} positions from {int(starts[wrong]):,} on is not inside "
            f"of the {len(flat):,} that are there; the data are damaged, see spt data verify"
        )
    return torch.from_numpy(out if kind is np.float32 else out[:, :, 0])


def _indexed(examples: SequenceDataset, starts: Tensor, lengths: Tensor, length: int) -> Tensor:
    """The padded rows of a flat tensor that lives on a device."""
    device = examples.flat.device
    position = torch.arange(length, device=device)
    padding_mask = position < sent(lengths, device)[:, None]
    inputs = examples.flat[torch.where(padding_mask, sent(starts, device)[:, None] + position, 0)]
    inputs = inputs.float() if inputs.ndim == 3 else inputs.long()
    return inputs * (padding_mask if inputs.ndim == 2 else padding_mask[..., None])


def _digest(views: list[np.ndarray]) -> str:
    hasher = hashlib.sha256()
    for view in views:
        hasher.update(view.tobytes())
        hasher.update(b"|")
    return hasher.hexdigest()[:16]
