"""Several networks from scratch for the compute of SPT, whose predictions are averaged."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from ...config import Positive, spec
from ...objectives.common.averaged import Averaged
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.ensemble import EnsembleModel
from ...training.recipe import Recipe
from ..recipes.arms import ArmRecipes, matched_stage
from .base import Arm


@spec
class Ensemble(Arm):
    """Equal networks with different initial weights, the same batches, and the matched FLOPs in all.

    Source: Kim et al. (2025), arXiv 2509.14786: with data fixed, ensembles and heavy weight decay use compute
    best. ``selfpretrain compare --tune`` tries weight decays.
    """

    column = "scratch (matched), ensemble"

    members: Annotated[int, Field(ge=2)] | None = None  # None: as many as have the budget of scratch each
    decay: Positive = 1.0  # factor of the weight decay of scratch

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the matched recipe with several networks, each of which has its share of the steps."""
        stage = matched_stage(task, arms, planner)
        alone = planner.plan(Recipe(task, arms.scratch_model, (arms.scratch,))).flops
        members = self.members or max(2, round((stage.budget.flops or 0.0) / alone))
        optim = replace(stage.optim, weight_decay=self.decay * stage.optim.weight_decay)
        stage = replace(stage, objective=Averaged(stage.objective, members), optim=optim)
        fields: dict[str, Any] = dict(vars(arms.scratch_model))
        return Recipe(task, EnsembleModel(**fields, members=members), (stage,))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why the task cannot be averaged over networks: it labels positions; "" if it can."""
        if task.form.target.kind == "positions":
            return "ensembles average one answer per sequence, and this task labels positions"
        return ""


arm = Ensemble
