"""Tasks whose examples are read or generated once, stored on disk, and opened from there afterwards."""

import abc
import dataclasses
import functools
import hashlib
import json
from pathlib import Path
from typing import ClassVar

from ...config import Count, spec
from ...data import paths
from ...data.dataset import SequenceDataset
from ...data.moments import scaled
from ...data.spec import Reals, SequenceSpec, Split
from ...data.splits import budget
from ...data.store import DatasetWriter, StoredDataset, open_dataset, writing
from ...errors import DamagedData
from ...registry import name_of
from ...system.events import progress
from ..base import Task
from .dataset_stub import DatasetStub, outline


class StoredTask(Task):
    """A task with stored examples, of which those for training keep at most ``labels`` labels."""

    labels: int | None  # a field of every subclass

    @abc.abstractmethod
    def data(self) -> StoredDataset | DatasetStub:
        """Return the stored examples."""

    @property
    def form(self) -> SequenceSpec:
        """Spec stored with the examples; real targets are scaled by the labels that are kept."""
        form = self.data().form
        if self.labels and isinstance(form.target, Reals):
            return dataclasses.replace(form, target=_kept_scale(self, self.data().digest))
        return form

    def version(self) -> str:
        """Return the hash of the stored examples; with a label budget, also the scale of real targets."""
        digest = self.data().digest
        target = self.form.target
        if self.labels and isinstance(target, Reals):
            return f"{digest} {target.centre} {target.spread}"
        return digest


@spec
class Prepared(StoredTask):
    """A task that writes its examples to disk once per combination of its fields."""

    made_up: bool = False  # use a few synthetic examples, for tests and smoke runs
    labels: Count | None = None  # training examples that keep their label, nested; None: all

    packed: ClassVar[bool] = False  # store bytes, most of them zero, compressed
    resumes: ClassVar[bool] = False  # ``write`` resumes from ``out.rows`` and writes checkpoints
    edition: ClassVar[int] = 1  # version of ``write``; increase it when the examples change

    @abc.abstractmethod
    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Read or generate all examples of all splits (synthetic ones with ``made_up``), and write them.

        Raises:
            DataError: if the raw files are missing or damaged; the message says what to place where.
        """

    def load(self, split: Split) -> SequenceDataset:
        """Return the stored examples of one split; training keeps at most ``labels`` labels."""
        examples = self.data().examples(split)
        return budget(examples, self.labels) if split == "train" else examples

    def tiny(self) -> "Prepared":
        """Return the task with a few synthetic examples."""
        return dataclasses.replace(self, made_up=True)

    def symbols(self) -> tuple[str, ...] | None:
        """Return the text of each token as stored with the examples; None if there is none."""
        symbols = self.data().meta["symbols"]
        return None if symbols is None else tuple(symbols)

    def data(self) -> StoredDataset | DatasetStub:
        """Return the prepared set, written first if it does not exist; in a dry run, a stub instead."""
        if not self.made_up and not self.place.exists() and (told := outline(self)):
            return told
        return _data(dataclasses.replace(self, labels=None), str(self.place))

    @property
    def place(self) -> Path:
        """Folder of the prepared set, which may not exist yet."""
        said = json.dumps(
            [dataclasses.asdict(dataclasses.replace(self, labels=None)), self.edition], default=str
        )
        name = f"{name_of(self)}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"
        return paths.folders()[0] / "prepared" / name


@functools.lru_cache(maxsize=16)
def _kept_scale(task: StoredTask, digest: str) -> Reals:
    """Return the scale of the real targets within the label budget."""
    target = task.data().form.target
    assert isinstance(target, Reals)
    return scaled(target, task.load("train").targets.numpy())


@functools.lru_cache(maxsize=8)
def _data(task: Prepared, place: str) -> StoredDataset:
    if task.made_up:
        out = DatasetWriter(None, task.packed)
        return out.finish(task.write(out))
    folder = Path(place)
    if there := _opened(folder):
        return there
    with paths.locked(folder):
        if there := _opened(folder):  # another process has written it meanwhile
            return there
        with writing(folder, task.packed, task.resumes) as out:
            out.finish(task.write(out), {"task": name_of(task)})
    return open_dataset(folder)


def _opened(folder: Path) -> StoredDataset | None:
    """Return the stored set; None if it is missing or damaged, since it can be written again."""
    if not folder.exists():
        return None
    try:
        return open_dataset(folder)
    except DamagedData as error:
        progress(f"made again: {error}", 0)
        return None
