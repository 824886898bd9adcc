"""What a task must tell."""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from torch import Tensor

from ..config import amended
from ..data.dataset import SequenceDataset
from ..data.download import Download
from ..data.spec import SequenceSpec, Split
from ..errors import SpecError
from ..registry import name_of, resolve


@dataclass(frozen=True)
class Card:
    """What to know of a task before its numbers are believed; every text is one or two plain sentences."""

    source: str  # who made the data, paper or site
    licence: str
    counts: str = ""  # examples in train, val and test
    baselines: str = ""  # what simple rules score
    leaks: str = ""  # what the usual protocol gets wrong, and what is done here
    get: str = ""  # how to come by the data, where no download or generator brings them


class Task(abc.ABC):
    """A spec that says what its sequences are and hands out its three splits.

    The first line of a task's docstring says what it asks, its card where the data come from. Selection of
    any kind uses ``val``; ``test`` is read once, after the last stage.
    """

    card: ClassVar[Card]
    downloads: ClassVar[tuple[Download, ...]] = ()  # what `spt data get` brings
    places: ClassVar[tuple[str, ...]] = ()  # files or folders it can be prepared from, any one of them
    small: ClassVar[tuple[str, ...]] = ()  # settings that suit it at the small scale, as `-s` takes them
    denoising: ClassVar[Literal["masked", "causal"]] = "causal"  # how it is pretrained unless asked otherwise
    masking: ClassVar[float | None] = None  # share of positions to hide; None: what suits its signal

    @property
    @abc.abstractmethod
    def form(self) -> SequenceSpec:
        """What every example looks like; needs no more of the data than it must."""

    @abc.abstractmethod
    def load(self, split: Split) -> SequenceDataset:
        """The examples of one split, always the same ones in the same order."""

    def folded(self, folds: int) -> "Task":
        """The same task, divided by its groups into folds each of which is the test split once.

        Raises:
            SpecError: if it has no groups that it could be divided by.
        """
        raise SpecError(f"{name_of(self)} cannot be divided into folds: only imported data with groups can")

    def parts(self) -> tuple["Task", ...]:
        """Its folds, of which each is the test split once; of a task without folds, itself."""
        return (self,)

    def tiny(self) -> "Task":
        """The same task with little data, for smoke runs and tests; available offline."""
        return self

    def version(self) -> str:
        """What the data are, where the fields of the spec do not say it all (e.g. the hash of a file)."""
        return ""

    @property
    def origin(self) -> "Task":
        """The task whose files it is made of."""
        return self

    def symbols(self) -> tuple[str, ...] | None:
        """How each token is written, e.g. ``("[MIN ", "3 ", ...)``, to be joined; None: by its number."""
        return None

    def shortcuts(self) -> dict[str, Callable[[SequenceDataset], Tensor]]:
        """Simple cues worth knowing, by name: a function from examples to one integer each.

        The baseline built on a cue answers every example with the commonest training class of its integer,
        e.g. "root operator" of a ListOps expression, which alone reaches 36 %.
        """
        return {}

    def pixels(self, sequence: np.ndarray) -> np.ndarray | None:
        """(side^2, 1) brightness in [0, 1] of the image that a sequence of symbols stands for; None: none."""
        return None

    def statistics(self, examples: SequenceDataset) -> np.ndarray | None:
        """(n, K) numbers that a person would measure in every example, for gradient boosting; None: none."""
        return None


def load_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """A task by its name, e.g. ``load_task("digits", {"train": 500})``; also one of the user's own data sets.

    Raises:
        UnknownName: if there is no such task or setting; the message offers the nearest.
    """
    return cast(Task, amended(resolve("tasks", name), settings or {}))
