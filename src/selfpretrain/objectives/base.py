"""Base classes of objectives: supervised, denoising, and the batches they are computed on."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ..data.dataset import Batch, SequenceDataset, shard, to_device
from ..data.spec import SequenceSpec, Target
from ..errors import SpecError
from ..registry import find, name_of, names
from ..shapes import Inputs, LossMask, PaddingMask, PositionMask
from .common import reconstruction
from .common.heads import PerPosition, Pooled, Pooling, Style
from .common.reconstruction import Distance

Kind = TypeVar("Kind", bound="Objective")


@dataclass(frozen=True)
class ObjectiveBatch:
    """A batch with the labels and masks of an objective.

    Masks and ``size`` may stay in CPU memory, where they are drawn, to avoid synchronising with the GPU.
    """

    batch: Batch
    labels: Tensor  # (examples, ...) or (B, L, ...) targets
    size: Tensor  # () number of answers in the loss of the whole batch, over all processes
    masked: PositionMask = None  # positions where the network sees the mask token
    loss_mask: PositionMask = None  # positions with a loss; None: one answer per example
    positions: Tensor | None = (
        None  # () positions with a loss in the whole batch, if ``size`` counts examples
    )
    position_weights: Tensor | None = None  # (B, L, C) weight of each reconstructed number; None: 1 / C

    def part(self, rank: int, world: int) -> "ObjectiveBatch":
        """Return the part of one process (``rank`` of ``world``); ``size`` still counts the whole batch."""
        masked, loss_mask, weights = (
            None if x is None else shard(x, rank, world, self.batch.views)
            for x in (self.masked, self.loss_mask, self.position_weights)
        )
        by_example = self.loss_mask is None
        return replace(
            self,
            batch=self.batch.part(rank, world),
            labels=shard(self.labels, rank, world, 1 if by_example else self.batch.views),
            masked=masked,
            loss_mask=loss_mask,
            position_weights=weights,
        )

    def to(self, device: torch.device) -> "ObjectiveBatch":
        """Return the batch with all that the network reads, and the labels, on another device."""
        moved = replace(self, batch=self.batch.to(device), labels=to_device(self.labels, device))
        for copied in ("mask", "rows", "selected_weights"):
            getattr(moved, copied)  # now, ahead of the step
        return moved

    def network_inputs(self) -> tuple[Inputs, PaddingMask, PositionMask, LossMask]:
        """Return the arguments of the network: inputs, padding mask, mask and rows, on its device."""
        return self.batch.inputs, self.batch.padding_mask, self.mask, self.rows

    @cached_property
    def mask(self) -> PositionMask:
        """Return ``masked`` on the device of the labels."""
        return None if self.masked is None else to_device(self.masked, self.labels.device)

    @cached_property
    def rows(self) -> Int[Tensor, "positions"] | None:
        """Flat indices b L + t of the positions in ``loss_mask``; None if it is None.

        They are computed in CPU memory, where their number is known without synchronising with the GPU.
        """
        if self.loss_mask is None:
            return None
        return to_device(self.loss_mask.flatten().nonzero()[:, 0], self.labels.device)

    def selected_labels(self) -> Tensor:
        """Return the labels (answers, ...) at the positions of ``loss_mask``, or of all examples."""
        return self.labels if self.rows is None else self.labels.flatten(0, 1).index_select(0, self.rows)

    @cached_property
    def selected_weights(self) -> Tensor | None:
        """Return the weights (positions, C) at the positions of ``loss_mask``; None: equal weights."""
        if self.position_weights is None or self.loss_mask is None:
            return None
        return to_device(self.position_weights[self.loss_mask], self.labels.device)


def weighted_sum(losses: Tensor, targets: ObjectiveBatch) -> Tensor:
    """Return the sum of losses (examples,), each multiplied by the weight of its example."""
    weights = targets.batch.weights
    return losses.sum() if weights is None else (losses * weights).sum()


def objective_for(target: Target) -> type["Objective"]:
    """Return the objective of this package that predicts targets of this kind."""
    shelf = (find("objectives", name) for name in names("objectives"))
    return next(kind for kind in shelf if kind.target_type is type(target))


def target_of(objective: "Objective", form: SequenceSpec) -> Any:
    """Return a task's target, and check that the objective predicts targets of its kind.

    Raises:
        SpecError: if it does not.
    """
    if objective.target_type is not type(form.target):
        other = name_of(objective_for(form.target))
        raise SpecError(
            f"{name_of(objective)} does not suit this task, whose targets are {form.target.kind}; use {other}"
        )
    return form.target


def class_weights(weights: Sequence[float], classes: int, like: Tensor | None = None) -> Tensor | None:
    """Return class weights (K,) with the device and dtype of ``like``; None without weights or ``like``.

    Raises:
        SpecError: if there is not one for each class.
    """
    if weights and len(weights) != classes:
        raise SpecError(f"{len(weights)} class weights for {classes} classes; give one for each")
    if not weights or like is None:
        return None
    return torch.stack([like.new_full((), weight) for weight in weights])


class Objective(abc.ABC):
    """Base class of objectives, which define the head, the masking, the loss and the metrics of a stage.

    Losses and metric sums are sums over answers, so that they add up over batches and processes.
    """

    labelled: ClassVar[bool]  # whether it uses labelled examples only
    target_type: ClassVar[type[Target] | None] = None  # what it predicts; None: it reconstructs inputs
    masks_inputs: ClassVar[bool] = False  # whether it masks inputs
    needs_causal: ClassVar[bool] = False  # whether it needs a causal model, as others would see the answer
    needs_tokens: ClassVar[bool] = False  # whether it is for symbols only
    reads_inputs: ClassVar[bool] = False  # whether it computes targets from inputs in main memory
    pools: ClassVar[bool] = True  # whether its head depends on pooling
    whole_batch: ClassVar[bool] = False  # whether its loss is of a batch as a whole, which is not split then

    def measured(self: Kind, train: SequenceDataset) -> Kind:
        """Return the objective with what it counts in all training sequences; most count nothing."""
        return self

    @abc.abstractmethod
    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return the head: a module ``(x, padding_mask, loss_mask) -> outputs``."""

    @abc.abstractmethod
    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with labels and masks; all randomness is drawn from ``random``."""

    @abc.abstractmethod
    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the sum of the losses of all answers; training minimises its ratio to ``targets.size``."""

    @abc.abstractmethod
    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return named sums; ``scores`` computes metrics from their totals over any number of batches."""

    @abc.abstractmethod
    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return named metrics: ``score`` (larger is better) for selection and reports, ``loss`` (mean)."""

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """Return (examples, 3): correct answers, all answers (the ratio of their sums is the score), labels.

        Only for objectives with several answers per example.

        Raises:
            SpecError: if the objective gives one answer per example, or none.
        """
        raise SpecError(f"{type(self).__name__} does not give several answers")

    def confidence(self, outputs: Tensor) -> Tensor | None:
        """Return the predicted probability of each answer (answers,), in [0, 1]; None if there is none."""
        return None

    def predict(self, outputs: Tensor) -> Tensor:
        """Return one class or value per answer, in the user's units.

        Raises:
            SpecError: if the objective reconstructs inputs.
        """
        raise SpecError(f"{type(self).__name__} does not predict targets")


class Supervised(Objective):
    """Base class of objectives with one answer per example, from features pooled over positions."""

    labelled = True

    style: Style  # head: linear, linear after a layer norm, or an MLP
    weights: tuple[float, ...] = ()  # class weights in the loss, for targets with classes

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a head on pooled features, for the logits of the classes or one value.

        Raises:
            SpecError: if the task has targets of another kind, or there is not one weight for each class.
        """
        outputs = target_of(self, form).outputs
        class_weights(self.weights, outputs)
        return Pooled(width, outputs, pooling, self.style, form.views)

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch unmasked, with its labels."""
        return ObjectiveBatch(batch, batch.targets, torch.tensor(len(batch.targets)))


class Denoise(Objective):
    """Base class of denoising objectives; subclasses choose the positions in ``make_targets``.

    Objectives of this package or of yours are selected with ``selfpretrain compare --objective``.

    ``distance`` is the loss of values: "levels" (cross-entropy), "l1", or "auto" (levels if the values are
    quantised, else l1).
    """

    labelled = False
    pools = False
    sees_answers: ClassVar[bool] = False  # whether the network sees the inputs that it is asked about
    rebuilds: ClassVar[bool] = True  # whether its head needs nothing but features, see ``LatentHead``

    distance: Distance

    @classmethod
    def for_signal(cls, form: SequenceSpec) -> "Denoise":
        """Return the objective with settings that suit the signal; the defaults, unless overridden."""
        return cls()

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a linear head, applied at every position in the loss."""
        return PerPosition(width, reconstruction.outputs_of(form, self.distance))

    def reconstruction_target(self, batch: Batch, form: SequenceSpec) -> Tensor:
        """Return the targets (B, L, C) at every position: symbols, levels, or standardised values."""
        return reconstruction.reconstruction_target(batch.inputs, form, self.distance)

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the loss summed over the positions in the loss mask, averaged over channels, or weighted."""
        return reconstruction.loss(outputs, targets.selected_labels(), targets.selected_weights)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return sums over the positions in the loss mask."""
        return reconstruction.metric_sums(outputs, targets.selected_labels(), targets.selected_weights)

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return the mean loss per position, the score (minus the loss), and accuracy or, for values, R2."""
        return reconstruction.scores(metric_sums)
