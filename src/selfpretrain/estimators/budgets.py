"""Budgets that follow the data, for models to use: few labels and many sequences need no setting by hand.

Pretraining is counted in positions seen, and ends earlier where its loss on validation stops falling.
Finetuning is counted in epochs over the labelled examples, however many others there are.

The numbers are first choices, after trials on German nouns, Chinese sentences and DNA; measure them with
``experiments/few_labels.py``.
"""

from dataclasses import replace

from ..mixers.base import Mixer
from ..objectives.base import Denoise
from ..registry import name_of
from ..studies.recipes.arms import ArmRecipes
from ..studies.recipes.defaults import LR, LR_OF, PRETRAIN_STEPS, small_arms
from ..tasks.base import Task
from ..training.recipe import Budget, Stage

LARGE = 200_000  # training positions above which the network is twice as wide
PRETRAIN_POSITIONS = 5_000_000
"""Positions seen in pretraining, at most; more where these are fewer than ``PRETRAIN_STEPS`` steps."""
PRETRAIN_EPOCHS = 60  # maximum number of epochs of pretraining
PRETRAIN_MAX_STEPS = 3_500  # maximum number of steps of pretraining
PRETRAIN_BATCHES = 256  # steps of an epoch from which the batch of pretraining is doubled, from 16 up to 128
PRETRAIN_MIN_BATCHES = 32
"""The same where the positions would otherwise take more than ``PRETRAIN_MAX_STEPS``."""
PRETRAIN_LR = 3e-3  # learning rate of pretraining at width 64; it falls with the square root of the width
PRETRAIN_EVALS = 10  # validations in pretraining, of which ``PRETRAIN_PATIENCE`` without a better loss end it
PRETRAIN_PATIENCE = 3
MANY = 1_500
"""Labelled examples from which one validation split is enough to stop by; below, see ``finetuning``."""
FINETUNE_EPOCHS = 30
"""Epochs of finetuning on few labels, all of which are used: nothing is held back to stop by."""
FINETUNE_STEPS = 400  # minimum number of steps of finetuning, up to ``FINETUNE_MAX_EPOCHS``
FINETUNE_MAX_EPOCHS = 100
PATIENT_EPOCHS = 40
"""Maximum number of epochs on many labels; ``PATIENCE`` of them without a better validation end training."""
PATIENCE = 8
MAX_STEPS = 8_000  # maximum number of steps of finetuning


def data_arms(task: Task, mixer: Mixer, denoise: Denoise) -> ArmRecipes:
    """Return arms whose network and budgets follow the data; a task with settings of its own keeps them."""
    arms = small_arms(task, mixer, denoise)
    if task.small:
        return arms
    train = task.load("train")
    positions = int(train.lengths.sum())
    labelled = int(train.labelled.sum())
    model = arms.model
    if positions > LARGE and not mixer.whole:
        model = replace(model, width=2 * model.width)
    lr = LR_OF.get(name_of(mixer), LR) * arms.model.width / model.width
    finetune = finetuning(arms.finetune, max(labelled, 1))
    finetune = replace(finetune, optim=replace(finetune.optim, lr=lr))
    pretrain = _pretraining(arms.pretrain, len(train), positions, model.width)
    return ArmRecipes(model, pretrain, finetune, model, finetune)


def finetuning(stage: Stage, labelled: int) -> Stage:
    """Return a supervised stage whose budget and batch follow the number of labelled training examples."""
    batch = 16 if labelled < MANY else 32
    per_epoch = max(1, labelled // batch)
    if labelled >= MANY:
        steps = min(MAX_STEPS, PATIENT_EPOCHS * per_epoch)
        evals = max(1, min(PATIENT_EPOCHS, steps // per_epoch))
        return replace(
            stage, batch=batch, budget=Budget(steps=steps), evals=evals, early_stopping_patience=PATIENCE
        )
    epochs = min(FINETUNE_MAX_EPOCHS, max(FINETUNE_EPOCHS, FINETUNE_STEPS / per_epoch))
    steps = min(MAX_STEPS, round(epochs * per_epoch))
    return replace(stage, batch=batch, budget=Budget(steps=steps))


def _pretraining(stage: Stage, sequences: int, positions: int, width: int) -> Stage:
    epochs = min(PRETRAIN_EPOCHS, PRETRAIN_POSITIONS / positions)
    batch = 16
    while batch < 128:
        too_many = epochs * sequences / batch > PRETRAIN_MAX_STEPS
        if sequences // (2 * batch) < (PRETRAIN_MIN_BATCHES if too_many else PRETRAIN_BATCHES):
            break
        batch *= 2
    steps = min(PRETRAIN_MAX_STEPS, max(PRETRAIN_STEPS, round(epochs * sequences / batch)))
    optim = replace(stage.optim, lr=PRETRAIN_LR * (64 / width) ** 0.5)
    return replace(
        stage,
        batch=batch,
        budget=Budget(steps=steps),
        optim=optim,
        evals=PRETRAIN_EVALS,
        early_stopping_patience=PRETRAIN_PATIENCE,
    )
