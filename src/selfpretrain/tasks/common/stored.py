"""Tasks whose examples are read or generated once, and from then on opened as a prepared set."""

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


@spec
class Prepared(Task):
    """A task that writes its examples once; its own fields say which examples."""

    made_up: bool = False  # a handful of made-up examples instead of the real ones: for tests and smoke runs
    labels: Count | None = None  # how many training examples keep their label, nested; None: all

    packed: ClassVar[bool] = False  # bytes, most of them zero, are kept shortened
    resumes: ClassVar[bool] = False  # ``write`` goes on from ``out.rows`` and leaves checkpoints
    edition: ClassVar[int] = 1  # goes up when ``write`` gives other examples than before

    @abc.abstractmethod
    def write(self, out: DatasetWriter) -> SequenceSpec:
        """Read, generate or (``made_up``) invent all examples of all splits, and write them.

        Raises:
            DataError: if the raw files are missing or damaged; the message says what to place where.
        """

    @property
    def form(self) -> SequenceSpec:
        """As written with the examples; real targets as measured on the labels that are kept."""
        form = self.data().form
        if self.labels and isinstance(form.target, Reals):
            return dataclasses.replace(form, target=_kept_scale(self, self.data().digest))
        return form

    def load(self, split: Split) -> SequenceDataset:
        """The examples of one split, as they were written; of the training labels, as many as asked for."""
        examples = self.data().examples(split)
        return budget(examples, self.labels) if split == "train" else examples

    def tiny(self) -> "Prepared":
        """The made-up handful."""
        return dataclasses.replace(self, made_up=True)

    def version(self) -> str:
        """Return the hash of the prepared set, with the scale of real targets where labels are left out."""
        digest, target = self.data().digest, self.form.target
        if self.labels and isinstance(target, Reals):
            return f"{digest} {target.centre} {target.spread}"
        return digest

    def symbols(self) -> tuple[str, ...] | None:
        """As written with the examples."""
        symbols = self.data().meta["symbols"]
        return None if symbols is None else tuple(symbols)

    def data(self) -> StoredDataset | DatasetStub:
        """The prepared set, which is written now if it is not there, or outlined if it is not to be."""
        if not self.made_up and not self.place.exists() and (told := outline(self)):
            return told
        return _data(dataclasses.replace(self, labels=None), str(self.place))

    @property
    def place(self) -> Path:
        """Where the prepared set lies, or will lie."""
        said = json.dumps(
            [dataclasses.asdict(dataclasses.replace(self, labels=None)), self.edition], default=str
        )
        name = f"{name_of(self)}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"
        return paths.folders()[0] / "prepared" / name


@functools.lru_cache(maxsize=16)
def _kept_scale(task: Prepared, digest: str) -> Reals:
    """Return the scale of the real targets that a budget of labels leaves."""
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
        if there := _opened(folder):  # another process was quicker
            return there
        with writing(folder, task.packed, task.resumes) as out:
            out.finish(task.write(out), {"task": name_of(task)})
    return open_dataset(folder)


def _opened(folder: Path) -> StoredDataset | None:
    """The set that is there; none if it is damaged, for it can be made again."""
    if not folder.exists():
        return None
    try:
        return open_dataset(folder)
    except DamagedData as error:
        progress(f"made again: {error}", 0)
        return None
