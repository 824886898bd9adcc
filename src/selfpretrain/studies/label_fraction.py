"""What is self-pretraining worth where many sequences are known and few of them have a label?

Source: our question, after the claim of self-pretraining on genomes (2025) that a quarter of the labels with
self-pretraining beats all of them without.

Protocol: a Transformer on pictures of paths and on handwritten digits; 1, 5, 10, 30 and 100 % of the
training labels, drawn anew for every seed, fewer being a part of more; pretraining sees all training
sequences, without labels, and is done once per seed; every fraction gets as many steps of finetuning, and as
many from scratch, as all labels do. Simple methods get as many labels; some of them see all sequences, too.

Expected: the fewer labels, the more self-pretraining is worth.

What differs: pictures, not genomes; weights are chosen on a validation split whose labels are not counted.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..config import Count, spec
from ..errors import SpecError
from ..mixers.attention import Attention
from ..registry import name_of
from ..runner.experiment import Cell, Finished
from ..runner.tuning import SearchSpace
from ..system.files import Json
from ..tasks.digits import Digits
from ..tasks.paths import Paths
from ..training.cost import COUNTED, Planner
from .arms.base import recipes_by_column
from .base import Scale, Study
from .common.plots import Points, mean_score, panel
from .recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes
from .recipes.defaults import denoising_objective, small_arms, smoke_arms

SHARES = (0.01, 0.05, 0.1, 0.3, 1.0)
MIN_LABELS = 10
"""Minimum number of labels for the simple baselines, which need one of every class."""


@spec
class LabelFraction(Study):
    """Three arms per fraction of the labels."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH))
    figure = "lines"
    space = SearchSpace(batch=())  # a batch has at most as many examples as have a label

    tasks: tuple[Digits | Paths, ...]
    arms: tuple[ArmRecipes, ...]  # one per task
    seeds: Count = 3

    @classmethod
    def at_scale(cls, scale: Scale, seeds: int) -> "LabelFraction":
        """Return the study on 60,000 images of paths and all 1,000 digits, or on tiny tasks for smoke tests.

        Raises:
            SpecError: at the paper scale, because no paper has this table.
        """
        if scale == "paper":
            raise SpecError("label-fraction: no paper reports this; use --scale small")
        tasks = (Paths(), Digits()) if scale == "small" else (Paths().tiny(), Digits().tiny())
        arms = (small_arms(task, Attention(), denoising_objective(task, "masked")) for task in tasks)
        return cls(tasks, tuple(arms if scale == "small" else map(smoke_arms, arms)), seeds)

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells seed by seed."""
        for seed in range(self.seeds):
            for task, arms in zip(self.tasks, self.arms, strict=True):
                yield from self._task_cells(task, arms, seed, planner)

    def measures(self, finished: Finished) -> list[Json]:
        """Return a plot per task: accuracy by number of labels, for every arm and the best simple methods."""
        # scikit-learn takes a second to import
        from ..tasks.inspect.baselines import GUESSES, baseline_scores, best_of_both

        plots = []
        for task, arms in zip(self.tasks, self.arms, strict=True):
            counts = [round(share * task.train) for share in SHARES]
            baselines = [baseline_scores(replace(task, labels=max(n, MIN_LABELS))) for n in counts]
            curves: dict[str, Points] = {}
            learned = [name for name in baselines[0] if name not in GUESSES and name not in task.shortcuts()]
            # With all labels, no method sees sequences without one.
            seen = {name: [scores.get(name, math.nan) for scores in baselines] for name in learned}
            for name in best_of_both({name: float(np.nanmean(values)) for name, values in seen.items()}):
                curves[name] = counts, [100 * value for value in seen[name]]
            for column in (SCRATCH, MATCHED, SPT):
                recipes = [
                    cell.recipe for cell in self._task_cells(task, arms, 0, COUNTED) if cell.column == column
                ]
                curves[column] = counts, [mean_score(finished, recipe, self.seeds) for recipe in recipes]
            plots.append(panel(name_of(task), "labels", "accuracy in %", curves))
        return plots

    def _task_cells(
        self, task: Digits | Paths, arms: ArmRecipes, seed: int, planner: Planner
    ) -> Iterator[Cell]:
        for share in SHARES:
            labels = max(1, round(share * task.train))
            finetune, scratch = (
                replace(stage, fraction=share, batch=min(stage.batch, labels))
                for stage in (arms.finetune, arms.scratch)
            )
            limited = replace(arms, finetune=finetune, scratch=scratch)
            columns = recipes_by_column(task, limited, seed, planner)
            for column, recipe in columns.items():
                yield Cell(f"{share:.0%} of labels", column, recipe)


study = LabelFraction
