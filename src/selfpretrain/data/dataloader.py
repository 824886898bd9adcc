"""Batch sampling by length, and a data loader that prefetches the next batch."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import SpecError
from .dataset import Batch, SequenceDataset, generator


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
        """Steps per epoch."""
        return len(self.lengths) // self.size

    def rows(self, step: int) -> Int[Tensor, "B"]:
        """Return the rows of the batch at ``step``, counted from 0."""
        epoch, at = divmod(step, self.per_epoch)
        return self._epoch(epoch)[at]

    def padded(self) -> Tensor:
        """Return the padded length of each batch of the first epoch, (steps,)."""
        return self.lengths[self._epoch(0)].amax(1)

    def padding_share(self, real: Int[Tensor, "n"]) -> float:
        """Return the share of positions in the first epoch that are padding, in [0, 1).

        Args:
            real: lengths without padding.
        """
        return 1 - float(real[self._epoch(0)].sum()) / float(self.padded().sum() * self.size)

    @cached_property
    def _memory(self) -> dict[int, Tensor]:
        return {}

    def _epoch(self, epoch: int) -> Int[Tensor, "steps B"]:
        if epoch not in self._memory:
            self._memory.clear()
            self._memory[epoch] = self._arrange(epoch)
        return self._memory[epoch]

    def _arrange(self, epoch: int) -> Int[Tensor, "steps B"]:
        random = generator(self.seed, "order", epoch)
        order = torch.randperm(len(self.lengths), generator=random)[: self.per_epoch * self.size]
        if int(self.lengths.min()) == int(self.lengths.max()):
            return order.view(-1, self.size)
        pools = order.split(self.pool * self.size)
        order = torch.cat([pool[self.lengths[pool].argsort(stable=True)] for pool in pools])
        return order.view(-1, self.size)[torch.randperm(self.per_epoch, generator=random)]


class PrefetchLoader:
    """A data loader that prepares the next batch in a thread while the device computes.

    Batches are made on demand if the data are already on the device, or the device is the CPU.
    """

    def __init__(self, data: SequenceDataset, order: BatchSampler, device: torch.device) -> None:
        self.data = data
        self.order = order
        self.device = device
        self.ahead = ThreadPoolExecutor(1) if device.type != data.flat.device.type else None
        self.next: tuple[int, Future[Batch]] | None = None

    def batch(self, step: int) -> Batch:
        """Return the batch at ``step``, counted from 0, and start to prepare the next one."""
        if self.ahead is None:
            return self._made(step)
        coming = self.next[1] if self.next and self.next[0] == step else self.ahead.submit(self._made, step)
        batch = coming.result()
        self.next = step + 1, self.ahead.submit(self._made, step + 1)
        return batch

    def close(self) -> None:
        """Stop prefetching."""
        if self.ahead is not None:
            self.ahead.shutdown(cancel_futures=True)

    def _made(self, step: int) -> Batch:
        return self.data.batch(self.order.rows(step)).to(self.device)
