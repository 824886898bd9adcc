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
from ..data.spec import SequenceSpec, Target, Tokens, Values
from ..errors import SpecError, join_names
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
    positions: Tensor | None = None  # () those with a loss in the whole batch, if ``size`` counts examples
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


def check_targets(objective: "Objective", targets: ObjectiveBatch) -> None:
    """Check the size and the masks that an objective of other code returns for a batch.

    Raises:
        SpecError: if a mask has another shape or type than it must or counts padding, or nothing is asked.
    """
    name = name_of(objective)
    real = targets.batch.real()
    size = targets.size
    for what, mask in (("masked", targets.masked), ("loss_mask", targets.loss_mask)):
        if mask is not None and (mask.shape != real.shape or mask.dtype != torch.bool):
            found = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise SpecError(f"{name}: {what} is {found}, not torch.bool of shape {tuple(real.shape)}")
    if not isinstance(size, Tensor) or size.ndim:
        raise SpecError(f"{name}: size is {size!r}; return the number of answers as a tensor ()")
    if not size:
        few = f"{name} asks nothing in the first batch, of {len(real)} sequences"
        raise SpecError(f"{few}; ask at one position at least of every batch, or nothing is learned from it")
    if targets.loss_mask is not None and (targets.loss_mask.cpu() & ~real).any():
        raise SpecError(f"{name}: loss_mask is True at padding; use it only where batch.real() is True")


def check_drawn(objective: "Objective", targets: ObjectiveBatch, again: ObjectiveBatch) -> None:
    """Check that an objective of other code draws the same from the same random state.

    Raises:
        SpecError: if it does not: seeds would not repeat, and every validation would ask something else.
    """
    for name in ("labels", "masked", "loss_mask"):
        first, second = (getattr(each, name) for each in (targets, again))
        if first is not None and not torch.equal(first.nan_to_num(), second.nan_to_num()):
            said = f"make_targets gives another {name} each time; draw from its argument random alone"
            raise SpecError(f"{name_of(objective)}: {said}, as torch.rand(3, generator=random)")


def check_hidden(objective: "Objective", targets: ObjectiveBatch, form: SequenceSpec) -> None:
    """Check that an objective of other code does not ask for what it shows at the same positions.

    Raises:
        SpecError: if the network sees every answer, and answers differ.
    """
    if not isinstance(objective, Denoise) or objective.sees_answers or targets.loss_mask is None:
        return
    if isinstance(form.signal, Values) and "distance" not in vars(objective):
        return  # it has targets of its own, which need none
    shown = objective.reconstruction_target(targets.batch, form)
    if shown.shape != targets.labels.shape:
        return
    visible = targets.loss_mask if targets.masked is None else targets.loss_mask & ~targets.masked
    answers = targets.labels[targets.loss_mask]
    same = bool(visible.equal(targets.loss_mask)) and answers.equal(shown[targets.loss_mask])
    if same and len(answers.unique()) > 1:
        said = "shows the network all that it asks for: masked is False wherever loss_mask is True"
        raise SpecError(f"{name_of(objective)} {said}; hide it, or say sees_answers = True if that is meant")


def loss_of(objective: "Objective", outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
    """Return the loss of a batch, one number that depends on the outputs.

    Raises:
        SpecError: if the objective returns something else.
    """
    loss = objective.loss(outputs, targets, form)
    trains = isinstance(loss, Tensor) and (loss.requires_grad or not outputs.requires_grad)
    if trains and not loss.ndim:
        return loss
    found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    found += " without gradients" if isinstance(loss, Tensor) and not loss.ndim else ""
    raise SpecError(f"{name_of(objective)}: loss is {found}; return the sum over all answers as a tensor ()")


def scores_of(objective: "Objective", metric_sums: dict[str, float]) -> dict[str, float]:
    """Return the scores of an objective as numbers; those of other code may be tensors.

    Raises:
        SpecError: if one that is needed is not there.
    """
    scores = {name: float(value) for name, value in objective.scores(metric_sums).items()}
    if missing := [name for name in ("score", "loss") if name not in scores]:
        raise SpecError(f"{name_of(objective)}: scores returns no {missing[0]}, only {join_names(scores)}")
    return scores


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
        channels = form.signal.channels if isinstance(form.signal, Values) else 1
        return PerPosition(width, channels * (reconstruction.levels_of(form, self.distance) or 1))

    def reconstruction_target(self, batch: Batch, form: SequenceSpec) -> Tensor:
        """Return the targets (B, L, C) at every position: symbols, levels, or standardised values."""
        if isinstance(form.signal, Tokens):
            return batch.inputs[..., None]
        levels = reconstruction.levels_of(form, self.distance)
        if levels is None:
            return form.signal.standardise(batch.inputs)
        return form.signal.level_of(batch.inputs, levels)

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the loss summed over the positions in the loss mask, averaged over channels, or weighted."""
        return reconstruction.loss(outputs, targets.selected_labels(), targets.selected_weights)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return sums of positions and losses; and of correct answers or, for L1, of errors and values.

        Numbers of weight 0 count in none of them.
        """
        answers = targets.selected_labels()
        weights = targets.selected_weights
        loss = reconstruction.loss(outputs, answers, weights)
        sums = {"positions": torch.tensor(float(len(answers))), "loss": loss}
        if not answers.is_floating_point():
            return sums | {"right": reconstruction.right(outputs, answers, weights)}
        count = torch.tensor(float(answers.numel()))
        if weights is not None:
            asked = weights > 0
            outputs, answers = (numbers * asked for numbers in (outputs, answers))
            count = asked.sum()
        return sums | {
            "values": count,
            "squared": ((outputs - answers).double() ** 2).sum(),
            "value": answers.double().sum(),
            "value squared": (answers.double() ** 2).sum(),
        }

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Return the mean loss per position, the score (minus the loss), and accuracy or, for L1, R2."""
        positions = max(metric_sums["positions"], 1.0)
        mean = metric_sums["loss"] / positions
        metrics = {"score": -mean, "loss": mean}
        if "right" in metric_sums:
            return metrics | {"accuracy": metric_sums["right"] / positions}
        total = metric_sums["value squared"] - metric_sums["value"] ** 2 / max(metric_sums["values"], 1.0)
        return metrics | {"r2": 1 - metric_sums["squared"] / total if total > 0 else 0.0}
