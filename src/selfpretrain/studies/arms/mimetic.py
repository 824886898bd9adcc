"""Training from scratch from weights in closed form that mimic pretrained attention."""

from dataclasses import replace

from ...config import spec
from ...mixers.attention import Attention
from ...mixers.mamba import Mamba
from ...mixers.mamba2 import Mamba2
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm

OFFERED = (Attention, Mamba, Mamba2)
"""Mixers with a mimetic start."""


@spec
class Mimetic(Arm):
    """The matched arm with ``start="mimetic"`` of attention, Mamba or Mamba-2.

    Source: Trockman & Kolter (2023), arXiv 2305.09828; of Mamba, Trockman et al. (2024), arXiv 2410.11135.
    """

    column = "scratch (matched), mimetic start"
    mixers = OFFERED
    other_mixers = "a mimetic start is one of attention or Mamba, not of {}"

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with another start of the mixer."""
        mixer = arms.scratch_model.mixer
        assert isinstance(mixer, OFFERED), "refused otherwise"
        model = replace(arms.scratch_model, mixer=replace(mixer, start="mimetic"))
        return Recipe(task, model, (matched_stage(task, arms, planner),))


arm = Mimetic
