"""Training from scratch with the optimizer Muon."""

from ...config import spec
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage, with_muon
from .base import Arm, muon_refusal


@spec
class MuonScratch(Arm):
    """The matched arm with Muon for the matrices of linear layers, and AdamW for all other weights.

    Why: Muon needs fewer labels or steps by arXiv 2606.09658, among others; a better optimizer may find what
    self-pretraining starts from. Its learning rate and decay are those of AdamW, see ``Optim``.
    """

    column = "scratch (matched), Muon"

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with another optimizer, whose steps cost a little more."""
        return Recipe(task, arms.scratch_model, (with_muon(matched_stage(task, arms, planner)),))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why there is nothing to optimise with Muon; "" if there is."""
        return muon_refusal(task, arms)


arm = MuonScratch
