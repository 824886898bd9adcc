"""Base class of tasks: sequence spec, train, val and test datasets, and the task card."""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from torch import Tensor

from ..config import amended
from ..data.dataset import Augmentation, SequenceDataset
from ..data.download import Download
from ..data.spec import SequenceSpec, Split
from ..errors import SpecError
from ..registry import name_of, resolve
from .common.dataset_stub import DatasetStub


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
    downloads: ClassVar[tuple[Download, ...]] = ()  # files that `spt data get` downloads
    places: ClassVar[tuple[str, ...]] = ()  # raw files or folders; any one of them is enough
    small: ClassVar[tuple[str, ...]] = ()  # hyperparameters at the small scale, in the syntax of `-s`
    denoising: ClassVar[Literal["masked", "causal"]] = "causal"  # default pretraining objective
    masking: ClassVar[float | None] = None  # mask ratio; None: the default of its signal
    stub: ClassVar[DatasetStub | None] = None  # stands for the data of a ``stubbed`` task

    @property
    @abc.abstractmethod
    def form(self) -> SequenceSpec:
        """Spec of a sequence: signal, maximum length and target; reads no more data than necessary."""

    @abc.abstractmethod
    def load(self, split: Split) -> SequenceDataset:
        """Return the examples of one split, always the same ones in the same order."""

    def with_folds(self, folds: int) -> "Task":
        """Return the task with grouped cross-validation: each fold is the test split once.

        Raises:
            SpecError: if the examples have no groups.
        """
        raise SpecError(f"{name_of(self)} cannot be divided into folds: only imported data with groups can")

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
        """The task whose files this one is derived from; by default itself."""
        return self

    def augmentation(self) -> Augmentation | None:
        """Return a random change of the inputs that keeps every label; None if none is known."""
        return None

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
