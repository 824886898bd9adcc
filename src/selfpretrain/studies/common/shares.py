"""Base class of studies that spend a share of one budget on pretraining and the rest on finetuning."""

from dataclasses import replace

from ...config import spec
from ...tasks.base import Task
from ...training.cost import Planner
from ...training.recipe import Budget, Recipe, Stage
from ..recipes.arms import with_epochs
from .table_study import IMAGE, TEXT, TableRow, TableStudy

TOTAL_EPOCHS = {IMAGE: 150, TEXT: 30}
"""Epochs of pretraining plus finetuning in Amos et al. (2024), Table 8."""
TOTAL_STEPS = {"small": 1300, "smoke": 10}
"""Steps of pretraining plus finetuning at our scales."""
SHARES = {"0 %": 0, "20 %": 20, "40 %": 40, "60 %": 60}


@spec
class ShareStudy(TableStudy):
    """A column per share of pretraining."""

    tasks = (IMAGE, TEXT)
    small_tasks = (TEXT,)
    small_objective = {TEXT: "causal"}

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return one recipe per share of ``TOTAL_EPOCHS`` (paper) or of ``TOTAL_STEPS`` in pretraining."""
        arms = self.arms(label, task, architecture)

        def with_percent(stage: Stage, percent: int) -> Stage:
            if self.scale == "paper":
                return with_epochs(stage, TOTAL_EPOCHS[label] * percent / 100)
            return replace(stage, budget=Budget(steps=TOTAL_STEPS[self.scale] * percent // 100))

        recipes = {}
        for column, share in SHARES.items():
            parts = ((arms.pretrain, share), (arms.finetune, 100 - share))
            stages = tuple(with_percent(stage, percent) for stage, percent in parts if percent)
            recipes[column] = Recipe(task, arms.model, stages)
        return recipes
