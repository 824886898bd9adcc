"""In-memory data passed to an estimator, as a task."""

import hashlib
import json
import weakref
from collections import deque
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from ..config import spec
from ..data.dataset import SequenceDataset
from ..data.moments import clip_tokens
from ..data.spec import SPLITS, Classes, SequenceSpec, Split
from ..data.splits import split_rows
from ..data.store import StoredDataset
from ..errors import DataError
from ..registry import name_of
from ..system.files import Json
from ..tasks.base import Card, Task
from .annotations import mean_one

_held: "weakref.WeakValueDictionary[str, StoredDataset]" = weakref.WeakValueDictionary()
"""Digest -> data; an entry is dropped when nothing else references the data."""

_kept: "deque[StoredDataset]" = deque(maxlen=2)
"""References to the last redivided data sets, so that they are not dropped from ``_held``."""


@spec
class InMemoryTask(Task):
    """Sequences and labels in the memory of this process."""

    card = Card(source="data of the user", licence="that of the data")
    name: ClassVar[str] = "given"

    digest: str = ""

    @property
    def form(self) -> SequenceSpec:
        """The spec that was inferred when the data were passed in."""
        return self.data().form

    def load(self, split: Split) -> SequenceDataset:
        """Return the examples of one split; those of train if val is empty, because too few are labelled."""
        held = self.data()
        empty = split == "val" and not (held.split == SPLITS.index(split)).any()
        if split == "train" or empty:
            return held.examples("train")
        return clip_tokens(held.examples(split), held.form)

    def version(self) -> str:
        """Return ""; the digest is a field of the task already."""
        return ""

    def data(self) -> StoredDataset:
        """Return the data.

        Raises:
            DataError: if they are no longer in memory.
        """
        if self.digest not in _held:
            raise DataError("the data of this run were in the memory of a program that has ended; fit again")
        return _held[self.digest]


def in_memory_task(data: StoredDataset) -> InMemoryTask:
    """Return a task for data in memory, valid while they are referenced; equal data give equal tasks."""
    found = hashlib.sha256(json.dumps(asdict(data.form), sort_keys=True).encode())
    whole = data.whole
    for part in (whole.flat, whole.starts, whole.lengths, whole.targets, whole.groups, whole.weights):
        found.update(b"|" if part is None else _bytes(part))
    found.update(data.split.astype(np.int8).tobytes())
    digest = found.hexdigest()
    _held[digest] = data
    return InMemoryTask(digest)


def with_test_split(task: Task, seed: int) -> Task:
    """Return a task with a test split: the task itself, or in-memory data split again.

    Of in-memory data, 15 % of the labelled examples, or of their groups, are val and 15 % test. Statistics
    (centre, spread, range, vocabulary, scale of real targets, mean weight) are computed again, on train.

    Raises:
        DataError: if there are too few labelled examples, or groups.
    """
    if not isinstance(task, InMemoryTask):
        return task
    held = task.data()
    split = _three_splits(held, seed)
    divided = held.with_split(split)
    whole = divided.whole
    if whole.weights is not None:
        weights = mean_one(held.meta["weights"], (split == 0) & whole.labelled.numpy())
        divided = replace(divided, whole=replace(whole, weights=weights))
    _kept.append(divided)
    return in_memory_task(divided)


def _three_splits(held: StoredDataset, seed: int) -> np.ndarray:
    """Return the split (n,) of every example; unlabelled ones are in train, or with their group."""
    whole = held.whole
    rows = whole.labelled.numpy().nonzero()[0]
    one = isinstance(held.form.target, Classes)
    classes = whole.targets.numpy()[rows] if one else np.zeros(len(rows), int)
    groups = None if whole.groups is None else whole.groups.numpy()
    split = np.zeros(len(held.split), dtype=np.int64)
    split[rows] = split_rows(classes, None if groups is None else groups[rows], seed)
    if not {0, 1, 2} <= set(split[rows].tolist()):
        raise DataError(f"{len(rows)} labelled examples are too few for train, val and test; give more")
    if groups is not None:
        for number in (1, 2):
            split[np.isin(groups, groups[split == number])] = number
    return split


def facts(task: Task) -> Json:
    """Return the data section of the model card."""
    form = task.form
    train = task.load("train")
    return {
        "task": name_of(task),
        "train": len(train),
        "labelled": int(train.labelled.sum()),
        "val": len(task.load("val")),
        "length": form.length,
        "digest": task.version() or getattr(task, "digest", ""),
        "licence": task.card.licence,
        "source": task.card.source,
    }


def _bytes(part: Tensor) -> bytes:
    return f"{part.dtype}{tuple(part.shape)}".encode() + part.contiguous().numpy().tobytes()
