"""Causal denoising: tell the next position from all earlier ones.

There is no start symbol: the first position is never asked, the last has no successor. The model must be
causal, and stays so in finetuning.

Source: Amos et al. (2024), section 2.
"""

import torch
from torch import Tensor, nn

from ..batch import Batch, Form
from ..shelf import spec
from . import _rebuild
from ._heads import PerPosition
from ._rebuild import Distance
from .base import Objective, Pooling, Question


@spec
class Causal(Objective):
    """Cross-entropy of the next symbol or level, or L1 distance of the next value."""

    labelled = False
    needs_causal = True

    distance: Distance = "auto"  # of values: levels (cross-entropy) where they are quantised, l1 elsewhere

    def head(self, form: Form, width: int, pooling: Pooling) -> nn.Module:
        """One linear layer per position."""
        return PerPosition(width, _rebuild.answers_of(form, self.distance))

    def ask(self, batch: Batch, form: Form, random: torch.Generator) -> Question:
        """Ask every position that has a successor for it."""
        real = batch.real()
        counts = torch.zeros_like(real)
        counts[:, :-1] = real[:, :-1] & real[:, 1:]
        answer = _rebuild.truth(batch.inputs, form, self.distance).roll(-1, dims=1)
        return Question(batch, answer, counts.sum(), counts=counts)

    def loss(self, answers: Tensor, question: Question, form: Form) -> Tensor:
        """Sum over positions that have a successor."""
        return _rebuild.loss(answers, question.answer[question.counts])

    def tally(self, answers: Tensor, question: Question, form: Form) -> dict[str, Tensor]:
        """Sums over positions that have a successor."""
        return _rebuild.tally(answers, question.answer[question.counts])

    def scores(self, tally: dict[str, float]) -> dict[str, float]:
        """Loss per position and, for classes, accuracy."""
        return _rebuild.scores(tally)


objective = Causal
