"""Recipes that spend a share of one budget on pretraining and the rest on finetuning."""

from dataclasses import replace

from ...tasks.base import Task
from ...training.recipe import Budget, Recipe, Stage
from ..recipes.arms import with_epochs
from .table_study import IMAGE, TEXT, TableRow, TableStudy

TOTAL_EPOCHS = {IMAGE: 150, TEXT: 30}
"""Epochs of pretraining plus finetuning in Amos et al. (2024), Table 8."""
TOTAL_STEPS = 1300
"""Steps of pretraining plus finetuning at our small scale."""
SHARES = {"0 %": 0, "20 %": 20, "40 %": 40, "60 %": 60}


def recipes_by_share(study: TableStudy, label: str, task: Task, row: TableRow) -> dict[str, Recipe]:
    """Return one recipe per share of ``TOTAL_EPOCHS`` (paper) or of some steps in pretraining."""
    arms = study.arms(label, task, row)
    steps = {"small": TOTAL_STEPS, "smoke": 10}

    def with_percent(stage: Stage, percent: int) -> Stage:
        if study.scale == "paper":
            return with_epochs(stage, TOTAL_EPOCHS[label] * percent / 100)
        return replace(stage, budget=Budget(steps=steps[study.scale] * percent // 100))

    recipes = {}
    for column, share in SHARES.items():
        parts = ((arms.pretrain, share), (arms.finetune, 100 - share))
        stages = tuple(with_percent(stage, percent) for stage, percent in parts if percent)
        recipes[column] = Recipe(task, arms.model, stages)
    return recipes
