"""Tasks whose examples are read or generated once, stored on disk, and opened from there afterwards.

Their raw files are found here, with those of Long Range Arena, or an error says how to obtain them.
"""

import abc
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...config import Count, spec
from ...data import paths
from ...data.dataset import SequenceDataset
from ...data.download import Download
from ...data.moments import fit_target
from ...data.spec import Reals, SequenceSpec, Split, Values
from ...data.splits import limit_labels
from ...data.store import DatasetWriter, StoredDataset, open_dataset, open_writer
from ...errors import DamagedData, DataError
from ...registry import file_name_of, name_of
from ...system.events import report_progress
from ..base import DatasetStub, Task, with_stub

if TYPE_CHECKING:
    import pyarrow as pa

LRA_RELEASE = Download("https://storage.googleapis.com/long-range-arena/lra_release.gz", into="lra_release")
"""Long Range Arena's release: about 8 GB, 19 GB unpacked; its makers publish no checksum."""


class StoredTask(Task):
    """A task with stored examples, of which those for training keep at most ``labels`` labels."""

    labels: int | None  # a field of every subclass

    @abc.abstractmethod
    def data(self) -> StoredDataset | DatasetStub:
        """Return the stored examples."""

    @property
    def form(self) -> SequenceSpec:
        """Return the spec stored with the examples; real targets are scaled by the labels that are kept."""
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
        """Return the task with a stub, unless its data are prepared or made up."""
        return self if self.made_up or self.folder.exists() else with_stub(self)

    def tiny(self) -> "Prepared":
        """Return the task with a few synthetic examples."""
        return dataclasses.replace(self.with_all_labels(), made_up=True)

    def symbols(self) -> tuple[str, ...] | None:
        """Return the text of each token as stored with the examples; None if there is none."""
        symbols = self.data().meta["symbols"]
        return None if symbols is None else tuple(symbols)

    def data(self) -> StoredDataset | DatasetStub:
        """Return the prepared set, written first if it does not exist; the stub of a stubbed task."""
        return self.stub or _load_or_write(self.with_all_labels(), str(self.folder))

    def with_all_labels(self) -> "Prepared":
        """Return the task without a label budget: its examples are those that are stored."""
        return dataclasses.replace(self, labels=None)

    @property
    def folder(self) -> Path:
        """Return the folder of the prepared set, which may not exist yet."""
        key = json.dumps([dataclasses.asdict(self.with_all_labels()), self.edition], default=str)
        name = f"{file_name_of(self)}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
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
        if not _open_if_sound(folder):  # no other process has written it meanwhile
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


def require_files(task: Task, *places: str) -> Path:
    """Return the first of several files or folders, named relative to the data folders, that exists.

    Raises:
        DataError: if none exists; the message says what to place where, or which command downloads it.
    """
    path = paths.find(*places)
    if path is None:
        name = name_of(task)
        folder = paths.folders()[0]
        release = " --release" if vars(task).get("source") == "lra" else ""
        advice = [f"run `selfpretrain data get {name}{release}`"] * bool(task.downloads)
        advice += [f"run `selfpretrain data get {name} --from pypi`"] * bool(task.wheels)
        advice += [f"place it in {folder}"]
        raise DataError(f"task {name} needs {places[0]}: {', or '.join(advice)}")
    return path


def read_columns(file: Path, *names: str) -> "pa.Table":
    """Return a Parquet table that must have these columns.

    Raises:
        DataError: if a column is missing, or the file cannot be read.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} cannot be read ({error}); place it again") from error
    if missing := [name for name in names if name not in table.column_names]:
        raise DataError(f"{file} has no column {' and no column '.join(missing)}")
    return table


def read_lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file, and report how much of it has been read."""
    size = file.stat().st_size
    n_bytes = 0
    with file.open("rb") as stream:
        for number, line in enumerate(stream):
            n_bytes += len(line)
            if number % 1000 == 0:
                report_progress(f"bytes of {file.name} read", n_bytes, size)
            yield line


def lra_paths(name: str) -> tuple[str, ...]:
    """Return the possible paths of a file of Long Range Arena, e.g. of "listops-1000/basic_train.tsv".

    The archive holds a folder within a folder of the same name, so the path depends on how it was unpacked.
    """
    return f"lra_release/lra_release/{name}", f"lra_release/{name}", name


@dataclass
class Moments:
    """Sums and extremes of each sequence, from which the moments of any subset follow."""

    _rows: list[np.ndarray] = field(default_factory=list)  # (n, 5, C): count, sum, squares, least, greatest

    def add(self, block: np.ndarray) -> None:
        """Add equally long sequences (n, L, C)."""
        count = np.full((len(block), block.shape[2]), block.shape[1])
        squares = np.einsum("nlc,nlc->nc", block, block, dtype=np.float64)
        parts = [count, block.sum(1, dtype=np.float64), squares, block.min(1), block.max(1)]
        self._rows.append(np.stack(parts, axis=1).astype(np.float64))

    def values(
        self, train: np.ndarray, levels: int | None = None, span: tuple[float, float] | None = None
    ) -> Values:
        """Return the signal: mean and standard deviation of every channel over the training sequences.

        Args:
            train: (n,) mask of the training sequences, in the order in which they were added.
            span: smallest and largest value if known beforehand; None: measure them on train, too.
        """
        rows = np.concatenate(self._rows)[train]
        count, total, squares = rows[:, :3].sum(0)
        mean = total / count
        spread = np.sqrt(np.maximum(squares / count - mean**2, 0))
        low, high = span or (float(rows[:, 3].min()), float(rows[:, 4].max()))
        return Values(len(mean), levels, low, high, tuple(mean.tolist()), tuple(spread.tolist()))
