"""Your own labelled sequences, as imported by ``spt data import``."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from ..config import Count, spec
from ..data.dataset import SequenceDataset
from ..data.importing.arrays import array_source, join_arrays
from ..data.importing.builder import SetBuilder
from ..data.importing.importer import known
from ..data.importing.options import ImportOptions
from ..data.moments import readable
from ..data.spec import SequenceSpec, Split
from ..data.splits import budget, fold_splits, strata_of, stratified
from ..data.store import DatasetWriter, StoredDataset, open_dataset
from ..errors import DataError, SpecError, nearest
from .base import Card
from .common import waves
from .common.stored import StoredTask

HELD = 4
"""With ``rows``, val and test each keep one example per this many training examples."""


@spec
class Imported(StoredTask):
    """Your own labelled sequences, by the name they were imported under.

    Without a name, a small synthetic example: noisy waves of two shapes, two channels, unequal lengths.
    """

    card = Card(
        source="data of the user", licence="that of the data", get="spt data import FILE --label COLUMN"
    )

    name: str = ""
    labels: Count | None = None  # training examples that keep their label, nested; None: all
    rows: Count | None = None  # training examples to use, a stratified subset; None: all
    longest: Count | None = None  # truncate sequences to this many positions; None: no truncation

    @property
    def form(self) -> SequenceSpec:
        """Spec measured on the training split; real targets are scaled by the labels that are kept."""
        form = super().form
        return replace(form, length=min(form.length, self.longest or form.length))

    def load(self, split: Split) -> SequenceDataset:
        """Return the examples of one split, in the order of their file.

        Raises:
            DataError: if there are no such data.
            SpecError: if ``labels`` does not fit.
        """
        examples = self.divided(split)
        if self.rows:
            examples = _some(examples, self.rows if split == "train" else -(-self.rows // HELD))
        if self.longest:
            examples = replace(examples, lengths=examples.lengths.clamp(max=self.longest))
        if split != "train":
            return readable(examples, self.data().form)
        return budget(examples, self.labels)

    def divided(self, split: Split) -> SequenceDataset:
        """Return all examples of a split, ignoring ``labels``, ``rows`` and ``longest``."""
        return self.data().examples(split)

    def folded(self, folds: int) -> "Fold":
        """Return the same data in folds by group."""
        if self.data().whole.groups is None:
            raise SpecError(f"{self.name} has no groups; import it again with --group COLUMN")
        return Fold(self.name, self.labels, self.rows, self.longest, folds)

    def tiny(self) -> "Imported":
        """Return a stratified subset with truncated sequences, or the synthetic example."""
        return replace(self, rows=200, longest=512) if self.name else self

    def data(self) -> StoredDataset:
        """Return the imported set.

        Raises:
            DataError: if there is none of that name.
        """
        return _open(*self._file()) if self.name else _made_up()

    def _file(self) -> tuple[Path, int]:
        """Return the folder of the imported set and its modification time in ns."""
        places = known()
        if self.name not in places:
            others = nearest(self.name, places) if places else ""
            raise DataError(f"no data called {self.name!r} have been imported (spt data import){others}")
        meta = places[self.name] / "meta.json"
        return places[self.name], meta.stat().st_mtime_ns


@spec
class Fold(Imported):
    """Imported data with one of several folds, each of whole groups, as the test split.

    The original split is ignored: all statistics are measured on the training rows of this fold.
    """

    folds: Annotated[int, Field(ge=3)] = 5
    fold: Annotated[int, Field(ge=0)] = 0

    def data(self) -> StoredDataset:
        """Return the imported set split by this fold; its digest is that of the fold."""
        return _folded(*self._file(), self.folds, self.fold)

    def parts(self) -> tuple["Fold", ...]:
        """Return all folds."""
        return tuple(replace(self, fold=fold) for fold in range(self.folds))


@functools.lru_cache(maxsize=16)
def _folded(place: Path, stamp: int, folds: int, fold: int) -> StoredDataset:
    held = _open(place, stamp)
    return held.redivided(fold_splits(*_divisible(place, stamp), folds, fold))


@functools.lru_cache(maxsize=4)
def _divisible(place: Path, stamp: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (n,) strata, (n,) groups, and (n,) ids that are equal for equal sequences."""
    whole = _open(place, stamp).whole
    equal = np.unique(whole.digests(), return_inverse=True)[1]
    strata = np.where(whole.labelled.numpy(), strata_of(whole.targets.numpy()), -1)
    assert whole.groups is not None, "asked by Imported.folded"
    return strata, whole.groups.numpy(), equal


@functools.lru_cache(maxsize=4)
def _open(place: Path, stamp: int) -> StoredDataset:
    return open_dataset(place)


@functools.lru_cache(maxsize=1)
def _made_up() -> StoredDataset:
    sequences, shapes = waves.waves(400, seed=0)
    options = ImportOptions(label="shape")
    out = DatasetWriter(None)
    source = array_source(join_arrays(sequences) | {"y": shapes}, options)
    builder = SetBuilder(out, source, options)
    for part in source.parts():
        builder.add(part)
    return builder.finish({"name": "waves"})


def _some(examples: SequenceDataset, count: int) -> SequenceDataset:
    """Return a stratified subset of the labelled examples, in their original order."""
    rows = examples.labelled.nonzero()[:, 0].numpy()
    targets = examples.targets[torch.from_numpy(rows)].numpy()
    strata = strata_of(targets)
    return examples.take(torch.from_numpy(np.sort(rows[stratified(strata, 0)[:count]])))


task = Imported
