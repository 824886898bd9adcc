"""Self-pretraining, then a head alone: how much of the answer is in the pretrained features already."""

from dataclasses import replace

from ...config import spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, budget_of
from .base import Arm

EVERYTHING_BUT_THE_HEAD = ("embed.*", "blocks.*")
"""Names of frozen parameters; those of a final norm follow where there is one."""


@spec
class HeadAlone(Arm):
    """The pretraining of SPT, and finetuning in which only the head is trained.

    A step without gradients of the network costs a third of the usual one, so the head has about three times
    the steps of finetuning. With the default head, the answer is linear in the normalised
    mean of the features.
    """

    column = "SPT, head alone"
    pretrains = True

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the recipe of SPT with a frozen network in its second stage, for the same FLOPs."""
        spt = Recipe(task, arms.model, (arms.pretrain, arms.finetune))
        norm = ("norm.*",) if arms.model.placement == "pre" else ()
        head = replace(
            arms.finetune,
            freeze=(*EVERYTHING_BUT_THE_HEAD, *norm),
            budget=budget_of(spt, planner),
            # A head has no matrix for Muon, and its cosine spans the longer budget.
            optim=replace(arms.finetune.optim, optimizer="adamw", cosine_steps=None),
        )
        return Recipe(task, arms.model, (arms.pretrain, head))


arm = HeadAlone
