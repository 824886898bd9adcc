"""A task whose sequences are cut into blocks that stand in another order, the same for all of them.

Blocks of one position destroy all locality, large ones only that between blocks; what there is to know
stays the same. For the question whether self-pretraining finds more than nearness.
"""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field

from ...config import Count, spec
from ...data.dataset import SequenceDataset
from ...data.spec import SequenceSpec, Split
from ...errors import SpecError
from ...registry import name_of
from ..base import Task


@spec
class Shuffled(Task):
    """Another task with its blocks of positions in an order drawn once.

    Raises:
        SpecError: if its sequences differ in length, or do not divide into blocks.
    """

    task: Task
    block: Count = 1
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def name(self) -> str:
        """E.g. digits-in-blocks-of-8."""
        return f"{name_of(self.task)}-in-blocks-of-{self.block}"

    @property
    def card(self) -> object:  # type: ignore[override]  # the card of the task inside
        """Where the data come from."""
        return self.task.card

    @property
    def small(self) -> tuple[str, ...]:  # type: ignore[override]  # like the two below
        """What suits the task inside suits it in any order."""
        return self.task.small

    @property
    def denoising(self) -> Literal["masked", "causal"]:  # type: ignore[override]
        """How the task inside is pretrained."""
        return self.task.denoising

    @property
    def masking(self) -> float | None:  # type: ignore[override]
        """The share that the task inside hides."""
        return self.task.masking

    @property
    def form(self) -> SequenceSpec:
        """That of the task inside."""
        return self.task.form

    def load(self, split: Split) -> SequenceDataset:
        """The examples of a split, every one in the new order."""
        data, length = self.task.load(split), self.task.form.length
        if self.task.form.views > 1 or bool((data.lengths != length).any()) or length % self.block:
            raise SpecError(
                f"{name_of(self.task)} cannot be shuffled: that needs sequences of one length, {length}, "
                f"that divides by block={self.block}"
            )
        if not data.starts.any():  # an outline: all examples are one
            return data
        blocks = torch.arange(length).unflatten(0, (-1, self.block))
        order = blocks[torch.randperm(len(blocks), generator=torch.Generator().manual_seed(self.seed))]
        even = SequenceDataset.even(data.stacked()[:, order.flatten()].numpy(), data.targets.numpy())
        return replace(even, groups=data.groups)

    def tiny(self) -> "Shuffled":
        """The same of the task's tiny form."""
        return replace(self, task=self.task.tiny())

    def version(self) -> str:
        """That of the task inside."""
        return self.task.version()
