"""How an architecture is trained on a task: sizes, budgets and learning rates of every arm.

The small settings were chosen on the validation split of ``stdlib``, with one grid for every arm and a seed
that no report uses; the paper's are those of Amos et al. (2024), appendix C, Table 4.
"""

from dataclasses import replace

from ...data.schema import Tokens
from ...errors import SpecError
from ...mixers.base import Mixer
from ...objectives.base import Objective
from ...objectives.causal import Causal
from ...objectives.masked import Masked
from ...registry import name_of
from ...tasks.base import Task
from ...training.model import Model
from ...training.optim import Optim
from ...training.recipe import Budget, Stage
from ..base import toy
from .arms import Arms, supervised

BATCH = 16
PRETRAIN_EPOCHS, FINETUNE_EPOCHS = 7, 3
PRETRAIN_STEPS, FINETUNE_STEPS = 900, 400
"""The least that is trained, however few the examples."""
MOST_STEPS = 20_000
"""The most, however many."""


RATE, RATES = 2e-3, {"s4d": 4e-3}
"""Learning rate of finetuning and of training from scratch, and where another one was better.

Chosen with ``spt compare --tune``, which gave both arms the same answer: see docs/adr/0007.
"""


def toys(arms: Arms) -> Arms:
    """The same arms, for seconds: a small network and a few steps."""
    model = replace(arms.model, width=16, depth=1)
    return Arms(model, toy(arms.pretrain), toy(arms.finetune), model, toy(arms.scratch))


def small(task: Task, mixer: Mixer, denoise: Objective) -> Arms:
    """Minutes on two cores for a few thousand short sequences."""
    depth, expand = (1, 0) if mixer.whole else (2, 2)
    causal = denoise.needs_causal and mixer.denoises
    model = Model(mixer, width=64, depth=depth, expand=expand, causal=causal)
    epoch = len(task.load("train")) / BATCH
    long, short = (
        _between(PRETRAIN_EPOCHS * epoch, PRETRAIN_STEPS),
        _between(FINETUNE_EPOCHS * epoch, FINETUNE_STEPS),
    )
    pretrain = Stage(denoise, Budget(steps=long), Optim(lr=6e-3), BATCH, evals=2)
    optim = Optim(lr=RATES.get(name_of(mixer), RATE), weight_decay=0.1)
    finetune = Stage(supervised(task), Budget(steps=short), optim, BATCH, evals=6)
    return Arms(model, pretrain, finetune, model, finetune)


def paper(task: Task, mixer: Mixer, denoise: Objective) -> Arms:
    """The printed recipe of Amos et al. (2024), for a GPU and days.

    Raises:
        SpecError: if the paper has none for this task and mixer.
    """
    from .lookup import matching  # which needs the arms of this module

    return matching(task, mixer, denoise)


def denoiser(task: Task, objective: str) -> Objective:
    """The denoising objective by its short name, with the masking rate that suits the signal.

    Rates: 15 % of symbols (10 % for ListOps), half of quantised values (pixels), a quarter of other values.
    Source: Amos et al. (2024), section 2 and appendix C.3.

    Raises:
        SpecError: if it is neither masked nor causal.
    """
    if objective == "causal":
        return Causal()
    if objective != "masked":
        raise SpecError(f"objective {objective!r}: self-pretraining is either masked or causal")
    if name_of(task) == "listops":
        return Masked(0.1)
    signal = task.form.signal
    return Masked(0.15 if isinstance(signal, Tokens) else 0.5 if signal.levels else 0.25)


def _between(steps: float, least: int) -> int:
    return round(min(max(steps, least), MOST_STEPS))
