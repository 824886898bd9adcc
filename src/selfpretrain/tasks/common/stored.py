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
from ...data.moments import fit_target
from ...data.spec import Reals, SequenceSpec, Split
from ...data.splits import limit_labels
from ...data.store import DatasetWriter, StoredDataset, open_dataset, open_writer
from ...errors import DamagedData
from ...registry import name_of
from ...system.events import report_progress
from ..base import Task
from .dataset_stub import DatasetStub, with_stub


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
            return dataclasses.replace(form, target=_target_scale(self, self.data().digest))
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
        return limit_labels(examples, self.labels) if split == "train" else examples

    def stubbed(self) -> "Prepared":
        """Return the task with a stub, unless its data are prepared or made up.

        Raises:
            DataError: if there is no stub of these data.
        """
        return self if self.made_up or self.folder.exists() else with_stub(self)

    def tiny(self) -> "Prepared":
        """Return the task with a few synthetic examples."""
        return dataclasses.replace(self, made_up=True)

    def symbols(self) -> tuple[str, ...] | None:
        """Return the text of each token as stored with the examples; None if there is none."""
        symbols = self.data().meta["symbols"]
        return None if symbols is None else tuple(symbols)

    def data(self) -> StoredDataset | DatasetStub:
        """Return the prepared set, written first if it does not exist; the stub of a stubbed task."""
        return self.stub or _load_or_write(dataclasses.replace(self, labels=None), str(self.folder))

    @property
    def folder(self) -> Path:
        """Folder of the prepared set, which may not exist yet."""
        key = json.dumps(
            [dataclasses.asdict(dataclasses.replace(self, labels=None)), self.edition], default=str
        )
        name = f"{name_of(self)}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        return paths.folders()[0] / "prepared" / name


@functools.lru_cache(maxsize=16)
def _target_scale(task: StoredTask, digest: str) -> Reals:
    """Return the scale of the real targets within the label budget."""
    target = task.data().form.target
    assert isinstance(target, Reals)
    return fit_target(target, task.load("train").targets.numpy())


@functools.lru_cache(maxsize=8)
def _load_or_write(task: Prepared, path: str) -> StoredDataset:
    if task.made_up:
        out = DatasetWriter(None, task.packed)
        return out.finish(task.write(out))
    folder = Path(path)
    if stored := _open_if_sound(folder):
        return stored
    with paths.hold_lock(folder):
        if stored := _open_if_sound(folder):  # another process has written it meanwhile
            return stored
        with open_writer(folder, task.packed, task.resumes) as out:
            out.finish(task.write(out), {"task": name_of(task)})
    return open_dataset(folder)


def _open_if_sound(folder: Path) -> StoredDataset | None:
    """Return the stored set; None if it is missing or damaged, since it can be written again."""
    if not folder.exists():
        return None
    try:
        return open_dataset(folder)
    except DamagedData as error:
        report_progress(f"made again: {error}", 0)
        return None
