"""Regression: tell the real number that belongs to the whole example, in the user's units.

Targets are standardised by the training labels inside; scores are in the user's units.
"""

import torch
from torch import Tensor, nn

from ..batch import Batch, Form, Reals
from ..errors import SpecError
from ..shapes import Hidden, Valid, Vectors
from ..shelf import spec
from ._heads import Pooled, Pooling, Style
from .base import Objective, Question


@spec
class Regress(Objective):
    """Mean squared error of standardised targets; the score is R2 over the whole split."""

    labelled = True

    style: Style = "norm"  # of the head on pooled features: linear, linear after a layer norm, or an mlp

    def head(self, form: Form, width: int, pooling: Pooling) -> nn.Module:
        """One number in the user's units from pooled features."""
        target = reals(form)
        return Rescaled(Pooled(width, 1, pooling, self.style, form.views), target)

    def ask(self, batch: Batch, form: Form, random: torch.Generator) -> Question:
        """The sequences as they are."""
        return Question(batch, batch.targets, torch.tensor(len(batch.targets), device=batch.targets.device))

    def loss(self, answers: Tensor, question: Question, form: Form) -> Tensor:
        """Sum of squared errors, in squared standard deviations of the training targets."""
        return (((answers[:, 0] - question.answer) / reals(form).spread) ** 2).sum()

    def tally(self, answers: Tensor, question: Question, form: Form) -> dict[str, Tensor]:
        """Sums of examples, errors and centred targets, from which R2 over the whole split follows."""
        error = (answers[:, 0] - question.answer).double()
        centred = (question.answer - reals(form).centre).double()
        return {
            "examples": question.size,
            "loss": self.loss(answers, question, form),
            "absolute": error.abs().sum(),
            "squared": (error**2).sum(),
            "target": centred.sum(),
            "target squared": (centred**2).sum(),
        }

    def scores(self, tally: dict[str, float]) -> dict[str, float]:
        """R2, mean absolute error and root mean squared error, the latter two in the user's units."""
        n = tally["examples"]
        total = tally["target squared"] - tally["target"] ** 2 / n
        r2 = 1 - tally["squared"] / total if total > 0 else float("nan")
        rmse = (tally["squared"] / n) ** 0.5
        return {"score": r2, "r2": r2, "mae": tally["absolute"] / n, "rmse": rmse, "loss": tally["loss"] / n}

    def predict(self, answers: Tensor) -> Tensor:
        """The value, in the user's units."""
        return answers[:, 0]


class Rescaled(nn.Module):
    """A head whose standardised answer is put into the user's units."""

    def __init__(self, head: nn.Module, target: Reals) -> None:
        super().__init__()
        self.pooled, self.target = head, target

    def forward(self, x: Vectors, valid: Valid = None, counts: Hidden = None) -> Tensor:
        """Answers of the examples, in the user's units."""
        return self.target.centre + self.target.spread * self.pooled(x, valid, counts)


def reals(form: Form) -> Reals:
    """The target of a regression task.

    Raises:
        SpecError: if its targets are classes.
    """
    if not isinstance(form.target, Reals):
        raise SpecError("regress needs real numbers, but this task's targets are classes; use classify")
    return form.target


objective = Regress
