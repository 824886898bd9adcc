"""Training from scratch with attention that prefers near positions, which SPT may have to learn."""

from dataclasses import replace

from ...config import spec
from ...mixers.alibi import Alibi
from ...mixers.attention import Attention
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class Near(Arm):
    """The matched arm with the mixer ``alibi`` in place of attention.

    Why: Coser et al. (2026), arXiv 2605.21070, see in nearness what labels alone do not teach attention.
    """

    column = "scratch (matched), near"
    mixers = (Attention,)
    other_mixers = "near positions are preferred by a bias of attention, which {} does not have"

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with as many heads, whose bias replaces position encodings."""
        mixer = arms.scratch_model.mixer
        assert isinstance(mixer, Attention), "refused otherwise"
        model = replace(arms.scratch_model, mixer=Alibi(mixer.heads), positions="auto")
        return Recipe(task, model, (matched_stage(task, arms, planner),))


arm = Near
