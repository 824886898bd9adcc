"""Self-pretraining and finetuning on sequences that are changed in the same ways as in the arm augmented."""

from ...config import spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import MATCHED, SPT, ArmRecipes, augmented
from .base import Arm, augmentation_of, augmentation_refusal


@spec
class AugmentedSpt(Arm):
    """Both stages of SPT with the augmentation that the task declares."""

    column = "SPT, augmented"
    against = ("scratch (matched), augmented", SPT, MATCHED)
    pretrains = True

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the recipe of SPT with augmented batches in both stages."""
        augmentation = augmentation_of(task)
        stages = (augmented(arms.pretrain, augmentation), augmented(arms.finetune, augmentation))
        return Recipe(task, arms.model, stages)

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why the inputs cannot be augmented or the mixer not be pretrained; "" if both can."""
        return augmentation_refusal(task) or super().refusal(task, arms)


arm = AugmentedSpt
