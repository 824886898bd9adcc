"""Network and stages from which the recipes of every arm of a comparison follow."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from ...config import spec, with_setting
from ...data.dataset import Augmentation
from ...errors import SpecError
from ...mixers.base import Mixer
from ...objectives.base import Objective, objective_for
from ...objectives.common.augmented import Augmented
from ...registry import name_of
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.model import Model
from ...training.recipe import Budget, Recipe, Stage

SCRATCH = "scratch"
"""Column of training from scratch with the budget of finetuning."""
MATCHED = "scratch (matched)"
"""Column of training from scratch with the FLOPs of self-pretraining and finetuning together."""
SPT = "SPT"
"""Column of self-pretraining and finetuning."""
NO_SECONDS = "compute cannot be matched to a budget in seconds; give steps, epochs or FLOPs"
STAGES = ("pretrain", "finetune", "scratch")


@spec
class ArmRecipes:
    """One architecture, and the training stages of its arms."""

    model: Model  # of self-pretraining
    pretrain: Stage
    finetune: Stage
    scratch_model: Model  # of both arms from scratch; may differ in dropout
    scratch: Stage  # of plain scratch; the matched arm has the FLOPs of SPT as its budget

    def with_setting(self, path: str, text: str) -> "ArmRecipes":
        """Return the recipes with one setting changed; ``model``, ``mixer`` and ``stage`` change all arms.

        Setting a budget in one unit replaces the budget in any other unit, and its limit in hours.

        Args:
            path: e.g. ``finetune.optim.lr``.
            text: the new value as JSON.
        """
        word, _, rest = path.partition(".")
        if word == "stage":
            arms = self
            for name in STAGES:
                arms = arms.with_setting(f"{name}.{rest}", text)
            return arms
        if rest.startswith("budget.") and rest != "budget.hours":
            return with_setting(self, f"{word}.budget", f'{{"{rest.removeprefix("budget.")}": {text}}}')
        if word == "mixer":
            return self.with_setting(f"model.{path}", text)
        if word == "model":
            return replace(
                self,
                model=with_setting(self.model, rest, text),
                scratch_model=with_setting(self.scratch_model, rest, text),
            )
        return with_setting(self, path, text)

    def with_direction(self) -> "ArmRecipes":
        """Return the recipes with causal models where pretraining needs them, and no others."""
        causal = self.pretrain.objective.needs_causal and self.model.mixer.denoises
        scratch_model = replace(self.scratch_model, causal=causal)
        return replace(self, model=replace(self.model, causal=causal), scratch_model=scratch_model)

    def scale_budget(self, share: float) -> "ArmRecipes":
        """Return the recipes with budget and schedule of every stage multiplied by ``share``."""
        return self.changed(lambda stage: scale_schedule(scale_budget(stage, share), share))

    def with_augmentation(self, augmentation: Augmentation) -> "ArmRecipes":
        """Return the recipes with the inputs of all stages changed at random in ways that keep labels."""
        return self.changed(lambda stage: augmented(stage, augmentation))

    def changed(self, change: Callable[[Stage], Stage]) -> "ArmRecipes":
        """Return the recipes with every stage changed."""
        stages: dict[str, Any] = {name: change(getattr(self, name)) for name in STAGES}
        return replace(self, **stages)


def augmented(stage: Stage, augmentation: Augmentation) -> Stage:
    """Return the stage with its inputs changed at random in ways that keep labels."""
    if isinstance(stage.objective, Augmented):
        return stage
    return replace(stage, objective=Augmented(stage.objective, augmentation))


def matched_stage(task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Stage:
    """Return the scratch stage with the FLOPs of pretraining and finetuning together as its budget.

    Args:
        planner: counts or estimates these FLOPs.

    Raises:
        SpecError: if a budget is in seconds.
    """
    before = arms.pretrain
    # Without a denoising objective, count pretraining as the same number of supervised steps.
    if not arms.model.mixer.denoises:
        before = replace(before, objective=arms.finetune.objective)
    spt = Recipe(task, arms.model, (before, arms.finetune))
    if any(stage.budget.seconds for stage in spt.stages):
        raise SpecError(NO_SECONDS)
    evals = arms.pretrain.evals + arms.finetune.evals
    hours = [stage.budget.hours for stage in spt.stages]
    limit = None if None in hours else sum(each or 0.0 for each in hours)
    optim = replace(arms.scratch.optim, cosine_steps=None)  # a cosine spans the longer budget
    budget = Budget(flops=planner.total(spt), hours=limit)
    return replace(arms.scratch, optim=optim, budget=budget, evals=evals)


def budget_of(recipe: Recipe, planner: Planner) -> Budget:
    """Return the budget of a recipe's last stage in FLOPs, with its limit in hours.

    Raises:
        SpecError: if it is in seconds.
    """
    if recipe.last.budget.seconds:
        raise SpecError(NO_SECONDS)
    return Budget(flops=planner.plan(recipe).flops, hours=recipe.last.budget.hours)


def with_muon(stage: Stage, budget: Budget | None = None) -> Stage:
    """Return the stage with the optimizer Muon, and with another budget unless that is None."""
    return replace(stage, optim=replace(stage.optim, optimizer="muon"), budget=budget or stage.budget)


def supervised_objective(task: Task) -> Objective:
    """Return the supervised objective for the targets of a task."""
    return objective_for(task.form.target)()


def with_model(arms: ArmRecipes, model: Model) -> ArmRecipes:
    """Return the arms with another network, keeping the dropout of scratch."""
    return replace(arms, model=model, scratch_model=replace(model, dropout=arms.scratch_model.dropout))


def with_mixer(arms: ArmRecipes, mixer: Mixer) -> ArmRecipes:
    """Return the arms with another mixer; one that is a whole network gets a single block without MLP."""
    model = replace(arms.model, mixer=mixer, positions="auto")
    if mixer.whole:
        model = replace(model, depth=1, expand=0)
    return with_model(arms, model)


def scale_budget(stage: Stage, factor: float) -> Stage:
    """Return the stage with its budget, in any unit, and its limit in hours multiplied by ``factor``."""
    scaled = {unit: factor * value for unit, value in vars(stage.budget).items() if value}
    steps = {"steps": max(1, round(scaled["steps"]))} if "steps" in scaled else {}
    return replace(stage, budget=Budget(**scaled | steps))


def scale_schedule(stage: Stage, factor: float) -> Stage:
    """Return the stage with warm-up, cosine and patience of a plateau multiplied by ``factor``, where given.

    Those that are shares of the stage, or numbers of validations, follow its budget anyway.
    """
    optim = stage.optim.scale_steps(factor)
    if optim.plateau_wait_epochs:
        optim = replace(optim, plateau_wait_epochs=factor * optim.plateau_wait_epochs)
    return replace(stage, optim=optim)


def with_epochs(stage: Stage, epochs: float) -> Stage:
    """Return the stage with a budget in epochs, no limit in hours, and as many validations per epoch."""
    before = stage.budget.epochs
    evals = max(1, round(stage.evals * epochs / before)) if before else stage.evals
    return replace(stage, budget=Budget(epochs=epochs), evals=evals)


def distinct_names(specs: Sequence[Mixer | Task], details: Sequence[str] = ()) -> list[str]:
    """Return names of mixers or tasks; repeated ones with settings or, if these are equal, numbers.

    Args:
        details: a suffix for each, to distinguish equal ones further.
    """
    short = [name_of(each) for each in specs]
    more = details or [""] * len(specs)
    settings = ["".join(f", {name} {value}" for name, value in unusual(each).items()) for each in specs]
    long = [f"{name}{text}{detail}" for name, text, detail in zip(short, settings, more, strict=True)]
    return [
        name if short.count(name) == 1 else detailed if long.count(detailed) == 1 else numbered
        for name, detailed, numbered in zip(short, long, number_duplicates(short), strict=True)
    ]


def unusual(each: Mixer | Task) -> dict[str, Any]:
    """Return the fields of a mixer or task that are other than by default."""
    known = fields(each)  # type: ignore[arg-type]  # mixers and tasks are specs
    return {f.name: getattr(each, f.name) for f in known if getattr(each, f.name) != f.default}


def number_duplicates(names: Sequence[str]) -> list[str]:
    """Return the names with numbers appended to repeated ones: ``s4d 1``, ``s4d 2``."""
    return [
        name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]
