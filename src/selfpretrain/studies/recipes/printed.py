"""Published recipes: hyperparameters of an architecture on a task, source of each value, and their lookup.

Papers print some hyperparameters, the code published with them has more, and the rest is our choice or a
default of this package. Every field of a recipe's arms has one of these sources.
"""

import functools
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...errors import SpecError, UnknownName, nearest
from ...mixers.base import Mixer
from ...objectives.base import Denoise, Objective
from ...objectives.causal import Causal
from ...objectives.classify import Classify
from ...objectives.masked import Masked
from ...objectives.regress import Regress
from ...registry import find, name_of
from ...report import paper_numbers
from ...tasks.base import Task
from ...tasks.common.shuffled import Shuffled
from ...training.optim import Optim
from ...training.recipe import Budget, Stage
from .arms import STAGES, ArmRecipes

OURS = "our choice"
CODE = "published code"
DEFAULT = "default of this package"

Denoising = Literal["masked", "causal"]
Loss = Literal["CE", "L1"]
Style = Literal["linear", "mlp", "mlp-relu"]
Sources = tuple[tuple[str, str], ...]
"""(prefix, source) pairs: prefixes of field paths of ``ArmRecipes``, such as ``pretrain.optim``."""
MODULES = {"amos": "amos2024", "coser": "coser2025", "gu": "gu2022"}
"""Paper -> module with its recipes, which is imported on demand."""
PAPERS = {paper: paper_numbers.PAPERS[module] for paper, module in MODULES.items()}
"""Paper -> citation."""
FAMILIES = {
    ("attention", "masked"): ("transformer-rotary",),
    ("attention", "causal"): ("transformer-dagger", "transformer-rotary"),
    ("local", "masked"): ("transformer-rotary",),
    ("local", "causal"): ("transformer-dagger", "transformer-rotary"),
}
"""(mixer, objective) -> families to try in this order; for other mixers the family is the mixer's name."""
OBJECTIVES = ["masked", "causal"]


class RecipeKey(NamedTuple):
    """Name of a published recipe."""

    paper: str
    task: str
    family: str
    objective: str  # masked or causal


@dataclass(frozen=True)
class TaskConstants:
    """Constants of a task that are the same in all papers."""

    label: str  # name in tables of the papers
    examples: int  # training examples in our split
    rate: float  # masking rate: share of positions masked in pretraining
    loss: Loss  # of the denoising objective
    evals: int = 1  # validations per epoch of denoising, in the published code


TASKS = {
    "listops": TaskConstants("ListOps", 96_000, 0.10, "CE"),
    "text": TaskConstants("Text", 22_500, 0.15, "CE"),
    "retrieval": TaskConstants("Retrieval", 147_086, 0.15, "CE"),
    "image": TaskConstants("Image", 45_000, 0.50, "L1", 2),
    "pathfinder": TaskConstants("Pathfinder", 160_000, 0.50, "CE", 2),
    "pathx": TaskConstants("PathX", 160_000, 0.50, "CE", 2),
    "pathx256": TaskConstants("PathX-256", 160_000, 0.50, "CE", 2),
    "speech": TaskConstants("SC", 84_843, 0.25, "L1"),
    "speech-mfcc": TaskConstants("SC (MFCC)", 24_482, 0.25, "L1"),
    "scifar": TaskConstants("sCIFAR", 45_000, 0.50, "L1", 2),
    "bidmc-hr": TaskConstants("BIDMC-HR", 5_538, 0.25, "L1"),
    "bidmc-rr": TaskConstants("BIDMC-RR", 5_538, 0.25, "L1"),
    "bidmc-spo2": TaskConstants("BIDMC-SpO2", 5_538, 0.25, "L1"),
}
"""Source: Amos et al. (2024), section 2, appendix C.3 (rates), Table 4 (Image), appendix C.1 (losses)."""


@dataclass(frozen=True)
class StageHParams:
    """Hyperparameters of a stage, as the papers name them."""

    lr: float
    batch: int
    weight_decay: float = 0.0
    epochs: int = 200
    schedule: Literal["constant", "cosine", "plateau"] = "constant"
    warmup: int = 0  # steps
    cosine_steps: int | None = None  # step at which schedule="cosine" ends; None: the last of the stage
    patience: int = 10  # of ReduceLROnPlateau, for schedule="plateau"
    hours: float | None = None  # time limit of the stage


@dataclass(frozen=True)
class PaperRecipe:
    """A published recipe as arms that can be run."""

    key: RecipeKey
    arms: ArmRecipes
    sources: Sources
    remarks: tuple[str, ...] = ()  # interpretation of the paper, and differences from it

    def source(self, path: str) -> str:
        """Return the source of a field of the arms, e.g. ``source("finetune.optim.lr")``."""
        sources = dict(self.sources)
        part = path
        while part and part not in sources:
            part = part.rpartition(".")[0]
        if not part and path.startswith("scratch_model"):
            return self.source(path.removeprefix("scratch_"))
        return sources.get(part, DEFAULT)

    @property
    def ours(self) -> tuple[str, ...]:
        """Field paths whose values are our choice."""
        return tuple(path for path, source in self.sources if source.startswith(OURS))


Table = dict[RecipeKey, PaperRecipe]
"""Recipes of a paper."""


def stage(task: str, objective: Objective, training: StageHParams) -> Stage:
    """Return a stage validated once per epoch.

    Denoising stages are validated by accuracy or R2, and on images twice per epoch.
    """
    constants = TASKS[task]
    denoises = isinstance(objective, Denoise)
    # ReduceLROnPlateau lowers the rate after the first epoch beyond its patience; its threshold is 1e-4.
    plateau = training.schedule == "plateau"
    optim = Optim(
        lr=training.lr,
        weight_decay=training.weight_decay,
        schedule=training.schedule,
        warmup=0.0,
        clip=0.0,
        warmup_steps=training.warmup,
        cosine_steps=training.cosine_steps if training.schedule == "cosine" else None,
        plateau_wait_epochs=training.patience + 1.0 if plateau else None,
        plateau_threshold=1e-4 if plateau else 0.0,
    )
    return Stage(
        objective,
        Budget(epochs=training.epochs, hours=training.hours),
        optim,
        training.batch,
        evals=training.epochs * (constants.evals if denoises else 1),
        criterion=("accuracy" if constants.loss == "CE" else "r2") if denoises else "score",
    )


def denoise(task: str, objective: str) -> Objective:
    """Return the denoising objective with the masking rate and loss of a task."""
    constants = TASKS[task]
    distance: Literal["l1", "levels"] = "l1" if constants.loss == "L1" else "levels"
    return Causal(distance) if objective == "causal" else Masked(constants.rate, distance)


def supervise(task: str, style: Style) -> Objective:
    """Return the supervised objective of a task: regression for BIDMC, else classification."""
    return Regress(style) if task.startswith("bidmc") else Classify(style)


def same_source(prefix: str, source: str, *paths: str) -> Sources:
    """Return the same source for several fields below ``prefix``."""
    return tuple((f"{prefix}.{path}", source) for path in paths)


def stage_sources(name: str, numbers: str, decay: str, budget: str) -> Sources:
    """Return the sources of a stage whose schedule and warm-up are those of the published code.

    Args:
        numbers: source of learning rate and batch size.
        decay: source of weight decay.
    """
    return (
        (f"{name}.budget", budget),
        *same_source(name, numbers, "batch", "optim.lr"),
        (f"{name}.optim.weight_decay", decay),
        *same_source(name, CODE, "optim.schedule", "optim.warmup_steps", "optim.betas"),
        *same_source(name, CODE, "optim.clip", "evals"),
        *(same_source(name, CODE, "objective.style") if name != "pretrain" else ()),
    )


def cosine_sources(arms: ArmRecipes) -> Sources:
    """Return the source of the lengths of cosines, for the stages that have one."""
    stages = {name: getattr(arms, name).optim for name in STAGES}
    return tuple((f"{name}.optim.cosine_steps", CODE) for name, optim in stages.items() if optim.cosine_steps)


def paper_arms(paper: str, task: str, family: str, objective: str = "masked") -> ArmRecipes:
    """Return the published arms for a task and a family of architectures.

    Raises:
        SpecError: if the paper has no such recipe; the message lists those it has.
    """
    return paper_recipe(paper, task, family, objective).arms


def paper_recipe(paper: str, task: str, family: str, objective: str = "masked") -> PaperRecipe:
    """Return the published arms with the source of every value.

    Raises:
        SpecError: if the paper has no such recipe; the message lists those it has.
    """
    key = RecipeKey(paper, task, family, objective)
    _check_key(key)
    return _recipes(paper)[key]


def recipe_keys(paper: str) -> list[RecipeKey]:
    """Return the keys of all recipes of a paper.

    Raises:
        UnknownName: if there are no recipes of that paper.
    """
    return list(_recipes(paper))


def match_recipe(task: Task, mixer: Mixer, denoise: Denoise) -> ArmRecipes:
    """Return the recipe of Amos et al. (2024) for a mixer with default settings.

    Attention becomes local attention on tasks where the paper cuts sequences into blocks.

    Raises:
        SpecError: if there is no such recipe, or the mixer has settings that the recipe would replace.
    """
    name = task_name(task)
    kind = name_of(mixer)
    objective = name_of(denoise)
    families = FAMILIES.get((kind, objective), (kind,))
    keys = [
        key for key in (RecipeKey("amos", name, f, objective) for f in families) if key in _recipes("amos")
    ]
    if not keys:
        others = [key for key in recipe_keys("amos") if key.family in families and key.objective == objective]
        hint = f"there are some for {_join_unique(key.task for key in others)}; " if others else ""
        raise SpecError(
            f"no printed recipe for {kind} on {name} ({objective}); {hint}use --scale small and -s ..."
        )
    arms = paper_arms(*keys[0])
    own_mixer = type(arms.model.mixer)
    attention = find("mixers", "attention")
    local = find("mixers", "local")
    if isinstance(mixer, local) and own_mixer is not local:
        raise SpecError(f"the printed recipe on {name} attends to all positions; use --mixers attention")
    if mixer != own_mixer() and not (own_mixer is local and mixer == attention()):
        raise SpecError(f"the printed recipe sets {kind} itself; name it without settings, and use -s after")
    return arms


def task_name(task: Task) -> str:
    """Return the name of a task in a ``RecipeKey``, e.g. ``bidmc-hr``, ``speech-mfcc``."""
    if isinstance(task, Shuffled):  # permuted sequences take the same recipe
        return task_name(task.task)
    name = name_of(task)
    settings = vars(task)
    if name == "bidmc":
        return f"{name}-{settings['target'].lower()}"
    if name == "speech" and settings["features"] == "mfcc":
        return f"{name}-mfcc"
    return name


@functools.cache
def _recipes(paper: str) -> Table:
    if paper not in PAPERS:
        raise UnknownName(f"no recipes of a paper called {paper!r}{nearest(paper, PAPERS)}")
    return importlib.import_module(f".{MODULES[paper]}", __package__).table()


def _check_key(key: RecipeKey) -> None:
    keys = list(_recipes(key.paper))
    if key in keys:
        return
    for i, field in enumerate(RecipeKey._fields):
        known = OBJECTIVES if field == "objective" else list(dict.fromkeys(each[i] for each in keys))
        if key[i] not in known:
            raise UnknownName(f"{PAPERS[key.paper]}: no {field} called {key[i]!r}{nearest(key[i], known)}")
    trained = _join_unique(f"{each.family} ({each.objective})" for each in keys if each.task == key.task)
    raise SpecError(
        f"{PAPERS[key.paper]} print no recipe for {key.family} on {key.task} ({key.objective}); "
        f"there, they have {trained}"
    )


def _join_unique(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
