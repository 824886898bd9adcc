"""Hyperparameters of the estimators, their checks, and the training recipes that follow from them."""

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..config import Count, Natural, with_setting
from ..data.importing import Kind
from ..data.spec import PositionClasses, Tokens
from ..errors import DataError, DoesNotFit, SelfPretrainError, SpecError, UnknownName
from ..mixers.base import Mixer, Positions
from ..objectives.base import Denoise, Objective
from ..objectives.common.heads import Pooling
from ..registry import find, resolve
from ..runner.workspace import Workspace
from ..studies.recipes.arms import ArmRecipes
from ..studies.recipes.defaults import denoising_objective, small_arms, smoke_arms
from ..system.events import format_duration
from ..system.progress import write_line
from ..tasks.base import Task
from ..training import cost
from ..training.recipe import Budget, Precision, Recipe, Stage
from ..training.step import default_precision
from ..training.train import Stop, never
from .budgets import data_arms
from .in_memory import InMemoryTask, can_have_signs, has_val
from .predictor import PRETRAINER, kind_of
from .training import StoredTrainings, Trainings, steps_of, with_half_batch

LONG = 512
"""Longest sequence for which mixer="auto" takes attention, whose cost grows with the square of the length."""
BATCH_POSITIONS = 1 << 16  # most positions in a training batch if batch_size is "auto"
USED = 0.8  # share of a time limit that training is planned to take
OVERHEAD = 1.3  # factor for optimizer and validation on top of the forward and backward pass
LADDER = ((96, 3), (128, 4), (192, 6), (256, 8))
"""Widths and depths of networks larger than the default, for training with a time limit."""
LONGER = 4.0
"""Factor by which a time limit may lengthen training on a task with settings of its own, which are brief."""
CHECKS = 20  # number of validations in a stage with early stopping

RATES = (1.0, 1 / 3)  # learning rates of finetuning after pretraining to try, as shares of that from scratch
POOLINGS: tuple[Pooling, ...] = ("max", "mean", "attention", "last")
"""Poolings in the order in which they are tried."""

Auto = Literal["auto"]
Number = Annotated[int | float, Field(gt=0, lt=math.inf)]
Portion = Annotated[int | float, Field(ge=0, lt=1)]
Build = Callable[[Task, Mixer, Denoise], ArmRecipes]


@dataclass(kw_only=True, eq=False, repr=False)
class EstimatorSettings(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Hyperparameters of all estimators: how sequences are read, and how networks are trained on them.

    Args:
        model: best: keep what is best on validation: an average with the network, if it has the best
            probabilities; else the network, if it is more than a standard error above simple methods; else
            the average of the three best of these, or the best; network: train and keep the network alone.
        mixer: a name from `selfpretrain list mixers`; auto: attention up to a length of 512, s4d above.
        objective: pretraining objective from `selfpretrain list objectives`; None: train from scratch; auto:
            causal and masked are tried for symbols, masked for values and for labels of positions, and also
            ngram-statistics for labels of positions that counts of n-grams help simple methods to find.
        pooling: mean, max, last or attention (learned weights) over positions; auto: last for symbols, which
            end with a sign, else mean, and the others are tried with the best setting.
        position_encoding: auto: learned for symbols in sequences of equal length, else that of the mixer.
        mask_rate: share of positions hidden in masked pretraining; None: 0.15 of symbols, 0.25 of values.
        signs: symbols that mark begin and end of every sequence; auto: yes, except for labels of positions.
        scale: auto, or smoke for a run of a few steps with the first setting alone.
        width, depth: of the network; None: 64 and 2, a width of 128 above 200,000 training positions; with a
            time limit and n_trials=1 (or a task by name), the largest network, up to 256 and 8, whose
            training fits into the limit and which has no more parameters than there are training positions.
        lr: learning rate of finetuning, and of training from scratch.
        finetune_lr: learning rate of finetuning after pretraining; auto: the rate from scratch and a third of
            it are tried.
        pretrain_lr: learning rate of pretraining.
        epochs: of finetuning, over labelled examples; None: budgets that follow the data.
        pretrain_epochs: of pretraining; None: by positions seen, until its validation loss stops falling.
        batch_size: examples per step; auto: chosen by their number and length, and halved once if memory runs
            out.
        n_trials: most settings that are tried; 1: the first alone, with one validation split.
        validation_fraction: share of the labelled examples (whole groups) used to select the checkpoint; with
            0, or fewer than 20 labelled examples, the last weights are kept.
        patience: early stopping: validations, of 20 in a stage, without improvement; 0: never stop early;
            auto: by the number of labels.
        n_members: size of the ensemble: networks with different seeds, whose predictions are averaged.
        minutes: that a fit may take; training is planned to take less, and is stopped at the limit. Where no
            network can be trained in it, the best simple method is kept. A task by name with settings of its
            own is trained up to four times as long as these say, if they leave time. None: 10.
        exhaustive: train networks also where a simple method is right on all of 20 or more validation
            examples, nothing is held out of fewer than 20 labels, or all networks of the first round are more
            than two standard errors behind a simple method; False: that ends the fit.
        signal: how numbers are read; auto: as real values. Strings and bytes are always text.
        longer: how to treat sequences longer than those of training: cut them, or raise an error.
        random_state: a number makes training reproducible; None draws a seed.
        precision: of matrix products: fp32, tf32 or bf16; auto: bf16 on GPUs, else fp32.
        verbose: show the progress of training.
        runs: folder where stages are stored, and reused by later fits; a fit that was killed resumes from
            there. None: nothing is stored.
    """

    model: Literal["best", "network"] = "best"
    mixer: str | Mixer = "auto"
    objective: str | None = "auto"
    pooling: Auto | Pooling = "auto"
    position_encoding: Auto | Positions = "auto"
    mask_rate: Annotated[int | float, Field(gt=0, le=1)] | None = None
    signs: bool | Auto = "auto"
    scale: Literal["auto", "smoke"] = "auto"
    width: Count | None = None
    depth: Count | None = None
    dropout: Portion = 0.0
    lr: Number | None = None
    finetune_lr: Number | Auto = "auto"
    pretrain_lr: Number | None = None
    epochs: Number | None = None
    pretrain_epochs: Number | None = None
    batch_size: Count | Auto = "auto"
    n_trials: Count | Auto = "auto"
    validation_fraction: Annotated[int | float, Field(ge=0, le=0.9)] = 0.15
    patience: Natural | Auto = "auto"
    n_members: Count = 1
    minutes: Number | None = None
    exhaustive: bool = False
    signal: Kind = "auto"
    longer: Literal["cut", "refuse"] = "cut"
    device: str = "auto"
    precision: Auto | Precision = "auto"
    random_state: Any = 0
    verbose: bool | int = False
    runs: str | Path | None = None

    rate: ClassVar[float | None] = None
    """Factor of the learning rate of finetuning, set on copies that try a setting."""

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

    def _uses_signs(self) -> bool:
        """Return whether symbols get a sign at begin and end."""
        return self.signs is not False

    def say(self, line: str) -> None:
        """Write a line to stderr if ``verbose`` is set."""
        if self.verbose:
            write_line(line)

    # From a task to recipes.

    def _recipes(self, task: Task, seconds: float) -> list[Recipe]:
        """Return one recipe per member of the ensemble, which differ by their seeds.

        Args:
            seconds: that training may take in all.
        """
        first = self.recipe(task)
        if self.scale == "auto":
            first = self.within(first, seconds / self.n_members)
        return [replace(first, seed=first.seed + member) for member in range(self.n_members)]

    def recipe(self, task: Task) -> Recipe:
        """Return the recipe of the settings, without a time limit."""
        arms = self._arms(task)
        stages = tuple(self._fit_to_data(stage, task) for stage in self._stages(arms, task))
        if rate := self.variants(task)[0].get("rate"):
            optim = stages[-1].optim
            stages = (*stages[:-1], replace(stages[-1], optim=replace(optim, lr=optim.lr * rate)))
        return Recipe(task, arms.model if self.objective else arms.scratch_model, stages, self._seed())

    def within(self, recipe: Recipe, seconds: float) -> Recipe:
        """Return the recipe with a network and budgets that a time limit allows.

        Without a limit of the user's own, what the data ask for is changed only if it takes too long.
        """
        device = self._workspace().device
        if self.minutes is None:
            takes = sum(stage_seconds(recipe, device))
            return recipe if takes <= USED * seconds else timed(recipe, seconds, device)
        free = self.width is None and self.depth is None
        counted = self.epochs is not None or self.pretrain_epochs is not None
        longest = LONGER if recipe.task.small and not counted else 1.0
        return timed(_grow(recipe, seconds, device) if free else recipe, seconds, device, longest)

    def _arms(self, task: Task, build: Build = data_arms) -> ArmRecipes:
        """Return network and stages of all arms, from the scale and the hyperparameters that are set."""
        mixer = resolve("mixers", self._mixer_name(task))
        denoise = denoising_objective(task, self.variants(task)[0]["objective"] or "masked")
        if self.mask_rate is not None:
            denoise = self._with_rate(denoise)
        arms = (build if self.scale == "auto" else small_arms)(task, mixer, denoise)
        arms = smoke_arms(arms) if self.scale == "smoke" else arms
        pooling = None if self.pooling == "auto" else self.pooling
        if pooling is None and isinstance(task, InMemoryTask) and can_have_signs(task.data()):
            pooling = "last" if self._uses_signs() else None
        positions = None if self.position_encoding == "auto" else self.position_encoding
        if positions is None and isinstance(task, InMemoryTask) and isinstance(task.form.signal, Tokens):
            equal = bool((task.load("train").lengths == task.form.length).all())
            positions = "learned" if equal and mixer.rotates and task.form.length <= LONG else None
        model = replace(
            arms.model,
            width=self.width or arms.model.width,
            depth=self.depth or arms.model.depth,
            dropout=self.dropout,
            pooling=pooling or arms.model.pooling,
            positions=positions or arms.model.positions,
        )
        lr = self.lr if isinstance(self.finetune_lr, str) else float(self.finetune_lr)
        pretrain = _change(arms.pretrain, self.pretrain_epochs, self.pretrain_lr)
        finetune = _change(arms.finetune, self.epochs, lr)
        scratch = _change(arms.scratch, self.epochs, self.lr)
        return ArmRecipes(model, pretrain, finetune, model, scratch)

    def _with_rate(self, denoise: Denoise) -> Denoise:
        """Return the objective with the share of positions that was set, if it has one."""
        try:
            return cast(Denoise, with_setting(denoise, "rate", str(self.mask_rate)))
        except UnknownName:  # one of those that are tried
            return denoise

    def variants(self, task: Task, counted: bool = False) -> list[dict[str, Any]]:
        """Return the settings to try; the first is the default.

        ``objective`` is that of pretraining, and ``rate`` a factor of the learning rate of finetuning. A task
        with a name keeps the setting that was chosen for it.

        Args:
            counted: whether counts of n-grams in all sequences help to label positions.
        """
        objectives = self._objectives(task, counted)
        if not isinstance(task, InMemoryTask):
            return [{"objective": objectives[-1]}]
        free = self.objective is not None and self.lr is None and self.finetune_lr == "auto"
        rates = RATES if free and self.rate is None else (self.rate,)
        found = [{"objective": name, "rate": rate} for name in objectives for rate in rates]
        return found if isinstance(self.n_trials, str) else found[: self.n_trials]

    def poolings(self, task: Task) -> list[Pooling]:
        """Return the poolings to try after that of ``recipe``; none where there is no choice."""
        recipe = self.recipe(task)
        if self.pooling != "auto" or not recipe.last.objective.pools or not recipe.model.mixer.denoises:
            return []
        left = None
        if not isinstance(self.n_trials, str):
            left = self.n_trials - len(self.variants(task))
        return [pooling for pooling in POOLINGS if pooling != recipe.model.pooling][:left]

    def with_variant(self, variant: Mapping[str, Any]) -> "EstimatorSettings":
        """Return a copy with one of the ``variants`` as its only setting to try."""
        changed = copy.copy(self)
        changed.objective = variant["objective"]
        changed.__dict__["rate"] = variant["rate"]
        return changed

    def _objectives(self, task: Task, counted: bool) -> list[str | None]:
        """Return the objectives of pretraining to try; masked is the last of several."""
        if self.objective != "auto":
            return [self.objective]
        mixer = resolve("mixers", self._mixer_name(task))
        if not isinstance(task.form.signal, Tokens) or not mixer.denoises:
            return ["masked"]
        if isinstance(task.form.target, PositionClasses):
            return ["ngram-statistics", "masked"] if counted else ["masked"]
        return ["causal", "masked"] if mixer.causal else ["masked"]

    def _mixer_name(self, task: Task) -> str | Mixer:
        if self.mixer != "auto":
            return self.mixer
        return "attention" if task.form.length <= LONG else "s4d"

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
        if not has_val(task):
            return replace(stage, select="last", evals=1, early_stopping_patience=0)
        if self.patience == "auto":
            given = self.epochs if stage.objective.labelled else self.pretrain_epochs
            return stage if given is None else replace(stage, early_stopping_patience=0)
        if self.patience and stage.objective.labelled:
            return replace(stage, early_stopping_patience=self.patience, evals=CHECKS)
        return replace(stage, early_stopping_patience=0)

    def _draw_seed(self) -> int:
        """Return ``random_state`` if it is a number, else a seed drawn from it."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _seed(self) -> int:
        """Return the seed of this fit: one for all its trials, so that they share their pretraining."""
        return vars(self)["seed_"] if "seed_" in vars(self) else self._draw_seed()

    def _workspace(self, stop: Stop = never) -> Workspace:
        """Return the workspace of this machine, where work stops when asked to."""
        workspace = Workspace.of(Path(self.runs or "runs"), self.device, "1")
        return replace(workspace, quiet=not self.verbose, stop=stop)

    def _trainings(self, stop: Stop = never) -> Trainings:
        kind = Trainings if self.runs is None else StoredTrainings
        return kind(self._workspace(stop), halves=self.batch_size == "auto")


def _change(stage: Stage, epochs: int | float | None, lr: float | None) -> Stage:
    """Return a stage with another budget and learning rate, unless they are None."""
    if epochs is not None:
        stage = replace(stage, budget=Budget(epochs=epochs))
    if lr is not None:
        stage = replace(stage, optim=replace(stage.optim, lr=lr))
    return stage


def _grow(recipe: Recipe, seconds: float, device: str) -> Recipe:
    """Return the recipe with the largest network of ``LADDER`` that the data and the time limit allow.

    The time of a larger network is estimated from its FLOPs. Learning rates are divided by the same factor as
    the width is multiplied by. A task with settings of its own keeps them: they were chosen for its network.

    Source: Yang et al. (2021), Tensor Programs V, for Adam.
    """
    model = recipe.model
    if model.mixer.whole or recipe.task.small:
        return recipe
    positions = int(recipe.task.load("train").lengths.sum())
    flops = sum(cost.plan(prefix).flops for prefix in recipe.prefixes())
    seconds_per_flop = sum(stage_seconds(recipe, device)) / flops
    largest = recipe
    for width, depth in LADDER:
        if width * depth <= model.width * model.depth:
            continue
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


def step_seconds(recipe: Recipe, device: str) -> float:
    """Measure a step of the last stage on a device; where a GPU has too little memory, two of half a batch.

    Raises:
        DoesNotFit: if half a batch does not fit, either.
    """
    with suppress(DoesNotFit):
        return cost.seconds_per_step(recipe, device)
    # Not while the error is handled: its traceback keeps the tensors that filled the memory.
    return 2 * cost.seconds_per_step(with_half_batch(recipe), device)


def stage_seconds(recipe: Recipe, device: str) -> list[float]:
    """Measure one step of each stage on a device, and return the seconds that each stage would take."""
    per_step = [step_seconds(prefix, device) for prefix in recipe.prefixes()]
    steps = [steps_of(prefix) or 0 for prefix in recipe.prefixes()]
    return [OVERHEAD * n * each for n, each in zip(steps, per_step, strict=True)]


def least_seconds(recipe: Recipe, limit: float, device: str, last: Task | None = None) -> list[float]:
    """Return about how long each stage takes at least: its planning, one step, and validation.

    A pass over validation examples takes a third of a step of as many, and there are three: at the end of
    training, for the scores, and for the answers. Stages are measured from the last one: as soon as they
    take longer than ``limit``, those before are not measured, and count as nothing.

    Args:
        last: where the last stage takes its validation examples from; None: from its own task.
    """
    found: list[float] = []
    for prefix in reversed(recipe.prefixes()):
        if sum(found) > limit:
            return [0.0, *found]
        own = prefix.task_of(prefix.last) if found or last is None else last
        data = own.load("val")
        rows = int(data.labelled.sum()) if prefix.last.objective.labelled else len(data)
        step = step_seconds(prefix, device)
        found = [cost.seconds_to_count(prefix) + step * (1 + rows / prefix.last.batch), *found]
    return found


def too_short(step: float, needed: float, limit: float) -> str:
    """Return that a network was not trained: its step and its training take so many seconds of a limit."""
    return (
        f"the network was not trained: one step takes at least {format_duration(step)} of the "
        f"{format_duration(limit)}, and training {format_duration(needed)}"
    )


def timed(recipe: Recipe, seconds: float, device: str, longest: float = 1.0) -> Recipe:
    """Return the recipe with as many steps as fit into a time limit, and with a time limit for each stage.

    Args:
        longest: factor by which the steps may grow.
    """
    expected = stage_seconds(recipe, device)
    share = min(longest, USED * seconds / sum(expected))
    stages = []
    for prefix, of_stage in zip(recipe.prefixes(), expected, strict=True):
        hours = seconds * of_stage / sum(expected) / 3600
        steps = max(1, round((steps_of(prefix) or 0) * share))
        stages.append(replace(prefix.last, budget=Budget(steps=steps, hours=hours)))
    return replace(recipe, stages=tuple(stages))


def check_settings(estimator: "EstimatorSettings") -> None:
    """Check the values of settings by the types of the constructor's arguments.

    Names of mixers and objectives are checked when they are looked up.

    Raises:
        SpecError: naming a setting with a wrong value, and what it should be.
    """
    if kind_of(type(estimator)) == PRETRAINER and estimator.n_members != 1:
        raise SpecError("n_members: embeddings are those of one network; leave it out")
    named = estimator.mask_rate is not None and estimator.objective not in ("auto", None)
    if named and "rate" not in getattr(
        find("objectives", str(estimator.objective)), "__dataclass_fields__", {}
    ):
        said = f"pretraining with {estimator.objective} hides no share of positions"
        raise SpecError(f"mask_rate: {said}; leave it out")
    how = ConfigDict(strict=True, arbitrary_types_allowed=True)
    for field in fields(estimator):
        value = getattr(estimator, field.name)
        check: TypeAdapter[Any] = TypeAdapter(cast(Any, field.type), config=how)
        try:
            check.validate_python(value.item() if isinstance(value, np.generic) else value)
        except ValidationError as error:
            messages = [problem["msg"].removeprefix("Input should be ") for problem in error.errors()]
            messages += ["None"] if field.default is None else []
            wanted = ", or ".join(dict.fromkeys(messages))
            raise SpecError(f"{field.name}={value!r} is not offered; it should be {wanted}") from error
