"""Your own labelled sequences, as imported by ``selfpretrain data import``."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from ..config import Count, Natural, added, spec
from ..data.dataset import SequenceDataset
from ..data.importing.arrays import join_arrays, plan_of_arrays
from ..data.importing.builder import build
from ..data.importing.options import ImportOptions
from ..data.moments import clip_tokens
from ..data.paths import imported_datasets
from ..data.spec import PositionClasses, SequenceSpec, Split
from ..data.splits import fold_splits, limit_labels, strata_of, stratified_order
from ..data.store import DatasetWriter, StoredDataset, open_dataset
from ..errors import DataError, SpecError, nearest
from .base import Card
from .common.stored import StoredTask

MIN_LENGTH = 24
MAX_LENGTH = 48
SUBSET = "of train alone"  # what ``rows`` select; formerly of all splits, and without those that lack labels


@spec
class Imported(StoredTask):
    """Your own labelled sequences, by the name they were imported under.

    Without a name, a small synthetic example: noisy waves of two shapes, two channels, unequal lengths.
    """

    card = Card(
        source="data of the user",
        licence="that of the data",
        get="selfpretrain data import FILE --label COLUMN",
    )

    name: str = ""
    labels: Count | None = None  # training examples that keep their label, nested; None: all
    rows: Count | None = None  # labelled training examples to use, stratified, and others alike; None: all
    held: Count | None = added(None)  # validation examples to use, and as many for testing; None: all
    longest: Count | None = None  # truncate sequences to this many positions; None: no truncation

    @property
    def form(self) -> SequenceSpec:
        """Return the spec measured on training; real targets are scaled by the labels that are kept."""
        form = super().form
        return replace(form, length=min(form.length, self.longest or form.length))

    def version(self) -> str:
        """Return the hash of the stored examples, and with ``rows`` which examples these select."""
        return f"{super().version()} {SUBSET}" if self.rows else super().version()

    def load(self, split: Split) -> SequenceDataset:
        """Return the examples of one split, in the order of their file.

        Raises:
            DataError: if there are no such data.
            SpecError: if ``labels`` does not fit.
        """
        examples = self.unclipped(split)
        if split != "train":
            return clip_tokens(examples, self.data().form)
        return limit_labels(examples, self.labels)

    def unclipped(self, split: Split) -> SequenceDataset:
        """Return the examples of one split with all labels, and with symbols that training lacks."""
        examples = self.data().examples(split)
        if count := self.rows if split == "train" else self.held:
            examples = _subset(examples, count)
        if self.longest:
            examples = replace(examples, lengths=examples.lengths.clamp(max=self.longest))
            if isinstance(self.data().form.target, PositionClasses):
                examples = replace(examples, targets=examples.targets[:, : self.longest])
        return examples

    def with_folds(self, folds: int) -> "Fold":
        """Return the same data in folds by group."""
        if self.data().whole.groups is None:
            raise SpecError(f"{self.name} has no groups; import it again with --group COLUMN")
        return Fold(self.name, self.labels, self.rows, self.held, self.longest, folds)

    def tiny(self) -> "Imported":
        """Return a stratified subset with truncated sequences, or the synthetic example."""
        rows = min(self.rows or 200, 200)
        held = min(self.held or 50, 50)
        longest = min(self.longest or 512, 512)
        return replace(self, rows=rows, held=held, longest=longest, labels=None) if self.name else self

    def data(self) -> StoredDataset:
        """Return the imported set.

        Raises:
            DataError: if there is none of that name.
        """
        return _open(*self._file()) if self.name else _make_synthetic()

    def _file(self) -> tuple[Path, int]:
        """Return the folder of the imported set and its modification time in ns."""
        folders = imported_datasets()
        if self.name not in folders:
            others = nearest(self.name, folders) if folders else ""
            raise DataError(
                f"no data called {self.name!r} have been imported (selfpretrain data import){others}"
            )
        meta = folders[self.name] / "meta.json"
        return folders[self.name], meta.stat().st_mtime_ns


def _subset(examples: SequenceDataset, count: int) -> SequenceDataset:
    """Return a stratified subset of labelled examples, in their order, and as large a share of the others."""
    labelled = examples.labelled.numpy()
    known = np.flatnonzero(labelled)
    others = np.flatnonzero(~labelled)
    order = stratified_order(strata_of(examples.targets.numpy()[known]), 0)
    share = min(1.0, count / max(len(known), 1))
    some = stratified_order(np.zeros(len(others), dtype=np.int64), 0)[: round(share * len(others))]
    return examples.take(torch.from_numpy(np.sort(np.concatenate([known[order[:count]], others[some]]))))


@spec
class Fold(Imported):
    """Imported data with one of several folds, each of whole groups, as the test split.

    The original split is ignored: all statistics are measured on the training rows of this fold.
    """

    folds: Annotated[int, Field(ge=3)] = 5
    fold: Natural = 0

    def data(self) -> StoredDataset:
        """Return the imported set split by this fold; its digest is that of the fold."""
        return _open_fold(*self._file(), self.folds, self.fold)

    def parts(self) -> tuple["Fold", ...]:
        """Return all folds."""
        return tuple(replace(self, fold=fold) for fold in range(self.folds))


@functools.lru_cache(maxsize=16)
def _open_fold(folder: Path, mtime: int, folds: int, fold: int) -> StoredDataset:
    dataset = _open(folder, mtime)
    return dataset.with_split(fold_splits(*_read_strata(folder, mtime), folds, fold))


@functools.lru_cache(maxsize=4)
def _read_strata(folder: Path, mtime: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (n,) strata, (n,) groups, and (n,) ids that are equal for equal sequences."""
    whole = _open(folder, mtime).whole
    equal = np.unique(whole.digests(), return_inverse=True)[1]
    strata = np.where(whole.labelled.numpy(), strata_of(whole.targets.numpy()), -1)
    assert whole.groups is not None, "checked by Imported.with_folds"
    return strata, whole.groups.numpy(), equal


@functools.lru_cache(maxsize=4)
def _open(folder: Path, mtime: int) -> StoredDataset:
    return open_dataset(folder)


@functools.lru_cache(maxsize=1)
def _make_synthetic() -> StoredDataset:
    sequences, shapes = make_waves(400, seed=0)
    plan = plan_of_arrays(join_arrays(sequences) | {"y": shapes}, ImportOptions())
    return build(DatasetWriter(None), plan, {"name": "waves"})


def make_waves(count: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return sequences (length, 2) float32 and their labels, "sine" or "square".

    The second channel is the first one delayed by a quarter of a period. Noise has standard deviation 0.33.
    """
    random = np.random.RandomState(seed)
    shapes = np.resize(np.array(["sine", "square"]), count)
    waves = []
    for shape in shapes:
        length = random.randint(MIN_LENGTH, MAX_LENGTH + 1)
        angle = random.uniform(0, 2 * np.pi) + np.arange(length) * 2 * np.pi / random.uniform(8, 16)
        wave = np.sin(np.stack([angle, angle - np.pi / 2], axis=1))
        wave = wave if shape == "sine" else np.sign(wave) * np.sqrt(0.5)  # same power as a sine
        waves.append((wave + 0.33 * random.standard_normal(wave.shape)).astype(np.float32))
    return waves, shapes


task = Imported
