"""What an objective must do."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ..data.dataset import Batch, every, sent
from ..data.spec import SequenceSpec, Target
from ..errors import SpecError
from ..registry import find, name_of, names
from ..shapes import Answered, Inputs, PaddingMask, PositionMask
from .common import reconstruction
from .common.heads import PerPosition, Pooled, Pooling, Style
from .common.reconstruction import Distance


@dataclass(frozen=True)
class ObjectiveBatch:
    """A batch turned into what the network sees and what it is scored on.

    Masks and ``size`` may stay in main memory, where random numbers are drawn: then no device is waited for.
    """

    batch: Batch
    labels: Tensor  # (examples, ...) or (B, L, ...): what should come out
    size: Tensor  # () how many answers count in the whole batch, over all processes
    masked: PositionMask = None  # positions that the network sees as holes
    loss_mask: PositionMask = None  # positions where an answer is wanted; None: one answer per example
    positions: Tensor | None = None  # () how many of them the whole batch has, where ``size`` is of examples

    def part(self, rank: int, world: int) -> "ObjectiveBatch":
        """The share of one of several processes; ``size`` still counts the whole."""
        batch = self.batch.part(rank, world)
        if self.loss_mask is None:
            return replace(self, batch=batch, labels=self.labels[rank::world])
        labels, loss_mask = (every(x, rank, world, self.batch.views) for x in (self.labels, self.loss_mask))
        masked = None if self.masked is None else every(self.masked, rank, world, self.batch.views)
        return replace(self, batch=batch, labels=labels, masked=masked, loss_mask=loss_mask)

    def question(self) -> tuple[Inputs, PaddingMask, PositionMask, Answered]:
        """What a network is given; masks that were made in main memory go to the device from here."""
        masked = None if self.masked is None else sent(self.masked, self.labels.device)
        return self.batch.inputs, self.batch.padding_mask, masked, self.rows

    @cached_property
    def rows(self) -> Int[Tensor, "answers"] | None:
        """Where answers are wanted, counted through all sequences: how many is known before the device is."""
        if self.loss_mask is None:
            return None
        return sent(self.loss_mask.flatten().nonzero()[:, 0], self.labels.device)

    def answers(self) -> Tensor:
        """(answers, ...) what should come out where an answer is wanted."""
        return self.labels if self.rows is None else self.labels.flatten(0, 1).index_select(0, self.rows)


def weighed(losses: Tensor, targets: ObjectiveBatch) -> Tensor:
    """The sum of losses, each counted as often as its example is to count."""
    weights = targets.batch.weights
    return losses.sum() if weights is None else (losses * weights).sum()


def answering(target: Target) -> type["Objective"]:
    """The objective of the shelf that tells targets of such a kind."""
    shelf = (find("objectives", name) for name in names("objectives"))
    return next(kind for kind in shelf if kind.answers is type(target))


def target_of(objective: "Objective", form: SequenceSpec) -> Any:
    """A task's target, which must be of the kind that an objective tells.

    Raises:
        SpecError: if it is not.
    """
    if objective.answers is not type(form.target):
        other = name_of(answering(form.target))
        raise SpecError(
            f"{name_of(objective)} does not suit this task, whose targets are {form.target.kind}; use {other}"
        )
    return form.target


def class_weights(weights: Sequence[float], classes: int, like: Tensor | None = None) -> Tensor | None:
    """(K,) on the device and in the precision of ``like``; None where all classes count the same.

    Raises:
        SpecError: if there is not one for each class.
    """
    if weights and len(weights) != classes:
        raise SpecError(f"{len(weights)} class weights for {classes} classes; give one for each")
    if not weights or like is None:
        return None
    return torch.stack([like.new_full((), weight) for weight in weights])


class Objective(abc.ABC):
    """A spec that owns a head, a corruption, a loss and scores.

    Losses and tallies are sums over answers, so that they add up over batches and processes.
    """

    labelled: ClassVar[bool]  # whether only labelled examples can be used
    answers: ClassVar[type[Target] | None] = (
        None  # the kind of target that it tells; None: it rebuilds inputs
    )
    hides: ClassVar[bool] = False  # whether the network sees holes
    needs_causal: ClassVar[bool] = False  # whether a model that sees the future would cheat

    @abc.abstractmethod
    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """The last layer: ``(x, valid, counts) -> outputs``."""

    @abc.abstractmethod
    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """What the network sees of a batch, and what is right."""

    @abc.abstractmethod
    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """The sum of the losses of all answers; training minimises its ratio to ``targets.size``."""

    @abc.abstractmethod
    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Sums from which the scores of any number of batches can be computed."""

    @abc.abstractmethod
    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Named metrics; ``score`` (larger is better) is for selection and reports, ``loss`` is the mean."""

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """(examples, 3) right answers and all answers, whose sums' ratio is the score; and labels.

        Asked for where an example has several answers.

        Raises:
            SpecError: if the objective gives one answer per example, or none.
        """
        raise SpecError(f"{type(self).__name__} does not give several answers")

    def confidence(self, outputs: Tensor) -> Tensor | None:
        """(answers,) how probable each answer is by its own account, in [0, 1]; None where none is given."""
        return None

    def predict(self, outputs: Tensor) -> Tensor:
        """One class or value per answer, in the user's units.

        Raises:
            SpecError: if the objective rebuilds inputs.
        """
        raise SpecError(f"{type(self).__name__} does not predict targets")


class Supervised(Objective):
    """An objective with one answer per example, from features pooled over its positions."""

    labelled = True

    style: Style  # of the head: linear, linear after a layer norm, or an mlp
    weights: tuple[float, ...] = ()  # what each class counts in the loss, where there are classes

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """As many numbers as the target wants: logits of the classes, or one value.

        Raises:
            SpecError: if the task has targets of another kind, or not one weight for each class.
        """
        outputs = target_of(self, form).outputs
        class_weights(self.weights, outputs)
        return Pooled(width, outputs, pooling, self.style, form.views)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """The sequences as they are."""
        return ObjectiveBatch(batch, batch.targets, torch.tensor(len(batch.targets)))


class Denoise(Objective):
    """An objective that rebuilds inputs: its specs say which positions (``make_targets``) and add settings.

    What is on the shelf, or in a package of yours, is taken by ``spt compare --objective``.

    ``distance`` says how values are told: by "levels" (cross-entropy), by "l1", or "auto": levels where they
    are quantised.
    """

    labelled = False

    distance: Distance

    @classmethod
    def for_signal(cls, form: SequenceSpec) -> "Denoise":
        """The objective with settings that suit such sequences; unless a subclass knows better, its own."""
        return cls()

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """One linear layer per position."""
        return PerPosition(width, reconstruction.outputs_of(form, self.distance))

    def reconstruction_target(self, batch: Batch, form: SequenceSpec) -> Tensor:
        """(B, L, C) what stands at every position: symbols, levels, or standardised values."""
        return reconstruction.reconstruction_target(batch.inputs, form, self.distance)

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Sum over the positions that count, averaged over channels."""
        return reconstruction.loss(outputs, targets.answers())

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Sums over the positions that count."""
        return reconstruction.metric_sums(outputs, targets.answers())

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Loss per position and accuracy, or R2 of values; the score is minus the loss."""
        return reconstruction.scores(metric_sums)
