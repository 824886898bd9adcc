"""Training from scratch with the compute of self-pretraining and finetuning together."""

from ...config import spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import MATCHED, ArmRecipes, matched_stage
from .base import Arm


@spec
class Matched(Arm):
    """One supervised stage with the FLOPs of both stages of SPT: the control of every other arm."""

    column = MATCHED
    against = ()

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the recipe with the scratch stage for the FLOPs of SPT."""
        return Recipe(task, arms.scratch_model, (matched_stage(task, arms, planner),))


arm = Matched
