"""Training from scratch of a convolutional network, the usual strong baseline for time series."""

from dataclasses import replace

from ...config import Count, spec
from ...mixers.resnet import ResNet
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class Convolutional(Arm):
    """The matched arm with residual blocks of convolutions in place of the architecture.

    Why: in Xu et al. (2025), arXiv 2411.02796, tuned convolutional networks match foundation models. Its
    learning rate is that of scratch; ``selfpretrain compare --tune`` tunes it, as that of every arm.
    """

    column = "scratch (matched), convolutions"

    blocks: Count = 3

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with another network of the same width."""
        model = replace(
            arms.scratch_model, mixer=ResNet(), depth=self.blocks, expand=0, positions="auto", causal=False
        )
        return Recipe(task, model, (matched_stage(task, arms, planner),))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why there is nothing to replace: the architecture is this network; "" if it is another."""
        return "it is a network of convolutions" if isinstance(arms.scratch_model.mixer, ResNet) else ""


arm = Convolutional
