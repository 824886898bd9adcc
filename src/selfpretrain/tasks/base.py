"""What a task must tell."""

import abc
from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor

from ..batch import Examples, Form

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")


class Task(abc.ABC):
    """A spec that says what its sequences are and hands out its three splits.

    The first line of a task's docstring says what it asks; ``source`` and ``licence`` say where its data
    come from. Selection of any kind uses ``val``; ``test`` is read once, after the last stage.
    """

    source: ClassVar[str]
    licence: ClassVar[str]

    @property
    @abc.abstractmethod
    def form(self) -> Form:
        """What every example looks like; needs no more of the data than it must."""

    @abc.abstractmethod
    def load(self, split: Split) -> Examples:
        """The examples of one split, always the same ones in the same order."""

    def tiny(self) -> "Task":
        """The same task with little data, for smoke runs and tests; available offline."""
        return self

    def version(self) -> str:
        """What the data are, where the fields of the spec do not say it all (e.g. the hash of a file)."""
        return ""

    def shortcuts(self) -> dict[str, Callable[[Examples], Tensor]]:
        """Simple cues worth knowing, by name: a function from examples to one integer each.

        The baseline built on a cue answers every example with the commonest training class of its integer,
        e.g. "root operator" of a ListOps expression, which alone reaches 36 %.
        """
        return {}
