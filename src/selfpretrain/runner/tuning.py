"""Hyperparameter tuning of every cell on validation, over the same search space for all arms."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..config import Count, Positive, Rate, spec
from ..errors import DoesNotFit, SpecError, StoreError
from ..registry import name_of
from ..system.files import Json
from ..training.recipe import Recipe, stage_id
from .experiment import Cell, Experiment, Finished
from .plan import plan_recipes
from .run import run_recipes
from .run_dir import RESULT, RunDir
from .workspace import Workspace

TUNING_SEED = 1_000
"""Seed of all tuning trials; it is never reported."""
Setting = dict[str, float | int]
LABELS = {"lr": "learning rate", "batch": "batch", "weight_decay": "weight decay", "dropout": "dropout"}


@spec
class SearchSpace:
    """Grid of hyperparameter values; every combination is tried, and an empty axis is not tuned.

    Source of the default: Amos et al. (2024), appendix C.1: log-spaced, by validation.
    """

    lr: tuple[Positive, ...] = (1e-3, 5e-4, 1e-4)  # of the last stage
    batch: tuple[Count, ...] = (8, 32, 128)  # of the last stage
    weight_decay: tuple[float, ...] = ()  # of the last stage
    dropout: tuple[Rate, ...] = ()  # of the network

    def settings(self) -> list[Setting]:
        """Return every combination."""
        axes = {name: getattr(self, name) for name in LABELS if getattr(self, name)}
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


Trials = Mapping[tuple[str, ...], Sequence[Recipe]]
"""Recipes to try by the place whose cells they are for, one per setting."""


def trials_of(experiment: Experiment, space: SearchSpace) -> Trials:
    """Return the recipes that tuning tries: every setting of every row and column of a task, or of each fold.

    Raises:
        SpecError: if the seed of the trials is one that is to be reported.
    """
    if any(cell.recipe.seed == TUNING_SEED for cell in experiment.cells):
        raise SpecError(
            f"--tune tries settings with seed {TUNING_SEED:,}, which must not be reported: give --first-seed "
            "and --seeds without it"
        )
    first = dict[tuple[str, ...], Cell]()
    for cell in experiment.cells:
        first.setdefault(_place(cell), cell)
    return {
        place: [with_setting(replace(cell.recipe, seed=TUNING_SEED), setting) for setting in space.settings()]
        for place, cell in first.items()
    }


def tune(experiment: Experiment, space: SearchSpace, workspace: Workspace) -> Experiment:
    """Return the experiment with the best hyperparameters on validation, and a note on each choice.

    Every row and column of a task, or of each fold, is tuned separately over the same space, so that all arms
    get the same number of trials. Pretraining is unchanged, except for dropout. The test split is not read.

    Raises:
        SpecError: if the seed of the trials is one that is to be reported.
    """
    settings = space.settings()
    trials = trials_of(experiment, space)
    tried = [recipe for recipes in trials.values() for recipe in recipes]
    fits = True
    try:
        run_recipes(tried, workspace, tested=False)
    except DoesNotFit:  # all others have been tried
        fits = False
    if fits and (gone := sum(not workspace.stage(recipe).finished for recipe in tried)):
        raise StoreError(f"{gone} trials were deleted while others ran; run the same command again")
    scores = {
        place: [_validation_score(workspace.stage(recipe)) for recipe in recipes]
        for place, recipes in trials.items()
    }
    best = {place: settings[values.index(max(values))] for place, values in scores.items()}
    cells = tuple(
        replace(cell, recipe=with_setting(cell.recipe, best[_place(cell)])) for cell in experiment.cells
    )
    unfit = {place: sum(not workspace.stage(each).finished for each in of) for place, of in trials.items()}
    notes = [
        f"{', '.join(place)}: {_describe(best[place])} (validation score {max(values):.3f}), of "
        f"{len(values)} settings tried with seed {TUNING_SEED}, which is not reported"
        f"{f'; {unfit[place]} did not fit into memory' * bool(unfit[place])}"
        for place, values in scores.items()
    ]
    # A study measures its own recipes, with pretraining as a part of them: they lead to those that were run.
    tuned = {
        stage_id(before): after
        for old, new in zip(experiment.cells, cells, strict=True)
        for before, after in zip(old.recipe.prefixes(), new.recipe.prefixes(), strict=True)
    }

    def measure(finished: Finished) -> list[Json]:
        return experiment.measure(replace(finished, tuned=tuned))

    planned = plan_recipes(tried, tested=False)
    ids = tuple(stage.id for stage in planned if workspace.folder(stage.id).finished)
    return replace(experiment, cells=cells, notes=(*experiment.notes, *notes), measure=measure, trials=ids)


def _validation_score(stage: RunDir) -> float:
    """Return the score of a trial on validation; without a finite score and loss it is below all others.

    So it is if it did not fit into memory.
    """
    if not stage.finished:
        return -math.inf
    val = stage.read(RESULT)["scores"]["val"]
    finite = math.isfinite(val["score"]) and math.isfinite(val["loss"])
    return float(val["score"]) if finite else -math.inf


def with_setting(recipe: Recipe, setting: Setting) -> Recipe:
    """Return the recipe with new hyperparameters in its last stage, for the same number of examples."""
    last = recipe.last
    batch = int(setting.get("batch", last.batch))
    share = last.batch / batch  # of the steps
    lr = setting.get("lr", last.optim.lr)
    decay = setting.get("weight_decay", last.optim.weight_decay)
    optim = replace(last.optim, lr=lr, weight_decay=decay).scale_steps(share)
    budget = last.budget
    if budget.steps:
        budget = replace(budget, steps=max(1, round(budget.steps * share)))
    model = replace(recipe.model, dropout=setting.get("dropout", recipe.model.dropout))
    return replace(recipe, model=model).with_last(replace(last, optim=optim, batch=batch, budget=budget))


def _place(cell: Cell) -> tuple[str, ...]:
    fold = (f"fold {cell.fold + 1}",) if len(cell.recipe.task.parts()) > 1 else ()
    name = name_of(cell.recipe.task)
    task = name if cell.label in ("", name) else f"{cell.label} ({name})"  # a label alone may be of several
    return (task, *fold, cell.row, cell.column)


def _describe(setting: Setting) -> str:
    return ", ".join(f"{LABELS[name]} {value:g}" for name, value in setting.items())
