"""Base class of arms, and the recipes of several arms on one task."""

import abc
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from ...data.dataset import Augmentation
from ...errors import SpecError
from ...mixers.base import Mixer
from ...registry import first_line, name_of, resolve
from ...tasks.base import Task
from ...training.cost import COUNTED, Planner
from ...training.optim import NO_MATRICES, hidden_matrices
from ...training.recipe import Recipe, build_on_meta
from ..recipes.arms import MATCHED, SPT, ArmRecipes, budget_of, with_muon

USUAL = ("scratch", "matched", "spt")
"""Names of the arms that are compared unless others are chosen."""
NO_SPT = "answers once per sequence, not at its positions, so that there is no SPT of it"
"""Why a mixer without outputs at positions has no arm that pretrains it."""


class Arm(abc.ABC):
    """One way of training an architecture on a task, derived from the recipes of a comparison.

    Every arm trains on the same sequences and labels, and is scored on the test split once. ``compute`` says
    which FLOPs it spends: those of finetuning, or "matched": of pretraining and finetuning together.
    """

    column: ClassVar[str]  # its name in tables
    compute: ClassVar[Literal["matched", "finetuning"]] = "matched"
    against: ClassVar[tuple[str, ...]] = (MATCHED, SPT)  # columns whose scores are subtracted from its own
    pretrains: ClassVar[bool] = False  # whether the mixer must be able to denoise
    mixers: ClassVar[tuple[type[Mixer], ...]] = ()  # from scratch, if it is an arm of some mixers only
    defined_by: ClassVar[tuple[str, ...]] = ()  # hyperparameters that tuning must not replace
    other_mixers: ClassVar[str] = ""  # why another mixer, whose name is {}, has no such arm

    @abc.abstractmethod
    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return the recipe of the arm with seed 0.

        Args:
            arms: network and stages of the comparison.
            planner: counts or estimates the FLOPs of budgets that must be matched.
        """

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why the arm does not exist for a task or an architecture; "" if it does."""
        mixer = arms.scratch_model.mixer
        if self.mixers and not isinstance(mixer, self.mixers):
            return self.other_mixers.format(name_of(mixer))
        return NO_SPT if self.pretrains and not arms.model.mixer.denoises else ""


class MuonStages(Arm):
    """SPT with Muon in some of its stages, for the FLOPs that each has with AdamW."""

    pretrains = True
    before: ClassVar[bool] = True  # whether Muon pretrains
    after: ClassVar[bool] = True  # whether Muon finetunes

    def recipe(self, task: Task, arms: ArmRecipes, planner: Planner = COUNTED) -> Recipe:
        """Return SPT whose stages with Muon have fewer steps, as a step of Muon costs more."""
        stages = (arms.pretrain, arms.finetune)
        budgets = [budget_of(Recipe(task, arms.model, (stage,)), planner) for stage in stages]
        muon = [with_muon(stage, budget) for stage, budget in zip(stages, budgets, strict=True)]
        chosen = zip((self.before, self.after), muon, stages, strict=True)
        return Recipe(task, arms.model, tuple(new if wanted else old for wanted, new, old in chosen))

    def refusal(self, task: Task, arms: ArmRecipes) -> str:
        """Return why the mixer cannot be pretrained, or not with Muon; "" if it can."""
        return super().refusal(task, arms) or muon_refusal(task, arms)


def muon_refusal(task: Task, arms: ArmRecipes) -> str:
    """Return why Muon has nothing to update in a network; "" if it has."""
    network = build_on_meta(Recipe(task, arms.scratch_model, (arms.scratch,)))
    return "" if hidden_matrices(network, arms.scratch_model.mixer.slow()) else NO_MATRICES


def augmentation_of(task: Task) -> Augmentation:
    """Return the augmentation that a task declares; the arm is refused otherwise."""
    augmentation = task.augmentation
    assert augmentation is not None, "refused otherwise"
    return augmentation


def augmentation_refusal(task: Task) -> str:
    """Return why a task cannot be augmented: it declares no augmentation; "" if it can."""
    return "" if task.augmentation else f"{name_of(task)} declares no changes that keep its labels"


def resolve_arms(chosen: Sequence[str | Arm]) -> tuple[Arm, ...]:
    """Return arms by name, and other arms unchanged.

    Raises:
        SpecError: if a name is unknown, a column occurs twice, or no two of the arms are compared.
    """
    arms = tuple[Arm, ...](resolve("arms", each) for each in chosen)
    columns = [arm.column for arm in arms]
    repeated = [column for column in columns if columns.count(column) > 1]
    if repeated:
        raise SpecError(f"arm {repeated[0]!r} is given twice; name every arm once")
    if not contrasts_of(arms):
        names = ", ".join(name_of(arm) for arm in arms)
        raise SpecError(f"no two of these arms are compared with each other: {names}; matched and spt are")
    return arms


def contrasts_of(arms: Sequence[Arm]) -> tuple[tuple[str, str], ...]:
    """Return the (treatment, control) columns of the differences to report, those of SPT first."""
    columns = {arm.column for arm in arms}
    treatments = sorted(arms, key=lambda arm: arm.column != SPT)
    return tuple((arm.column, control) for arm in treatments for control in arm.against if control in columns)


def describe(arms: Sequence[Arm]) -> list[str]:
    """Return a sentence on every arm that is not one of the usual ones."""
    return [f"{arm.column}: {first_line(arm)}" for arm in arms if name_of(arm) not in USUAL]


def recipes_by_column(
    task: Task,
    arms: ArmRecipes,
    seed: int = 0,
    planner: Planner = COUNTED,
    chosen: Sequence[str | Arm] = USUAL,
) -> dict[str, Recipe]:
    """Return the recipes of some arms by column, without those that do not exist for the architecture.

    Args:
        planner: see ``Arm.recipe``.
        chosen: names on the shelf, or arms.

    Raises:
        SpecError: if an arm of other code returns something else.
    """
    found: dict[str, Recipe] = {}
    for arm in (resolve("arms", each) for each in chosen):
        if not arm.refusal(task, arms):
            recipe = arm.recipe(task, arms, planner)
            if not isinstance(recipe, Recipe):
                raise SpecError(f"arm {name_of(arm)}: recipe returns {recipe!r}; return a Recipe")
            found[arm.column] = replace(recipe, seed=seed)
    return found
