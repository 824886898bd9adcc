"""Training from scratch from projections of attention in closed form, which mimic pretrained ones."""

from dataclasses import replace

from ...config import spec
from ...mixers.attention import Attention
from ...registry import name_of
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class Mimetic(Arm):
    """The matched arm with ``Attention(start="mimetic")``.

    Source: Trockman & Kolter (2023), arXiv 2305.09828.
    """

    column = "scratch (matched), mimetic start"

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with another start of attention."""
        mixer = arms.scratch_model.mixer
        assert isinstance(mixer, Attention), "refused otherwise"
        model = replace(arms.scratch_model, mixer=replace(mixer, start="mimetic"))
        return Recipe(task, model, (matched_stage(task, arms, planner),))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why the mixer cannot start like this: it is not attention; "" if it can."""
        mixer = arms.scratch_model.mixer
        if isinstance(mixer, Attention):
            return ""
        return f"a mimetic start is one of attention, not of {name_of(mixer)}"


arm = Mimetic
