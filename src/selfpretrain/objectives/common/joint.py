"""Joint training on labels and denoising: an auxiliary loss as an alternative to a pretraining stage.

In training, positions of a batch are masked, and the loss is that of the labels plus ``weight`` times the
mean loss of the masked positions; scores are of labels alone, on unmasked sequences. Why: Miralles-González
et al. (2025), arXiv 2501.14850, reach strong scores on Long Range Arena without pretraining, by training
techniques for little data; a comparison is fair if training from scratch may also learn from the inputs.
Their techniques differ in detail; this is the simplest one that uses only what self-pretraining uses.
"""

from dataclasses import replace
from operator import attrgetter

import torch
from torch import Tensor, nn

from ...config import Positive, spec
from ...data.dataset import Batch, SequenceDataset
from ...data.spec import PositionClasses, SequenceSpec
from ...errors import SpecError
from ...shapes import LossMask, PaddingMask, Vectors
from ..base import Denoise, Objective, ObjectiveBatch
from .heads import Pooling


class JointHead(nn.Module):
    """The head of the labels; with a loss mask, the outputs of both heads concatenated in one row."""

    def __init__(self, labels: nn.Module, rebuild: nn.Module) -> None:
        super().__init__()
        self.labels = labels
        self.rebuild = rebuild

    def forward(self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: LossMask = None) -> Tensor:
        """Return (examples, K), or with a loss mask (1, examples * K + positions * V)."""
        labels: Tensor = self.labels(x, padding_mask)
        if loss_mask is None:
            return labels
        return torch.cat([labels.flatten(), self.rebuild(x, padding_mask, loss_mask).flatten()])[None]


@spec
class Joint(Objective):
    """The loss of the labels plus a weighted denoising loss."""

    labelled = True

    name = "joint"
    labels: Objective
    denoise: Denoise
    weight: Positive = 1.0  # of the denoising loss, the mean over the masked positions of a batch

    masks_inputs = property(attrgetter("denoise.masks_inputs"))
    needs_causal = property(attrgetter("denoise.needs_causal"))
    # Metrics and answers are those of the labels.
    scores = property(attrgetter("labels.scores"))
    shares = property(attrgetter("labels.shares"))
    confidence = property(attrgetter("labels.confidence"))
    predict = property(attrgetter("labels.predict"))

    @property
    def reads_inputs(self) -> bool:  # type: ignore[override]  # those of both
        """Return whether one of the objectives computes with inputs in main memory."""
        return self.labels.reads_inputs or self.denoise.reads_inputs

    def measured(self, train: SequenceDataset) -> "Joint":
        """Return the objective whose denoising has measured the training sequences."""
        return replace(self, denoise=self.denoise.measured(train))

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Return a module with both heads.

        Raises:
            SpecError: if labels belong to positions rather than examples, or targets are latent.
        """
        if not self.denoise.rebuilds:
            raise SpecError("labels and latent targets at once are not offered; train them in turn")
        if isinstance(form.target, PositionClasses):
            raise SpecError("labels of positions and denoising at once are not offered; train them in turn")
        return JointHead(self.labels.head(form, width, pooling), self.denoise.head(form, width, pooling))

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Return the batch with labels and, if gradients are enabled, masked positions."""
        targets = self.labels.make_targets(batch, form, random)
        if not torch.is_grad_enabled():
            return targets
        masked = self.denoise.make_targets(batch, form, random)
        return replace(masked, size=targets.size, positions=masked.size)

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Return the sum over examples of both losses; denoising is averaged over the batch's positions."""
        label_outputs, denoise_outputs, label_targets = self._split_outputs(outputs, targets, form)
        loss = self.labels.loss(label_outputs, label_targets, form)
        if denoise_outputs is None or targets.loss_mask is None or targets.positions is None:
            return loss
        denoise_loss = self.denoise.loss(denoise_outputs, targets, form)
        return loss + self.weight * targets.size * denoise_loss / targets.positions.clamp(min=1)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Return the metric sums of the labels."""
        label_outputs, _, label_targets = self._split_outputs(outputs, targets, form)
        return self.labels.metric_sums(label_outputs, label_targets, form)

    def _split_outputs(
        self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec
    ) -> tuple[Tensor, Tensor | None, ObjectiveBatch]:
        """Split outputs into label outputs and denoising outputs (or None); also return the label batch."""
        label_targets = self.labels.make_targets(targets.batch, form, torch.Generator())
        label_targets = replace(label_targets, size=targets.size)
        if targets.loss_mask is None:
            return outputs, None, label_targets
        n_examples = len(targets.batch.targets)
        label_outputs, denoise_outputs = outputs[0].tensor_split([n_examples * form.target.outputs])
        n_masked = int(targets.loss_mask.sum())
        # Without masked positions there is no denoising loss; the head still gets a gradient of zero.
        return (
            label_outputs.view(n_examples, -1),
            denoise_outputs.view(n_masked, -1) if n_masked else None,
            label_targets,
        )
