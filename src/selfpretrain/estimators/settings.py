"""Hyperparameters of the estimators, and the training recipes that follow from them."""

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..errors import DataError, SelfPretrainError
from ..mixers.base import Mixer
from ..objectives.base import Objective
from ..objectives.common.heads import Pooling
from ..registry import resolve
from ..runner.workspace import Workspace
from ..studies.recipes.arms import ArmRecipes
from ..studies.recipes.defaults import denoising_objective, small_arms, smoke_arms
from ..tasks.base import Task
from ..training import cost
from ..training.recipe import Budget, Precision, Recipe, Stage
from ..training.step import default_precision
from .inputs import Kind

LONG = 512
"""Longest sequence for which mixer="auto" takes attention, whose cost grows with the square of the length."""
BATCH_POSITIONS = 1 << 16
"""Most positions in a training batch if batch_size is "auto"."""
USED = 0.8
"""Share of a time limit that training is planned to take."""
OVERHEAD = 1.3
"""Factor for optimizer and validation on top of the forward and backward pass."""
LADDER = ((96, 3), (128, 4), (192, 6), (256, 8))
"""Widths and depths of networks larger than the default, for training with a time limit."""
CHECKS = 20
"""Number of validations in a stage with early stopping."""


@dataclass(kw_only=True, eq=False, repr=False)
class EstimatorSettings(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Hyperparameters of all estimators: how sequences are read, and how networks are trained on them.

    Args:
        mixer: a name from `spt list mixers`; auto: attention up to a length of 512, s4d above.
        objective: pretraining objective from `spt list objectives`; None: train from scratch.
        scale: auto, or smoke for a run of a few steps. Auto is a width of 64 and a depth of 2; with a time
            limit, the largest network, up to 256 and 8, whose training fits into the limit and which has no
            more parameters than there are training positions.
        width, depth, lr, epochs, pretrain_epochs: of network and stages; None: the default of the scale.
        pooling: how features become one vector per sequence: mean, max, last, or attention (learned weights).
        batch_size: examples per step; auto: chosen by their length, and halved once if memory runs out.
        validation_fraction: share of the labelled examples (whole groups) used to select the checkpoint; with
            0, or fewer than 20 labelled examples, the last weights are kept.
        patience: early stopping: validations, of 20 in a stage, without improvement; 0: never stop early.
        n_members: size of the ensemble: networks with different seeds, whose predictions are averaged.
        time_limit: in minutes; training is planned to take less, and is stopped at the limit.
        signal: how numbers are read; auto: as real values. Strings and bytes are always text.
        longer: how to treat sequences longer than those of training: cut them, or raise an error.
        random_state: a number makes training reproducible; None draws a seed.
        precision: of matrix products: fp32, tf32 or bf16; auto: bf16 on GPUs, else fp32.
        verbose: show the progress of training.
        runs: folder where finished stages are stored and reused; None: a temporary folder of this process.
    """

    mixer: str | Mixer = "auto"
    objective: str | None = "masked"
    scale: Literal["auto", "smoke"] = "auto"
    width: int | None = None
    depth: int | None = None
    dropout: int | float = 0.0
    pooling: Pooling = "mean"
    lr: float | None = None
    epochs: int | float | None = None
    pretrain_epochs: int | float | None = None
    batch_size: int | Literal["auto"] = "auto"
    validation_fraction: int | float = 0.15
    patience: int = 0
    n_members: int = 1
    time_limit: int | float | None = None
    signal: Kind = "auto"
    longer: Literal["cut", "refuse"] = "cut"
    device: str = "auto"
    precision: Literal["auto"] | Precision = "auto"
    random_state: Any = 0
    verbose: bool = False
    runs: str | Path | None = None

    # Hooks that subclasses override.

    def _objective(self, task: Task) -> Objective | None:
        """Return the objective of finetuning and scratch; None: that of the task."""
        return None

    def _stages(self, arms: ArmRecipes, task: Task) -> tuple[Stage, ...]:
        """Return the stages of the recipe: pretraining and finetuning, or scratch alone."""
        last = arms.finetune if self.objective else arms.scratch
        objective = self._objective(task)
        if objective is not None:
            last = replace(last, objective=objective)
        return (arms.pretrain, last) if self.objective else (last,)

    # From a task to recipes.

    def _recipes(self, task: Task) -> list[Recipe]:
        """Return one recipe per member of the ensemble, which differ by their seeds."""
        arms = self._arms(task)
        stages = tuple(self._fit_to_data(stage, task) for stage in self._stages(arms, task))
        model = arms.model if self.objective else arms.scratch_model
        first = Recipe(task, model, stages, self._seed())
        if self.time_limit:
            seconds = 60 * self.time_limit / self.n_members
            free = self.scale == "auto" and self.width is None and self.depth is None
            first = _shorten(_grow(first, seconds) if free else first, seconds)
        return [replace(first, seed=first.seed + member) for member in range(self.n_members)]

    def _arms(self, task: Task) -> ArmRecipes:
        """Return network and stages of all arms, from the scale and the hyperparameters that are set."""
        name = self.mixer
        if name == "auto":
            name = "attention" if task.form.length <= LONG else "s4d"
        mixer = resolve("mixers", name)
        arms = small_arms(task, mixer, denoising_objective(task, self.objective or "masked"))
        arms = smoke_arms(arms) if self.scale == "smoke" else arms
        model = replace(
            arms.model,
            width=self.width or arms.model.width,
            depth=self.depth or arms.model.depth,
            dropout=self.dropout,
            pooling=self.pooling,
        )
        pretrain = _change(arms.pretrain, self.pretrain_epochs, None)
        finetune = _change(arms.finetune, self.epochs, self.lr)
        scratch = _change(arms.scratch, self.epochs, self.lr)
        return ArmRecipes(model, pretrain, finetune, model, scratch)

    def _fit_to_data(self, stage: Stage, task: Task) -> Stage:
        """Return a stage with its precision, checkpoint selection and a batch size that the data can fill."""
        data = task.load("train")
        usable = int(data.labelled.sum()) if stage.objective.labelled else len(data)
        if not usable:
            raise DataError("no example has a label; SequencePretrainer trains without any")
        fits = max(1, min(stage.batch, BATCH_POSITIONS // task.form.length))
        size = fits if self.batch_size == "auto" else self.batch_size
        usual = default_precision(self._workspace().device)
        precision = usual if self.precision == "auto" else self.precision
        stage = replace(stage, batch=min(size, usable), precision=precision)
        epochs = stage.budget.epochs
        if epochs and round(epochs * (usable // stage.batch)) < 1:
            stage = replace(stage, budget=Budget(steps=1))
        # Without a val split there is nothing to select by: keep the last weights.
        if not _has_val(task):
            return replace(stage, select="last", evals=1)
        if self.patience and stage.objective.labelled:
            return replace(stage, early_stopping_patience=self.patience, evals=CHECKS)
        return stage

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _workspace(self) -> Workspace:
        runs = Path(self.runs) if self.runs is not None else Path(_scratch_folder().name)
        return replace(Workspace.of(runs, self.device, "1"), quiet=not self.verbose)


def _change(stage: Stage, epochs: int | float | None, lr: float | None) -> Stage:
    """Return a stage with another budget and learning rate, unless they are None."""
    if epochs is not None:
        stage = replace(stage, budget=Budget(epochs=epochs))
    if lr is not None:
        stage = replace(stage, optim=replace(stage.optim, lr=lr))
    return stage


def _has_val(task: Task) -> bool:
    """Return whether the val split differs from train, which takes its place if too few are labelled."""
    return not task.load("val").starts.equal(task.load("train").starts)


def with_half_batch(recipe: Recipe) -> Recipe:
    """Return the recipe with half the batch size, at least 1."""
    stages = tuple(replace(stage, batch=max(1, stage.batch // 2)) for stage in recipe.stages)
    return replace(recipe, stages=stages)


def _grow(recipe: Recipe, seconds: float) -> Recipe:
    """Return the recipe with the largest network of ``LADDER`` that the data and the time limit allow.

    The time of a larger network is estimated from its FLOPs. Learning rates are divided by the same factor as
    the width is multiplied by.

    Source: Yang et al. (2021), Tensor Programs V, for Adam.
    """
    model = recipe.model
    if model.mixer.whole:
        return recipe
    positions = int(recipe.task.load("train").lengths.sum())
    flops = sum(cost.plan(prefix).flops for prefix in recipe.prefixes())
    seconds_per_flop = sum(_seconds(recipe)) / flops
    largest = recipe
    for width, depth in LADDER:
        factor = model.width / width
        # A lower bound of its time, linear in the width: saves building a network that cannot fit.
        if seconds_per_flop * flops * depth / (model.depth * factor) > USED * seconds:
            break
        stages = tuple(replace(s, optim=replace(s.optim, lr=s.optim.lr * factor)) for s in recipe.stages)
        larger = replace(recipe, model=replace(model, width=width, depth=depth), stages=stages)
        try:
            plans = [cost.plan(prefix) for prefix in larger.prefixes()]
        except SelfPretrainError:  # the mixer does not support this width
            break
        takes = seconds_per_flop * sum(plan.flops for plan in plans)
        if plans[-1].parameters > positions or takes > USED * seconds:
            break
        largest = larger
    return largest


def _steps(recipe: Recipe) -> list[int]:
    return [cost.plan(prefix).steps or 0 for prefix in recipe.prefixes()]


def _seconds(recipe: Recipe) -> list[float]:
    """Measure one step of each stage on this machine, and return the seconds that each stage would take."""
    per_step = [cost.seconds_per_step(prefix) for prefix in recipe.prefixes()]
    return [OVERHEAD * n * each for n, each in zip(_steps(recipe), per_step, strict=True)]


def _shorten(recipe: Recipe, seconds: float) -> Recipe:
    """Return the recipe with its steps reduced to fit a time limit, and with a time limit for each stage."""
    expected = _seconds(recipe)
    share = min(1.0, USED * seconds / sum(expected))
    stages = []
    for stage, steps, of_stage in zip(recipe.stages, _steps(recipe), expected, strict=True):
        hours = seconds * of_stage / sum(expected) / 3600
        stages.append(replace(stage, budget=Budget(steps=max(1, round(steps * share)), hours=hours)))
    return replace(recipe, stages=tuple(stages))


@cache
def _scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="selfpretrain-")
