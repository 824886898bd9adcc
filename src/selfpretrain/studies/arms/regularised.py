"""Training from scratch with strong regularisation: weight decay, dropout and an average of weights."""

from dataclasses import replace

from ...config import Positive, Rate, spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class Regularised(Arm):
    """The matched arm with heavy weight decay, dropout, and a running average of weights that is evaluated.

    Why: with data fixed and compute free, heavy weight decay helps (Kim et al., 2025, arXiv 2509.14786).
    Dropout, the average of weights and the three values are our choice.
    """

    column = "scratch (matched), regularised"
    defined_by = ("weight_decay", "dropout")

    decay: Positive = 1.0  # weight decay
    dropout: Rate = 0.1
    average: Rate = 0.99  # decay of the average of weights per step

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe, regularised; none of this costs FLOPs that are counted."""
        stage = matched_stage(task, arms, planner)
        optim = replace(stage.optim, weight_decay=self.decay)
        model = replace(arms.scratch_model, dropout=self.dropout)
        return Recipe(task, model, (replace(stage, optim=optim, average=self.average),))


arm = Regularised
