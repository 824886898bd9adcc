"""Training from scratch on labels alone, with inputs masked at random: the noise of SPT without its loss."""

from dataclasses import replace

from ...config import Share, spec
from ...objectives.common.masked_inputs import MaskedInputs
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class NoisyScratch(Arm):
    """The matched arm with inputs masked at a rate drawn for every sequence; none is masked in evaluation.

    Why: Gao et al. (2025), arXiv 2510.04071, ascribe to its masks what masked diffusion gains from few data.
    """

    column = "scratch (matched), masked inputs"

    highest: Share = 0.5  # rates are drawn from U(0, highest)

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with masked inputs."""
        stage = matched_stage(task, arms, planner)
        objective = MaskedInputs(stage.objective, self.highest)
        return Recipe(task, arms.scratch_model, (replace(stage, objective=objective),))


arm = NoisyScratch
