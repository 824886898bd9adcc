"""Default hyperparameters at the small scale: network size, budgets and learning rates of every arm.

They were chosen on the validation split of ``stdlib``, with one grid for every arm and a seed that no report
uses. For recipes of papers, see ``reported``.
"""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from ...config import explain
from ...errors import SpecError
from ...mixers.base import Mixer
from ...objectives.base import Denoise
from ...objectives.masked import Masked
from ...registry import find, name_of, names
from ...tasks.base import Task
from ...training.model import Model
from ...training.optim import Optim
from ...training.recipe import Budget, Stage
from ..base import smoke_stage
from .arms import ArmRecipes, supervised_objective, unusual
from .reported import task_name
from .tables import Denoising, task_constants

BATCH = 16
PRETRAIN_EPOCHS = 7
FINETUNE_EPOCHS = 3
PRETRAIN_STEPS = 900
"""Minimum number of steps of pretraining, for small tasks."""
FINETUNE_STEPS = 400
"""Minimum number of steps of finetuning, for small tasks."""
MAX_STEPS = 20_000
"""Maximum number of steps of a stage, for large tasks."""

LR = 2e-3
"""Learning rate of finetuning and scratch.

Chosen with ``selfpretrain compare --tune``, which selected the same rate for both arms: see docs/log.md.
"""
LR_OF = {"s4d": 4e-3}
"""Mixers with another learning rate."""

DEMO_TASK = "paths"
DEMO_OBJECTIVE: Denoising = "causal"
DEMO = (
    *("model.width=32", "attention.mixer.heads=2", "stage.batch=64"),
    *("pretrain.budget.steps=1000", "pretrain.optim.lr=1e-2", "pretrain.optim.betas=[0.9,0.98]"),
    *("finetune.budget.steps=500", "finetune.optim.lr=4e-3", "finetune.optim.betas=[0.8,0.95]"),
    *("scratch.budget.steps=500", "scratch.optim.lr=4e-3", "scratch.optim.betas=[0.8,0.95]"),
    *("lru.model.width=64", "lru.pretrain.budget.steps=800"),
    *("s4d.pretrain.budget.steps=600", "s4d.finetune.budget.steps=400", "s4d.scratch.budget.steps=400"),
    *("finetune.evals=4", "scratch.evals=4"),
)
"""Settings of a comparison without a task: minutes on two cores, and a gain that is clear with few seeds.

Chosen on validation with seeds that no report uses, see docs/log.md. The budget is short on purpose:
compute-matched scratch is still at chance level, which it leaves in some seeds with more supervised steps.
"""


def smoke_arms(arms: ArmRecipes) -> ArmRecipes:
    """Return the arms with a tiny network and four steps per stage, for smoke tests."""
    model = replace(arms.model, width=16, depth=1)
    return replace(arms.changed(smoke_stage), model=model, scratch_model=model)


def small_arms(task: Task, mixer: Mixer, denoise: Denoise) -> ArmRecipes:
    """Return the small-scale arms, with the settings of the task: minutes on two cores."""
    depth, expand = (1, 0) if mixer.whole else (2, 2)
    causal = denoise.needs_causal and mixer.denoises
    model = Model(mixer, width=64, depth=depth, expand=expand, causal=causal)
    train = task.load("train")
    long = _clip_steps(PRETRAIN_EPOCHS * len(train) / BATCH, PRETRAIN_STEPS)
    # Epochs of finetuning are counted over labelled examples, however many others there are.
    short = _clip_steps(FINETUNE_EPOCHS * int(train.labelled.sum()) / BATCH, FINETUNE_STEPS)
    pretrain = Stage(denoise, Budget(steps=long), Optim(lr=6e-3), BATCH, evals=2)
    optim = Optim(lr=LR_OF.get(name_of(mixer), LR), weight_decay=0.1)
    finetune = Stage(supervised_objective(task), Budget(steps=short), optim, BATCH, evals=6)
    arms = ArmRecipes(model, pretrain, finetune, model, finetune)
    return with_settings(arms, settings_beside(mixer, task.small))


def settings_beside(mixer: Mixer, settings: Sequence[str]) -> list[str]:
    """Return settings without those of fields that a mixer has other than by default: they were chosen."""
    paths = tuple(f"{name_of(mixer)}.mixer.{name}=" for name in unusual(mixer))
    return [setting for setting in settings if not setting.startswith(paths)]


def denoising_objective(task: Task, objective: str) -> Denoise:
    """Return a denoising objective with settings for a task.

    The settings come from its ``for_signal``; the masking rate is that of the task or the papers, if set.

    Args:
        objective: name from `selfpretrain list objectives`, or ``package.module:Class``.

    Raises:
        SpecError: if there is no such objective, it does not denoise, or it needs more settings.
    """
    kind = find("objectives", objective)
    if not (isinstance(kind, type) and issubclass(kind, Denoise)):
        shelf = {name: find("objectives", name) for name in names("objectives")}
        others = " or ".join(name for name, offered in shelf.items() if issubclass(offered, Denoise))
        raise SpecError(f"objective {objective!r} rebuilds no inputs; self-pretraining takes {others}")
    try:
        proposed = kind.for_signal(task.form)
    except (TypeError, ValidationError) as error:
        what = explain(error) if isinstance(error, ValidationError) else error
        raise SpecError(f"{objective} needs settings that for_signal does not give: {what}") from error
    if not isinstance(proposed, Masked):
        return proposed
    known = task_constants().get(task_name(task))
    return replace(proposed, rate=task.masking or (known.rate if known else proposed.rate))


def with_settings(arms: ArmRecipes, settings: Sequence[str]) -> ArmRecipes:
    """Return the arms with settings such as ``pretrain.batch=64``, or ``s4d.mixer.states=16`` for one mixer.

    Settings of other mixers are skipped, and so are those of the model if the mixer is a whole network.
    """
    mixer = arms.model.mixer
    mixers = names("mixers")
    for setting in settings:
        path, _, text = setting.partition("=")
        word, _, rest = path.partition(".")
        if (word in mixers and word != name_of(mixer)) or (word == "model" and mixer.whole):
            continue
        arms = arms.with_setting(rest if word in mixers else path, text)
    return arms


def _clip_steps(steps: float, least: int) -> int:
    return round(min(max(steps, least), MAX_STEPS))
