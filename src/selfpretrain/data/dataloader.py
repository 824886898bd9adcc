"""Batch sampling by length, and a data loader that prefetches the next batches."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import torch
from jaxtyping import Int, Real
from torch import Tensor

from ..errors import SpecError
from .dataset import generator

Prepared = TypeVar("Prepared")

AHEAD = 3  # batches that are prepared ahead of the step: copies of one wait for those of other processes


@dataclass(frozen=True)
class BatchSampler:
    """Selects the examples of the batch at each step: a pure function of lengths, seed and step.

    Every epoch is a new permutation. It is cut into pools of ``pool`` batches; within a pool, examples of
    similar length share a batch, which reduces padding. Examples that do not fill a last batch are left out
    of that epoch.

    Raises:
        SpecError: if there are fewer examples than the batch size.
    """

    lengths: Int[Tensor, "n"]
    size: int
    seed: int
    pool: int = 50

    def __post_init__(self) -> None:
        if len(self.lengths) < self.size:
            raise SpecError(
                f"a batch of {self.size} needs as many training examples, there are {len(self.lengths)}; "
                f"lower the batch size"
            )

    @property
    def per_epoch(self) -> int:
        """Return the number of steps per epoch."""
        return len(self.lengths) // self.size

    def rows(self, step: int) -> Int[Tensor, "B"]:
        """Return the rows of the batch at ``step``, counted from 0."""
        epoch, i = divmod(step, self.per_epoch)
        return self._epoch_batches(epoch)[i]

    def padded_lengths(self, epochs: int = 1) -> Tensor:
        """Return the padded length of each batch of the first epochs, (steps,)."""
        return torch.cat([self.lengths[self._epoch_batches(epoch)].amax(1) for epoch in range(epochs)])

    def padding_share(self, lengths: Real[Tensor, "n"]) -> float:
        """Return the share of positions in the first epoch that are padding.

        Args:
            lengths: of the examples without it, the mean over their views.
        """
        padded = self.padded_lengths().sum() * self.size
        return 1 - float(lengths[self._epoch_batches(0)].sum()) / float(padded)

    @cached_property
    def _cache(self) -> dict[int, Tensor]:
        return {}

    def _epoch_batches(self, epoch: int) -> Int[Tensor, "steps B"]:
        if epoch not in self._cache:
            random = generator(self.seed, "order", epoch)
            order = torch.randperm(len(self.lengths), generator=random)[: self.per_epoch * self.size]
            batches = order.view(-1, self.size)
            if int(self.lengths.min()) < int(self.lengths.max()):
                pools = order.split(self.pool * self.size)
                order = torch.cat([pool[self.lengths[pool].argsort(stable=True)] for pool in pools])
                batches = order.view(-1, self.size)[torch.randperm(self.per_epoch, generator=random)]
            self._cache.clear()
            self._cache[epoch] = batches
        return self._cache[epoch]


class PrefetchLoader(Generic[Prepared]):
    """A data loader that prepares the batches of the next steps in a thread while the device computes.

    On a GPU they are copied in a stream of their own. In the stream of the steps, every copy would have the
    kernels behind it wait for the copy engine, and for the turn of every other process on that GPU.

    Args:
        prepare: returns the batch of a step, with all that is drawn for it; a pure function.
        device: that of the steps; batches for the CPU are prepared on demand.
    """

    def __init__(self, prepare: Callable[[int], Prepared], device: torch.device) -> None:
        self.prepare = prepare
        self.device = device
        self.executor = None if device.type == "cpu" else ThreadPoolExecutor(1)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.coming: dict[int, Future[tuple[Prepared, torch.cuda.Event | None]]] = {}

    def batch(self, step: int) -> Prepared:
        """Return the batch at ``step``, counted from 0, and start to prepare the next ones."""
        if self.executor is None:
            return self.prepare(step)
        steps = range(step, step + 1 + AHEAD)
        before = self.coming
        self.coming = {each: before.get(each) or self.executor.submit(self._prepare, each) for each in steps}
        batch, copied = self.coming.pop(step).result()
        if self.stream is not None and copied is not None:
            steps_stream = torch.cuda.current_stream(self.device)
            steps_stream.wait_event(copied)
            # Memory of a batch that nobody holds any more is used again, but not before its step has ended.
            self.stream.wait_stream(steps_stream)
        return batch

    def close(self) -> None:
        """Stop prefetching."""
        if self.executor is not None:
            self.executor.shutdown(cancel_futures=True)

    def _prepare(self, step: int) -> tuple[Prepared, torch.cuda.Event | None]:
        """Return the batch of a step, and the event after its copies: those of later ones may take longer."""
        if self.stream is None:
            return self.prepare(step), None
        with torch.cuda.stream(self.stream):
            return self.prepare(step), self.stream.record_event()
