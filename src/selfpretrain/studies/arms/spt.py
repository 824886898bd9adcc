"""Self-pretraining on the task's own sequences, then finetuning on their labels."""

from ...config import spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes
from .base import Arm


@spec
class SelfPretraining(Arm):
    """A denoising stage without labels, and a supervised stage that starts from its weights."""

    column = SPT
    against = (MATCHED, SCRATCH)
    pretrains = True

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the recipe with both stages."""
        return Recipe(task, arms.model, (arms.pretrain, arms.finetune))


arm = SelfPretraining
