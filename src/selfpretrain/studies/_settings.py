"""How an architecture is trained on a task: sizes, budgets and learning rates of every arm.

The small settings were chosen on the validation split of ``stdlib``, with one grid for every arm and a seed
that no report uses; the paper's are those of Amos et al. (2024), appendix C, Table 4.
"""

import itertools
from dataclasses import replace

from .. import cost
from ..batch import Classes, Tokens
from ..errors import SpecError
from ..mixers.base import Mixer
from ..model import Model
from ..objectives.base import Objective
from ..objectives.causal import Causal
from ..objectives.classify import Classify
from ..objectives.masked import Masked
from ..objectives.regress import Regress
from ..optim import Optim
from ..recipe import Budget, Recipe, Stage
from ..shelf import Positive, Rate, amend, name_of, names, spec
from ..study import toy
from ..tasks.base import Task

MIXERS = frozenset(names("mixers"))
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


@spec
class Arms:
    """One architecture, and how each of its arms is trained."""

    model: Model  # of self-pretraining
    pretrain: Stage
    finetune: Stage
    scratch_model: Model  # of both arms from scratch; the same up to dropout
    scratch: Stage  # of the arm without compensation; the tied arm's budget follows from the cost of SPT

    def amended(self, path: str, text: str) -> "Arms":
        """The same with one setting changed; ``model`` and ``mixer`` mean those of all arms.

        A budget has one unit, so naming another one replaces it.
        """
        word, _, rest = path.partition(".")
        if rest.startswith("budget."):
            return amend(self, f"{word}.budget", f'{{"{rest.removeprefix("budget.")}": {text}}}')
        if word == "mixer":
            return self.amended(f"model.{path}", text)
        if word == "model":
            return replace(
                self, model=amend(self.model, rest, text), scratch_model=amend(self.scratch_model, rest, text)
            )
        return amend(self, path, text)


@spec
class Grid:
    """What tuning tries, for every arm alike."""

    lr: tuple[Positive, ...] = (1e-3, 2e-3, 4e-3)  # of finetuning, and of training from scratch
    weight_decay: tuple[float, ...] = (0.0, 0.1)
    dropout: tuple[Rate, ...] = (0.0, 0.1)

    def settings(self) -> list[tuple[float, float, float]]:
        """Every combination of learning rate, weight decay and dropout."""
        return list(itertools.product(self.lr, self.weight_decay, self.dropout))


GRID = Grid()


def tied(task: Task, arms: Arms) -> Stage:
    """Training from scratch with the compute of pretraining and finetuning together.

    Raises:
        SpecError: if their budgets are in seconds.
    """
    before = arms.pretrain
    if not arms.model.mixer.denoises:  # it has none: what it would cost is that of as many labelled steps
        before = replace(before, objective=arms.finetune.objective)
    spt = Recipe(task, arms.model, (before, arms.finetune))
    if any(stage.budget.seconds for stage in spt.stages):
        raise SpecError("compute cannot be tied to a budget in seconds; give steps, epochs or FLOPs")
    evals = arms.pretrain.evals + arms.finetune.evals
    return replace(arms.scratch, budget=Budget(flops=cost.total(spt)), evals=evals)


def toys(arms: Arms) -> Arms:
    """The same arms, for seconds: a small network and a few steps."""
    model = replace(arms.model, width=16, depth=1)
    return Arms(model, toy(arms.pretrain), toy(arms.finetune), model, toy(arms.scratch))


def with_settings(arms: Arms, spt: tuple[float, float, float], scratch: tuple[float, float, float]) -> Arms:
    """The same arms with a (learning rate, weight decay, dropout) each."""
    return Arms(
        replace(arms.model, dropout=spt[2]),
        arms.pretrain,
        _tuned(arms.finetune, spt),
        replace(arms.scratch_model, dropout=scratch[2]),
        _tuned(arms.scratch, scratch),
    )


def small(task: Task, mixer: Mixer, denoise: Objective) -> Arms:
    """Minutes on two cores for a few thousand short sequences, with what the task brings along."""
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
    return _suited(Arms(model, pretrain, finetune, model, finetune), task)


def paper(task: Task, mixer: Mixer, denoise: Objective) -> Arms:
    """The printed recipe of Amos et al. (2024), for a GPU and days.

    Raises:
        SpecError: if the paper has none for this task and mixer.
    """
    from ._recipes import matching  # which needs the arms of this module

    return matching(task, mixer, denoise)


def denoiser(task: Task, objective: str) -> Objective:
    """The denoising objective by its short name, with the masking rate that suits the signal.

    Rates: the task's own, else 15 % of symbols, half of quantised values (pixels), a quarter of other values.
    Source: Amos et al. (2024), section 2 and appendix C.3.

    Raises:
        SpecError: if it is neither masked nor causal.
    """
    if objective == "causal":
        return Causal()
    if objective != "masked":
        raise SpecError(f"objective {objective!r}: self-pretraining is either masked or causal")
    if task.masking is not None:
        return Masked(task.masking)
    signal = task.form.signal
    return Masked(0.15 if isinstance(signal, Tokens) else 0.5 if signal.levels else 0.25)


def supervised(task: Task) -> Objective:
    """The objective that a task's labels ask for."""
    return Classify() if isinstance(task.form.target, Classes) else Regress()


def _between(steps: float, least: int) -> int:
    return round(min(max(steps, least), MOST_STEPS))


def _suited(arms: Arms, task: Task) -> Arms:
    """The arms with the task's own settings of this scale, as far as they are meant for such a mixer."""
    mixer = arms.model.mixer
    for setting in task.small:
        path, _, text = setting.partition("=")
        word, _, rest = path.partition(".")
        if (word in MIXERS and word != name_of(mixer)) or (word == "model" and mixer.whole):
            continue
        arms = arms.amended(rest if word in MIXERS else path, text)
    return arms


def _tuned(stage: Stage, setting: tuple[float, float, float]) -> Stage:
    return replace(stage, optim=replace(stage.optim, lr=setting[0], weight_decay=setting[1]))
