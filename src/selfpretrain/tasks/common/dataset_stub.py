"""Stubs of the papers' datasets, for dry runs: spec and number of examples, without the data.

The numbers are from the papers and their releases. ``Task.stubbed`` puts such a stub in place of data that
are not prepared, so that the cost of an experiment can be estimated before anything is downloaded, generated
or written. Every sequence has the maximum length, so real texts cost less.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import torch

from ...data.dataset import SequenceDataset
from ...data.spec import SPLITS, Classes, Reals, SequenceSpec, Split, Tokens, Values
from ...errors import DataError
from ...registry import name_of


@dataclass(frozen=True)
class DatasetStub:
    """Sequence spec and number of examples of a task, without a hash and without symbols."""

    digest: ClassVar[str] = ""
    meta: ClassVar[Mapping[str, None]] = {"symbols": None}

    form: SequenceSpec
    train: int
    val: int
    test: int

    def examples(self, split: Split) -> SequenceDataset:
        """Return a split whose examples all share one sequence of zeros."""
        number = {"train": self.train, "val": self.val, "test": self.test}[split]
        signal = self.form.signal
        shape = (self.form.length, signal.channels) if isinstance(signal, Values) else (self.form.length,)
        flat = torch.zeros(shape, dtype=torch.uint8)
        lengths = torch.full((self.form.views, number), self.form.length)
        targets = torch.arange(number) % 2
        if isinstance(self.form.target, Reals):
            targets = targets.float()
        elif not self.form.target.single:
            targets = torch.zeros(self.form.target.shape(number, self.form.length), dtype=torch.int16)
        return SequenceDataset(flat, lengths * 0, lengths, targets)


def _classes(number: int) -> Classes:
    return Classes(tuple(map(str, range(number))))


PIXELS = Values(levels=256, low=0.0, high=255.0, centre=(120.0,), spread=(60.0,))
COLOURS = Values(3, levels=256, low=0.0, high=255.0, centre=(120.0,) * 3, spread=(60.0,) * 3)
SIGNALS = Values(2, centre=(0.0,) * 2, spread=(1.0,) * 2)
PAPERS = {
    "listops": DatasetStub(SequenceSpec(Tokens(15), 1_999, _classes(10)), 96_000, 2_000, 2_000),
    "text": DatasetStub(SequenceSpec(Tokens(136), 4_096, _classes(2)), 22_500, 2_500, 25_000),
    "text-test": DatasetStub(SequenceSpec(Tokens(136), 4_096, _classes(2)), 25_000, 25_000, 25_000),
    "retrieval": DatasetStub(SequenceSpec(Tokens(97), 4_000, _classes(2), views=2), 147_086, 18_090, 17_437),
    "image": DatasetStub(SequenceSpec(PIXELS, 1_024, _classes(10)), 45_000, 5_000, 10_000),
    "scifar": DatasetStub(SequenceSpec(COLOURS, 1_024, _classes(10)), 45_000, 5_000, 10_000),
    "pathfinder": DatasetStub(SequenceSpec(PIXELS, 32**2, _classes(2)), 160_000, 20_000, 20_000),
    "pathx": DatasetStub(SequenceSpec(PIXELS, 128**2, _classes(2)), 160_000, 20_000, 20_000),
    "pathx256": DatasetStub(SequenceSpec(PIXELS, 256**2, _classes(2)), 160_000, 20_000, 20_000),
    "speech": DatasetStub(SequenceSpec(Values(), 16_000, _classes(35)), 84_843, 9_981, 11_005),
    "speech-10": DatasetStub(SequenceSpec(Values(), 16_000, _classes(10)), 24_482, 5_246, 5_247),
    "speech-mfcc": DatasetStub(SequenceSpec(Values(20), 161, _classes(10)), 24_482, 5_246, 5_247),
    "bidmc": DatasetStub(SequenceSpec(SIGNALS, 4_000, Reals("HR")), 5_538, 1_200, 1_200),
}
T = TypeVar("T")


def with_stub(task: T, stub: DatasetStub | None = None) -> T:
    """Return a copy of a task with a stub, by default that of ``PAPERS``; it is equal to the task otherwise.

    The stub is no field of the task, so that fingerprints do not depend on it.

    Raises:
        DataError: if ``PAPERS`` has none for this task.
    """
    stubbed = copy.copy(task)
    object.__setattr__(stubbed, "stub", stub or _stub_of(task))  # tasks are frozen
    return stubbed


def _stub_of(task: object) -> DatasetStub:
    """Return the stub of a task, with the numbers of examples that the task sets."""
    name = name_of(task)
    settings = vars(task)
    variants = (f"{name}-{settings.get(field, '')}" for field in ("features", "selection", "words"))
    found = next((PAPERS[key] for key in (*variants, name) if key in PAPERS), None)
    if found is None:
        raise DataError(
            f"{name} is not prepared yet, and a dry run prepares nothing: run `spt data make {name}`"
        )
    return replace(found, **{split: settings[split] for split in SPLITS if split in settings})
