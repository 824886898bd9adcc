"""A wrapper that permutes blocks of positions of another task, with the same permutation for all sequences.

Blocks of one position destroy all locality, larger blocks only that between blocks; no information is lost.
The task tests whether self-pretraining learns more than locality.
"""

from dataclasses import replace
from operator import attrgetter

import torch

from ...config import Count, Natural, spec
from ...data.dataset import SequenceDataset
from ...data.spec import PositionClasses, Split
from ...errors import SpecError
from ...registry import name_of
from ..base import Task


@spec
class Shuffled(Task):
    """Another task with its blocks of positions permuted, together with their classes if these have any.

    Raises:
        SpecError: if sequences differ in length, or the length is not a multiple of ``block``.
    """

    task: Task
    block: Count = 1
    seed: Natural = 0

    @property
    def name(self) -> str:
        """Return the name of the task, e.g. digits-in-blocks-of-8."""
        return f"{name_of(self.task)}-in-blocks-of-{self.block}"

    # Properties, as these are those of the wrapped task.
    card = property(attrgetter("task.card"))
    small = property(attrgetter("task.small"))
    denoising = property(attrgetter("task.denoising"))
    masking = property(attrgetter("task.masking"))
    stub = property(attrgetter("task.stub"))
    form = property(attrgetter("task.form"))

    def load(self, split: Split) -> SequenceDataset:
        """Return the examples of a split, each in the permuted order."""
        data = self.task.load(split)
        length = self.task.form.length
        if self.task.form.views > 1 or bool((data.lengths != length).any()) or length % self.block:
            raise SpecError(
                f"{name_of(self.task)} cannot be shuffled: that needs sequences of one length, {length}, "
                f"that divides by block={self.block}"
            )
        if self.task.stub:  # all its examples are one sequence of zeros
            return data
        blocks = torch.arange(length).unflatten(0, (-1, self.block))
        order = blocks[torch.randperm(len(blocks), generator=torch.Generator().manual_seed(self.seed))]
        of_positions = isinstance(self.task.form.target, PositionClasses)
        targets = data.targets[:, order.flatten()] if of_positions else data.targets
        even = SequenceDataset.from_array(data.stack()[:, order.flatten()].numpy(), targets.numpy())
        return replace(even, groups=data.groups, weights=data.weights)

    def stubbed(self) -> "Shuffled":
        """Return the same permutation of the wrapped task's stub."""
        return replace(self, task=self.task.stubbed())

    def tiny(self) -> "Shuffled":
        """Return the same permutation of the wrapped task's tiny version."""
        return replace(self, task=self.task.tiny())

    def version(self) -> str:
        """Return the version of the wrapped task."""
        return self.task.version()
