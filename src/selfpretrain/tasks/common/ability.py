"""Base class of generated tasks that each need one ability, with a class at some positions.

A sequence begins with a part that shows the answers, so that denoising has something to learn, and ends with
questions. Subclasses draw examples; the class of a position that asks nothing is unknown.
"""

import abc
import functools
from dataclasses import replace

import numpy as np

from ...config import Count, Seed, spec
from ...data.dataset import SequenceDataset
from ...data.spec import Split
from ...data.splits import check_labels
from ...errors import SpecError
from ...registry import name_of
from ..base import Task

UNKNOWN = -1  # class of a position that asks nothing
BLOCK_SIZE = 10_000  # sequences drawn at a time
MIN_FOUND = 100  # new sequences per block below which generation gives up


@spec
class AbilityTask(Task):
    """Sequences of equal length, no two of them alike, and the classes of their positions."""

    small = (
        *("pretrain.batch=64", "finetune.batch=64", "scratch.batch=64"),
        *("pretrain.budget.steps=1500", "finetune.budget.steps=1000", "scratch.budget.steps=1000"),
    )

    train: Count = 20_000  # training sequences; a smaller number gives a subset
    val: Count = 1_000  # validation sequences
    test: Count = 2_000  # test sequences
    labels: Count | None = None  # training sequences that keep their labels, nested; None: all
    seed: Seed = 0  # seed of the generator

    @abc.abstractmethod
    def draw(self, random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return n sequences of tokens and the classes of their positions, both (n, L)."""

    def load(self, split: Split) -> SequenceDataset:
        """Return the sequences of one split.

        Raises:
            SpecError: if more labels are asked for than there are training sequences.
        """
        check_labels(self.labels, self.train, "sequences")
        inputs, targets = _drawn(replace(self, labels=None))
        first = {"test": 0, "val": self.test, "train": self.test + self.val}[split]
        rows = slice(first, first + getattr(self, split))
        classes = targets[rows]
        if split == "train" and self.labels is not None:
            classes = classes.copy()
            classes[self.labels :] = UNKNOWN
        return SequenceDataset.from_array(inputs[rows], classes)


@functools.lru_cache(maxsize=4)
def _drawn(task: AbilityTask) -> tuple[np.ndarray, np.ndarray]:
    """Draw test, val and train in this order, so that the size of train does not change test and val."""
    wanted = task.test + task.val + task.train
    random = np.random.default_rng(task.seed)
    inputs, targets = task.draw(random, 0)
    while len(inputs) < wanted:
        more = task.draw(random, BLOCK_SIZE)
        before = len(inputs)
        inputs = np.concatenate([inputs, more[0]])
        targets = np.concatenate([targets, more[1]])
        kept = np.sort(np.unique(inputs, axis=0, return_index=True)[1])  # the first of equal sequences
        inputs = inputs[kept]
        targets = targets[kept]
        if len(inputs) < min(wanted, before + MIN_FOUND):
            raise SpecError(
                f"{name_of(task)}: only {len(inputs):,} different sequences were found, {wanted:,} are asked "
                "for; ask for fewer, or for longer ones"
            )
    return inputs[:wanted], targets[:wanted]
