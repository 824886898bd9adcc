"""Masked denoising: tell what stands at randomly hidden positions.

Every real position is hidden with probability ``rate``, independently and anew every time; the loss is
taken over hidden positions only.

Source: Amos et al. (2024), section 2; appendix C.3 for rates.
"""

import torch
from torch import Tensor, nn

from ..batch import Batch, Form
from ..shelf import Share, spec
from . import _rebuild
from ._heads import PerPosition
from ._rebuild import Distance
from .base import Objective, Pooling, Question


@spec
class Masked(Objective):
    """Cross-entropy of hidden symbols or levels, or L1 distance of hidden values."""

    labelled = False
    hides = True

    rate: Share = 0.15
    distance: Distance = "auto"  # of values: levels (cross-entropy) where they are quantised, l1 elsewhere

    def head(self, form: Form, width: int, pooling: Pooling) -> nn.Module:
        """One linear layer per position."""
        return PerPosition(width, _rebuild.answers_of(form, self.distance))

    def ask(self, batch: Batch, form: Form, random: torch.Generator) -> Question:
        """Hide positions; the random numbers are drawn on the CPU, so that all devices hide the same ones."""
        chance = torch.rand(batch.inputs.shape[:2], generator=random).to(batch.inputs.device)
        hidden = (chance < self.rate) & batch.real()
        answer = _rebuild.truth(batch.inputs, form, self.distance)
        return Question(batch, answer, hidden.sum(), hidden=hidden, counts=hidden)

    def loss(self, answers: Tensor, question: Question, form: Form) -> Tensor:
        """Sum over hidden positions."""
        return _rebuild.loss(answers, question.answer[question.counts])

    def tally(self, answers: Tensor, question: Question, form: Form) -> dict[str, Tensor]:
        """Sums over hidden positions."""
        return _rebuild.tally(answers, question.answer[question.counts])

    def scores(self, tally: dict[str, float]) -> dict[str, float]:
        """Loss per hidden position and, for classes, accuracy."""
        return _rebuild.scores(tally)


objective = Masked
