"""Classification: name the class of the whole example. Training from scratch is this objective alone."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..batch import Batch, Classes, Form
from ..errors import SpecError
from ..shelf import spec
from ._heads import Pooled, Pooling, Style
from .base import Objective, Question


@spec
class Classify(Objective):
    """Cross-entropy over the classes; the score is accuracy."""

    labelled = True

    style: Style = "norm"  # of the head on pooled features: linear, linear after a layer norm, or an mlp

    def head(self, form: Form, width: int, pooling: Pooling) -> nn.Module:
        """Logits of the classes from pooled features."""
        if not isinstance(form.target, Classes):
            raise SpecError("classify needs classes, but this task's targets are real numbers; use regress")
        return Pooled(width, len(form.target.names), pooling, self.style, form.views)

    def ask(self, batch: Batch, form: Form, random: torch.Generator) -> Question:
        """The sequences as they are."""
        return Question(batch, batch.targets, torch.tensor(len(batch.targets), device=batch.targets.device))

    def loss(self, answers: Tensor, question: Question, form: Form) -> Tensor:
        """Sum of the cross-entropies, in nats."""
        return F.cross_entropy(answers, question.answer, reduction="sum")

    def tally(self, answers: Tensor, question: Question, form: Form) -> dict[str, Tensor]:
        """Sums of examples, losses and right answers."""
        right = (answers.argmax(-1) == question.answer).sum()
        return {"examples": question.size, "loss": self.loss(answers, question, form), "right": right}

    def scores(self, tally: dict[str, float]) -> dict[str, float]:
        """Accuracy in [0, 1] and mean loss."""
        accuracy = tally["right"] / tally["examples"]
        return {"score": accuracy, "accuracy": accuracy, "loss": tally["loss"] / tally["examples"]}

    def predict(self, answers: Tensor) -> Tensor:
        """The most probable class."""
        return answers.argmax(-1)


objective = Classify
