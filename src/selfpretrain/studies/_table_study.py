"""What the tables of the papers share: their tasks, what stands in for them, and the usual arms."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from ..errors import DataError
from ..mixers.base import Mixer
from ..registry import find, name_of
from ..runner.experiment import Cell
from ..spec import Count, spec
from ..tasks.base import Task
from ..tasks.bidmc import Bidmc
from ..tasks.digits import Digits
from ..tasks.listops import ListOps
from ..tasks.speech import Speech
from ..tasks.spoken_digits import SpokenDigits
from ..tasks.stdlib import Stdlib
from ..training.model import Model
from ..training.recipe import Budget, Recipe, Stage
from .base import Scale, Study
from .recipes.arms import Arms, tied
from .recipes.defaults import denoiser, small, toys
from .recipes.lookup import recipe, task_name
from .recipes.printed import Denoising

SCRATCH, TIED, SPT = "scratch", "scratch, tied", "SPT"

LISTOPS, TEXT, RETRIEVAL, IMAGE, PATHFINDER, PATHX = (
    "ListOps",
    "Text",
    "Retrieval",
    "Image",
    "Pathfinder",
    "PathX",
)
LRA = (LISTOPS, TEXT, RETRIEVAL, IMAGE, PATHFINDER, PATHX)
SPEECH = "SC"

BIDMC = ("BIDMC HR", "BIDMC RR", "BIDMC SpO2")
PAPER_TASKS: dict[str, Task] = {
    SPEECH: Speech(),
    BIDMC[0]: Bidmc(target="HR"),
    BIDMC[1]: Bidmc(target="RR"),
    BIDMC[2]: Bidmc(target="SpO2"),
}
"""Tasks of the papers that are called otherwise on the shelf."""
STAND_INS: dict[str, Task] = {
    LISTOPS: ListOps(min_length=20, max_length=64, max_depth=5, max_args=5, train=2000, val=1000, test=2000),
    TEXT: Stdlib(),
    IMAGE: Digits(train=500),
    SPEECH: SpokenDigits(features="mfcc"),
}
"""What stands in for a paper's task on two cores; the others are too long for any."""


TOTAL_EPOCHS, TOTAL_STEPS = {IMAGE: 150, TEXT: 30}, 1300
"""Pretraining and finetuning together: of Amos et al. (2024), Table 8, and of our small scale."""


@spec
class Table(Study):
    """A table at a scale; its arms are those of ``spt compare``, or of the paper."""

    tasks: ClassVar[tuple[str, ...]] = ()  # the paper's names, in its order
    recipes: ClassVar[str] = "amos"  # whose recipes the paper's scale takes

    scale: Scale = "small"
    seeds: Count = 3

    @classmethod
    def at(cls, scale: Scale, seeds: int) -> "Table":
        """The table at a scale, with so many seeds."""
        return cls(scale, seeds)

    def cells(self) -> Iterator[Cell]:
        """Seed by seed, so that an unfinished table already shows all arms."""
        at_hand = self.at_hand()
        for seed in range(self.seeds):
            for label, task in at_hand.items():
                for cell in self.row(label, task):
                    yield replace(cell, label=label, recipe=replace(cell.recipe, seed=seed))

    def row(self, label: str, task: Task) -> Iterator[Cell]:
        """The cells of one task and the first seed."""
        raise NotImplementedError

    def at_hand(self) -> dict[str, Task]:
        """The tasks whose data are here, by the paper's name."""
        return {label: task for label, task in self._wanted().items() if _is_here(task)}

    def notes(self) -> list[str]:
        """What stands in for what, and what is left out."""
        if self.scale == "paper":
            return [f"{label} is left out: its data are not here" for label in self._absent()]
        shown, absent = {cell.label for cell in self.cells()}, self._absent()
        instead = [
            f"{name_of(STAND_INS[label])} stands in for {label}" for label in STAND_INS if label in shown
        ]
        without = [label for label in self.tasks if label not in shown and label not in absent]
        return [
            *instead,
            *([f"left out at this scale: {', '.join(without)}"] if without else []),
            *(f"{label} is left out: its data are not here (spt data get)" for label in absent),
        ]

    def arms(self, task: Task, mixer: Mixer, family: str, objective: Denoising, share: float = 1.0) -> Arms:
        """How an architecture is trained at this scale.

        Args:
            mixer: at the smaller scales.
            family: of the paper's recipes; ``like:FAMILY`` is that recipe with the mixer in its place.
            share: of the usual small budget.
        """
        if self.scale != "paper":
            made = small(task, mixer, denoiser(task, objective))
            return toys(made) if self.scale == "smoke" else shorter(made, share)
        name = family.removeprefix("like:")
        arms = recipe(self.recipes, task_name(task), name, objective)
        if name == family:
            return arms
        return with_model(arms, replace(arms.model, mixer=mixer, positions="auto"))

    def percent(self, stage: Stage, label: str, part: int) -> Stage:
        """The stage with a part of the total budget of Amos et al. (2024), Table 8, or of our small one."""
        if self.scale == "paper":
            return replace(stage, budget=Budget(epochs=TOTAL_EPOCHS[label] * part / 100))
        whole = TOTAL_STEPS if self.scale == "small" else 10
        return replace(stage, budget=Budget(steps=whole * part // 100))

    def _wanted(self) -> dict[str, Task]:
        if self.scale == "paper":
            return {label: PAPER_TASKS.get(label) or find("tasks", label.lower())() for label in self.tasks}
        found = {label: STAND_INS[label] for label in self.tasks if label in STAND_INS}
        return {label: task.tiny() if self.scale == "smoke" else task for label, task in found.items()}

    def _absent(self) -> list[str]:
        return [label for label, task in self._wanted().items() if not _is_here(task)]


def shorter(arms: Arms, share: float) -> Arms:
    """The same arms with a share of every budget in steps."""
    return replace(
        arms,
        pretrain=_cut(arms.pretrain, share),
        finetune=_cut(arms.finetune, share),
        scratch=_cut(arms.scratch, share),
    )


def with_model(arms: Arms, model: Model) -> Arms:
    """The same arms for another network."""
    return replace(arms, model=model, scratch_model=replace(model, dropout=arms.scratch_model.dropout))


def usual_arms(task: Task, arms: Arms) -> dict[str, Recipe]:
    """The three usual arms, with the first seed."""
    return {
        SCRATCH: Recipe(task, arms.scratch_model, (arms.scratch,)),
        TIED: Recipe(task, arms.scratch_model, (tied(task, arms),)),
        SPT: Recipe(task, arms.model, (arms.pretrain, arms.finetune)),
    }


def _cut(stage: Stage, share: float) -> Stage:
    return (
        replace(stage, budget=Budget(steps=max(1, round(stage.budget.steps * share))))
        if stage.budget.steps
        else stage
    )


def _is_here(task: Task) -> bool:
    try:
        task.load("val")
    except DataError:
        return False
    return True
