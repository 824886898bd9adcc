"""Labels and denoising at once: what training from scratch may have instead of a stage of pretraining.

While it is trained, a batch has positions hidden, and the loss is that of the labels plus ``weight`` times
the mean loss of the hidden positions; scores are of labels alone, on whole sequences. Why:
Miralles-González et al. (2025), arXiv 2501.14850, reach strong scores of Long Range Arena without
pretraining, by training techniques for little data; a comparison is fair where scratch may have the signal
of the inputs too. Their techniques are others in detail; this is the simplest that uses nothing but what
self-pretraining uses.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from ...config import Positive, spec
from ...data.dataset import Batch
from ...data.spec import PositionClasses, SequenceSpec
from ...errors import SpecError
from ...shapes import Answered, PaddingMask, Vectors
from ..base import Denoise, Objective, ObjectiveBatch
from .heads import Pooling


class JointHead(nn.Module):
    """The head of the labels alone, or where positions count the answers of both, end to end in one row."""

    def __init__(self, labels: nn.Module, rebuild: nn.Module) -> None:
        super().__init__()
        self.labels, self.rebuild = labels, rebuild

    def forward(self, x: Vectors, padding_mask: PaddingMask = None, loss_mask: Answered = None) -> Tensor:
        """(examples, K), or (1, examples * K + positions * V)."""
        answers: Tensor = self.labels(x, padding_mask)
        if loss_mask is None:
            return answers
        return torch.cat([answers.flatten(), self.rebuild(x, padding_mask, loss_mask).flatten()])[None]


@spec
class Joint(Objective):
    """The loss of the labels, plus a share of the loss of denoising."""

    labelled = True
    hides = True

    name = "joint"
    labels: Objective
    denoise: Denoise
    weight: Positive = 1.0  # of denoising, whose loss is averaged over the hidden positions of a batch

    @property
    def needs_causal(self) -> bool:  # type: ignore[override]  # it is that of what is inside
        """Whether a model that sees the future would cheat."""
        return self.denoise.needs_causal

    def head(self, form: SequenceSpec, width: int, pooling: Pooling) -> nn.Module:
        """Both heads.

        Raises:
            SpecError: if the labels are of positions.
        """
        if isinstance(form.target, PositionClasses):
            raise SpecError("labels of positions and denoising at once are not offered; train them in turn")
        return JointHead(self.labels.head(form, width, pooling), self.denoise.head(form, width, pooling))

    def make_targets(self, batch: Batch, form: SequenceSpec, random: torch.Generator) -> ObjectiveBatch:
        """Hide positions, but not where nothing is trained."""
        asked = self.labels.make_targets(batch, form, random)
        if not torch.is_grad_enabled():
            return asked
        masked = self.denoise.make_targets(batch, form, random)
        return replace(masked, size=asked.size, positions=masked.size)

    def loss(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> Tensor:
        """Sum over examples of both losses; denoising counts as its mean over the whole batch's positions."""
        answers, rebuilt, asked = self._apart(outputs, targets, form)
        loss = self.labels.loss(answers, asked, form)
        if rebuilt is None or targets.loss_mask is None or targets.positions is None:
            return loss
        rebuilding = self.denoise.loss(rebuilt, targets, form)
        return loss + self.weight * targets.size * rebuilding / targets.positions.clamp(min=1)

    def metric_sums(self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec) -> dict[str, Tensor]:
        """Those of the labels."""
        answers, _, asked = self._apart(outputs, targets, form)
        return self.labels.metric_sums(answers, asked, form)

    def scores(self, metric_sums: dict[str, float]) -> dict[str, float]:
        """Those of the labels."""
        return self.labels.scores(metric_sums)

    def shares(self, outputs: Tensor, targets: ObjectiveBatch) -> Tensor:
        """Return those of the labels."""
        return self.labels.shares(outputs, targets)

    def confidence(self, outputs: Tensor) -> Tensor | None:
        """That of the labels' head."""
        return self.labels.confidence(outputs)

    def predict(self, outputs: Tensor) -> Tensor:
        """The answer of the labels' head."""
        return self.labels.predict(outputs)

    def _apart(
        self, outputs: Tensor, targets: ObjectiveBatch, form: SequenceSpec
    ) -> tuple[Tensor, Tensor | None, ObjectiveBatch]:
        """Answers about examples, what was rebuilt, if anything, and what should have been answered."""
        asked = self.labels.make_targets(targets.batch, form, torch.Generator())
        asked = replace(asked, size=targets.size)
        if targets.loss_mask is None:
            return outputs, None, asked
        examples = len(targets.batch.targets)
        answers, rebuilt = outputs[0].tensor_split([examples * form.target.outputs])
        masked = int(targets.loss_mask.sum())
        # Where nothing is hidden there is nothing to rebuild; the head still gets a gradient of zero.
        return answers.view(examples, -1), rebuilt.view(masked, -1) if masked else None, asked
