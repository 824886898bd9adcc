"""Sequences that somebody has handed over in Python, as a task like any other."""

import hashlib
import json
import weakref
from collections import deque
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from ..data.examples import Examples
from ..data.prepared import PreparedSet
from ..data.schema import SPLITS, Classes, Form, Split
from ..data.splits import divide
from ..errors import DataError
from ..registry import name_of
from ..spec import spec
from ..system.files import Json
from ..tasks.base import Card, Task

_held: "weakref.WeakValueDictionary[str, PreparedSet]" = weakref.WeakValueDictionary()
"""What is in memory as long as somebody holds it, by its digest."""

_kept: "deque[PreparedSet]" = deque(maxlen=2)
"""The last sets that were made here, which nobody else holds."""


@spec
class Given(Task):
    """Sequences and labels that are in the memory of this process."""

    card = Card(source="data of the user", licence="that of the data")
    name: ClassVar[str] = "given"

    digest: str = ""

    @property
    def form(self) -> Form:
        """As found when they were taken in."""
        return self.data().form

    def load(self, split: Split) -> Examples:
        """The examples of one split; where val is empty, for want of examples, those of train."""
        held = self.data()
        empty = split == "val" and not (held.split == SPLITS.index(split)).any()
        return held.examples("train" if empty else split)

    def version(self) -> str:
        """Their digest, which is the only field already."""
        return ""

    def data(self) -> PreparedSet:
        """The set.

        Raises:
            DataError: if nobody holds it any more.
        """
        if self.digest not in _held:
            raise DataError("the data of this run were in the memory of a program that has ended; fit again")
        return _held[self.digest]


def hold(data: PreparedSet) -> Given:
    """Make a set a task for as long as somebody holds it; equal sets are the same task."""
    found = hashlib.sha256(json.dumps(asdict(data.form), sort_keys=True).encode())
    whole = data.whole
    for part in (whole.flat, whole.starts, whole.lengths, whole.targets, whole.groups, whole.weights):
        found.update(b"|" if part is None else _bytes(part))
    found.update(data.split.astype(np.int8).tobytes())
    digest = found.hexdigest()
    _held[digest] = data
    return Given(digest)


def thirds(task: Task, seed: int) -> Task:
    """A task with a test split: the task itself, or given data divided anew into train, val and test.

    Raises:
        DataError: if there are too few labelled examples, or groups.
    """
    if not isinstance(task, Given):
        return task
    held = task.data()
    whole, split = held.whole, np.zeros(len(held.split), dtype=np.int64)
    rows = whole.labelled.numpy().nonzero()[0]
    classes = (
        whole.targets.numpy()[rows] if isinstance(held.form.target, Classes) else np.zeros(len(rows), int)
    )
    split[rows] = divide(classes, None if whole.groups is None else whole.groups.numpy()[rows], seed)
    if not {0, 1, 2} <= set(split[rows].tolist()):
        raise DataError(f"{len(rows)} labelled examples are too few for train, val and test; give more")
    divided = replace(held, split=split)
    _kept.append(divided)
    return hold(divided)


def facts(task: Task) -> Json:
    """What a model's card says of its data."""
    form, train = task.form, task.load("train")
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
