"""Training from scratch on labels and denoising at once: an auxiliary loss instead of pretraining."""

from dataclasses import replace

from ...config import Positive, spec
from ...objectives.base import Denoise
from ...objectives.common.joint import Joint
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class JointTraining(Arm):
    """One stage whose loss is that of the labels plus that of the pretraining objective.

    Source: Miralles-González et al. (2025), arXiv 2501.14850, in a simpler form: see ``Joint``.
    """

    column = "scratch (matched), denoising at once"
    pretrains = True

    weight: Positive = 1.0  # of the denoising loss

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with the joint objective; its steps cost more, so it has fewer."""
        denoise = arms.pretrain.objective
        assert isinstance(denoise, Denoise), "pretraining denoises"
        stage = matched_stage(task, arms, planner)
        joint = Joint(stage.objective, denoise, self.weight)
        return Recipe(task, arms.scratch_model, (replace(stage, objective=joint),))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why labels and denoising do not go together, if so."""
        if not task.form.target.single and task.form.target.kind == "positions":
            return "labels of positions and denoising at once are not offered"
        if not isinstance(arms.pretrain.objective, Denoise):
            return "augmentation with labels and denoising at once is not offered"
        if not arms.pretrain.objective.rebuilds:
            return "labels and latent targets at once are not offered"
        return super().refusal(task, arms)


arm = JointTraining
