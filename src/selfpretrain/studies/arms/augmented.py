"""Training from scratch on sequences that are changed at random in ways that keep their labels."""

from ...config import spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, augmented, matched_stage
from .base import Arm, augmentation_of, augmentation_refusal


@spec
class AugmentedScratch(Arm):
    """The matched arm with the augmentation that the task declares.

    Why: Miralles-González et al. (2025), arXiv 2501.14850, reach the scores of SPT on Long Range Arena so.
    """

    column = "scratch (matched), augmented"

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with augmented batches."""
        stage = matched_stage(task, arms, planner)
        return Recipe(task, arms.scratch_model, (augmented(stage, augmentation_of(task)),))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why the inputs cannot be augmented; "" if they can."""
        return augmentation_refusal(task)


arm = AugmentedScratch
