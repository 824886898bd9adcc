"""Training from scratch with the budget of finetuning."""

from ...config import spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import SCRATCH, ArmRecipes
from .base import Arm


@spec
class Scratch(Arm):
    """One supervised stage with the budget that finetuning has."""

    column = SCRATCH
    compute = "finetuning"
    against = ()

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the recipe with the scratch stage as it is."""
        return Recipe(task, arms.scratch_model, (arms.scratch,))


arm = Scratch
