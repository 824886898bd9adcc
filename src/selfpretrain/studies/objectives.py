"""Does the objective of self-pretraining decide, or the architecture?

Source: our question, after Al-Masud & Strodthoff (2026), arXiv 2605.12241, who find on ECG that state space
models win whatever the objective, and Amos et al. (2024), for whom differences vanish once pretrained.

Protocol: a Transformer, S4D and Mamba, six objectives, on pictures of curves, text and spoken digits. Every
objective has the FLOPs of causal pretraining, finetuning those of finetuning after it, and scratch both. The
first three objectives look back, the others both ways; each has a control of its direction. Five seeds.

Expected: contrastive and latent targets help with values, and reconstruction with symbols.

What differs: small networks and tasks in place of ECG at scale. Learning rates are those of the task, which
were chosen for causal or masked denoising; ``--tune`` gives every column the same trials.
"""

from dataclasses import replace
from typing import Any

from ..config import amended, spec
from ..mixers.attention import Attention
from ..mixers.mamba import Mamba
from ..mixers.s4d import S4D
from ..tasks.base import Task
from ..tasks.spoken_digits import SpokenDigits
from ..training.cost import Planner
from ..training.recipe import Recipe
from .common.table_study import PATHFINDER, SPEECH, TEXT, TableRow, TableStudy
from .recipes.arms import MATCHED, budget_of, matched_stage
from .recipes.defaults import denoising_objective

BOTH_WAYS = f"{MATCHED}, both ways"
CONTROLS = {MATCHED: True, BOTH_WAYS: False}
"""Columns from scratch, and whether their networks look back alone."""
OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "SPT, causal": ("causal", {}),
    "SPT, contrastive": ("contrastive", {}),
    "SPT, latent": ("latent", {}),
    "SPT, masked": ("masked", {}),
    "SPT, replaced": ("replaced", {}),
    "SPT, latent masked": ("latent", {"positions": "masked", "target": "average"}),
}
"""Columns of self-pretraining: objective, and settings apart from those for the signal."""


@spec
class Objectives(TableStudy):
    """A column per objective, for equal FLOPs."""

    contrasts = tuple((each, MATCHED if i < 3 else BOTH_WAYS) for i, each in enumerate(OBJECTIVES))
    tasks = (PATHFINDER, TEXT, SPEECH)
    stand_ins = TableStudy.stand_ins | {SPEECH: SpokenDigits(features="mfcc", split="speakers")}
    objective = "causal"
    bundled_seeds = 5
    unprinted = "objectives: no paper prints recipes for these"
    architectures = tuple(
        TableRow(name, mixer, "")
        for name, mixer in (("Transformer", Attention()), ("S4D", S4D()), ("Mamba", Mamba()))
    )

    def recipes(self, label: str, task: Task, architecture: TableRow, planner: Planner) -> dict[str, Recipe]:
        """Return the controls, and the recipes of all objectives."""
        arms = self.arms(label, task, architecture)
        budgets = [
            budget_of(Recipe(task, arms.model, (stage,)), planner) for stage in (arms.pretrain, arms.finetune)
        ]
        matched = matched_stage(task, arms, planner)
        found = {
            column: Recipe(task, replace(arms.scratch_model, causal=causal), (matched,))
            for column, causal in CONTROLS.items()
        }
        for column, (name, settings) in OBJECTIVES.items():
            objective = amended(denoising_objective(task, name), settings)
            pretrain = replace(arms.pretrain, objective=objective, budget=budgets[0])
            stages = pretrain, replace(arms.finetune, budget=budgets[1])
            found[column] = Recipe(task, replace(arms.model, causal=objective.needs_causal), stages)
        return found


study = Objectives
