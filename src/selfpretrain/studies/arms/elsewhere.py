"""Pretraining on sequences of simple processes with the alphabet and length of the task, then finetuning."""

from dataclasses import replace

from ...config import spec
from ...tasks.base import Task
from ...tasks.procedural import Procedural
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, budget_of
from .base import Arm

LARGEST = 60_000
"""Maximum number of generated sequences."""


@spec
class Elsewhere(Arm):
    """SPT whose first stage sees generated sequences, as many as the task has, instead of those of the task.

    Why: arXiv 2505.22308 and 2601.21725 find that structured sequences of any kind teach much of it.
    """

    column = "pretrained elsewhere"
    pretrains = True

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the recipe of SPT with another source of sequences, for the same FLOPs."""
        form = task.form
        number = max(3, min(LARGEST, len(task.load("train"))))
        pretrain = replace(
            arms.pretrain,
            source=planner.task(Procedural(form.signal, form.length, train=number)),
            budget=budget_of(Recipe(task, arms.model, (arms.pretrain,)), planner),
        )
        return Recipe(task, arms.model, (pretrain, arms.finetune))


arm = Elsewhere
