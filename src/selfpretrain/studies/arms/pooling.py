"""Training from scratch with a head that learns where to look, instead of the mean of all positions."""

from dataclasses import replace

from ...config import spec
from ...objectives.common.heads import Pooling
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class OtherPooling(Arm):
    """The matched arm with another pooling: attention with one learned query, unless changed.

    Why: by Coser et al. (2026), arXiv 2605.21070, labels can be locally blind to directions of attention that
    reconstruction sees; the mean over positions may be why.
    """

    column = "scratch (matched), other pooling"

    pooling: Pooling = "attention"

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with another pooling."""
        model = replace(arms.scratch_model, pooling=self.pooling)
        return Recipe(task, model, (matched_stage(task, arms, planner),))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why the network has no other pooling on this task; "" if it has."""
        if arms.scratch_model.pooling == self.pooling:
            return f"its pooling is {self.pooling} already"
        if task.form.target.kind == "positions":
            return "positions are labelled one by one, so nothing is pooled"
        return ""


arm = OtherPooling
