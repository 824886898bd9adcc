"""Does self-pretraining beat training from scratch, architecture by architecture?

Three arms per architecture and seed: from scratch with the budget of finetuning, from scratch with the
compute of pretraining and finetuning together, and self-pretraining (SPT) followed by finetuning. All
arms of a seed share data, order of examples, fresh weights of the head, and the model.

Source: Amos et al. (2024), Tables 1 and 8. Cost: minutes on two cores at the small scale.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from ..config import Count, settings_of, spec
from ..errors import SpecError, UnknownName, nearest
from ..mixers.base import Mixer
from ..registry import find, name_of
from ..runner.experiment import Cell
from ..runner.tuning import SearchSpace
from ..tasks.base import Task
from ..training.cost import COUNTED, Planner, fitting
from ..training.recipe import Recipe, build_network
from .arms.base import (
    USUAL,
    Arm,
    augmentation_of,
    augmentation_refusal,
    contrasts_of,
    describe,
    recipes_by_column,
    resolve_arms,
)
from .base import Scale, Study
from .recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes, number_duplicates, row_names
from .recipes.defaults import (
    DEMO,
    DEMO_OBJECTIVE,
    DEMO_TASK,
    denoising_objective,
    small_arms,
    smoke_arms,
    with_settings,
)
from .recipes.printed import match_recipe

MATCHES = {"none": "", "params": "parameters", "flops": "FLOPs per step"}
"""Values of ``--match``, and their names in remarks."""
MAX_SIZE_RATIO = 1.1
"""Ratio of parameter counts above which the report says that the models differ in size."""
MIN_STEPS = 50
"""Fewest steps to which a stage may be shortened."""


@spec
class Compare(Study):
    """Comparison of scratch, compute-matched scratch and SPT for every architecture and seed."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH))
    space = SearchSpace(lr=(1e-3, 2e-3, 4e-3), batch=(), weight_decay=(0.0, 0.1), dropout=(0.0, 0.1))
    lasting = False  # every choice of task, mixers and settings is another study

    task: Task
    arms: tuple[ArmRecipes, ...]
    seeds: Count = 3
    remarks: tuple[str, ...] = ()
    columns: tuple[Arm, ...] = resolve_arms(USUAL)  # what is compared, in the order of the table

    @classmethod
    def at_scale(cls, scale: Scale, seeds: int) -> "Compare":
        """Return the default of ``spt compare``: attention and S4D on paths, with a budget of minutes."""
        mixers = tuple(find("mixers", name)() for name in ("attention", "s4d"))
        return build_comparison(find("tasks", DEMO_TASK)(), mixers, DEMO_OBJECTIVE, scale, seeds, DEMO)

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells seed by seed, so that an unfinished study already has all arms."""
        for seed, (fold, task) in product(range(self.seeds), enumerate(self.task.parts())):
            for row, arms in zip(self.rows, self.arms, strict=True):
                recipes = recipes_by_column(task, arms, seed, planner, self.columns)
                yield from (Cell(row, column, recipe, fold=fold) for column, recipe in recipes.items())

    @property
    def rows(self) -> list[str]:
        """Names of the rows: the mixers, with the settings that differ if a mixer occurs twice."""
        starts = [arms.model.init for arms in self.arms]
        details = ["" if init == "standard" else f", every parameter {init}" for init in starts]
        return row_names([arms.model.mixer for arms in self.arms], details)

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return a description of each row's network and stages, and remarks on folds and model sizes."""
        rows = list(zip(self.rows, self.arms, strict=True))
        words = [f"{row}: {_describe(arms)}" for row, arms in rows]
        reasons = [f"{row}: {arm.refusal(self.task, arms)}" for row, arms in rows for arm in self.columns]
        absent = dict.fromkeys(reason for reason in reasons if not reason.endswith(": "))
        return [
            *words,
            *absent,
            *describe(self.columns),
            *self._fold_notes(),
            *self._size_notes(),
            *self.remarks,
        ]

    def chosen_contrasts(self) -> tuple[tuple[str, str], ...]:
        """Return the contrasts of the chosen arms."""
        return contrasts_of(self.columns)

    def _fold_notes(self) -> list[str]:
        if (number := len(self.task.parts())) == 1:
            return []
        return [
            f"{number} folds by group: every group is in the test split of one, and a score is that of the "
            "answers to all of them; validation scores and curves are of single folds"
        ]

    def _size_notes(self) -> list[str]:
        if any(": matched by width" in remark for remark in self.remarks):
            return []
        sizes = [self._size(arms, "params") for arms in self.arms]
        if max(sizes) <= MAX_SIZE_RATIO * min(sizes):
            return []
        sizes_by_row = ", ".join(f"{row} {size:,.0f}" for row, size in zip(self.rows, sizes, strict=True))
        return [f"the models differ in size: {sizes_by_row} parameters; --match params makes them alike"]

    def with_settings(self, settings: Mapping[str, Any]) -> "Compare":
        """Return the study with settings changed in all rows (``model.width``) or one (``s4d.model.width``).

        If a mixer occurs twice, its rows are numbered: ``"s4d 2.mixer.init=random"``.

        Raises:
            UnknownName: if there is no such setting.
        """
        study = self
        rows = number_duplicates([name_of(arms.model.mixer) for arms in self.arms])
        for path, value in settings.items():
            text = value if isinstance(value, str) else json.dumps(value)
            row, _, rest = path.partition(".")
            applies = [row not in rows or row == name for name in rows]
            inner = rest if row in rows else path
            try:
                pairs = zip(study.arms, applies, strict=True)
                changed = tuple(arms.with_setting(inner, text) if here else arms for arms, here in pairs)
            except UnknownName as error:
                raise UnknownName(f"there is no setting {path!r}{study.suggest_settings(inner)}") from error
            study = replace(study, arms=changed)
        return study

    def with_augmentation(self) -> "Compare":
        """Return the study whose arms all train on inputs that are changed in ways that keep their labels.

        Raises:
            SpecError: if the task declares no such changes.
        """
        if refusal := augmentation_refusal(self.task):
            raise SpecError(f"task.augment: {refusal}")
        augmentation = augmentation_of(self.task)
        return replace(self, arms=tuple(arms.with_augmentation(augmentation) for arms in self.arms))

    def settings(self) -> dict[str, Any]:
        """Return every setting by its path, with its value in the first row."""
        settings = {f"task.{path}": value for path, value in settings_of(self.task)}
        if not augmentation_refusal(self.task):
            settings["task.augment"] = False
        arms = self.arms[0]
        model = [(path, value) for path, value in settings_of(arms.model) if not path.startswith("mixer.")]
        settings |= {f"model.{path}": value for path, value in model}
        settings |= {f"mixer.{path}": value for path, value in settings_of(arms.model.mixer)}
        for stage in ("pretrain", "finetune", "scratch"):
            settings |= {f"{stage}.{path}": value for path, value in settings_of(getattr(arms, stage))}
        return settings

    def suggest_settings(self, path: str) -> str:
        """Return the end of an error message that suggests settings similar to a path."""
        known = list(self.settings())
        same = [each for each in known if each.rpartition(".")[2] == path.rpartition(".")[2]]
        suggestion = f"; did you mean {' or '.join(same[:4])}?" if same else nearest(path, known)
        return f"{suggestion}; spt list settings {name_of(self.task)} shows all"

    def match_size(self, quantity: str, planner: Planner = COUNTED) -> "Compare":
        """Return the study with the width of every architecture chosen to match the size of the first.

        Args:
            quantity: "params", "flops" (of one step from scratch), or "none".
            planner: counts or estimates the FLOPs.

        Raises:
            SpecError: if there is no such match.
        """
        if quantity not in MATCHES:
            raise SpecError(f"--match {quantity}: there is no such match{nearest(quantity, MATCHES)}")
        if quantity == "none":
            return self
        target_size = self._size(self.arms[0], quantity, planner)
        arms = (
            self.arms[0],
            *(self._fit_width(arms, quantity, target_size, planner) for arms in self.arms[1:]),
        )
        remarks = []
        for row, a in zip(self.rows, arms, strict=True):
            size = self._size(a, quantity, planner)
            difference = f"{size / target_size - 1:+.1%} beside {self.rows[0]}"
            comparison = f"{size:,.0f} {MATCHES[quantity]}, {difference}"
            remarks.append(f"{row}: matched by width {a.model.width}, {comparison}")
        return replace(self, arms=arms, remarks=(*self.remarks, *remarks))

    def scale_budget(self, share: float, reason: str) -> "Compare":
        """Return the study with every budget multiplied by ``share``, the same in all arms.

        Args:
            reason: start of the remark in the report, and of the error.

        Raises:
            SpecError: if fewer than ``MIN_STEPS`` would remain.
        """
        arms = tuple(a.scale_budget(share) for a in self.arms)
        steps = [stage.budget.steps for a in arms for stage in (a.pretrain, a.finetune, a.scratch)]
        if min((each for each in steps if each), default=MIN_STEPS) < MIN_STEPS:
            raise SpecError(
                f"{reason}: {share:.1%} of the usual training would fit, which is too little to learn from; "
                "take fewer seeds or mixers, shorter sequences, or more time"
            )
        return replace(
            self, arms=arms, remarks=(*self.remarks, f"{reason}: every arm trains {share:.0%} as long")
        )

    def _fit_width(self, arms: ArmRecipes, quantity: str, target_size: float, planner: Planner) -> ArmRecipes:
        def with_width(width: int) -> ArmRecipes:
            return arms.with_setting("model.width", str(width))

        widths = (width for width in range(2, arms.model.width, 2) if self._fits(with_width(width)))
        # Multiples of the smallest valid width are valid too: heads, and pairs within a head, divide them.
        step = next(widths, arms.model.width)
        width = fitting(lambda width: self._size(with_width(width), quantity, planner), target_size, step)
        return with_width(width)

    def _fits(self, arms: ArmRecipes) -> bool:
        try:
            build_network(Recipe(self.task, arms.scratch_model, (arms.scratch,)))
        except Exception:  # third-party mixers may raise anything
            return False
        return True

    def _size(self, arms: ArmRecipes, quantity: str, planner: Planner = COUNTED) -> float:
        recipe = Recipe(self.task, arms.scratch_model, (arms.scratch,))
        if quantity == "flops":
            return planner.plan(recipe).flops_per_step
        return float(sum(p.numel() for p in build_network(recipe).parameters()))


@spec
class CompareOverTasks(Study):
    """The same comparison on several tasks, in one table with averages."""

    contrasts = Compare.contrasts
    space = Compare.space
    lasting = False

    parts: tuple[Compare, ...]  # one per task

    @classmethod
    def at_scale(cls, scale: Scale, seeds: int) -> "CompareOverTasks":
        """Return the comparison on the default task alone."""
        return cls((Compare.at_scale(scale, seeds),))

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells task by task."""
        for part in self.parts:
            yield from part.cells(planner)

    def chosen_contrasts(self) -> tuple[tuple[str, str], ...]:
        """Return the contrasts of the chosen arms, the same for every task."""
        return self.parts[0].chosen_contrasts()

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return the notes of each task, preceded by its name."""
        return [f"{name_of(part.task)}: {note}" for part in self.parts for note in part.notes(planner)]

    def with_settings(self, settings: Mapping[str, Any]) -> "CompareOverTasks":
        """Return the study with settings changed on every task, see ``Compare.with_settings``."""
        return CompareOverTasks(tuple(part.with_settings(settings) for part in self.parts))

    def scale_budget(self, share: float, reason: str) -> "CompareOverTasks":
        """Return the study with every budget multiplied by ``share``, see ``Compare.scale_budget``."""
        return CompareOverTasks(tuple(part.scale_budget(share, reason) for part in self.parts))

    def match_size(self, quantity: str, planner: Planner = COUNTED) -> "CompareOverTasks":
        """Return the study with architectures of equal size on every task, see ``Compare.match_size``."""
        return CompareOverTasks(tuple(part.match_size(quantity, planner) for part in self.parts))


def build_comparison(
    task: Task,
    mixers: tuple[Mixer, ...],
    objective: str,
    scale: Scale,
    seeds: int,
    settings: Sequence[str] = (),
    planner: Planner = COUNTED,
    columns: Sequence[str | Arm] = USUAL,
) -> Compare:
    """Return the comparison of some mixers on a task, with the recipes of a scale and changed settings.

    Args:
        columns: the arms to compare, by name or as specs.
    """
    build = match_recipe if scale == "paper" else small_arms
    task = planner.task(task.tiny() if scale == "smoke" else task)
    every = [build(task, mixer, denoising_objective(task, objective)) for mixer in mixers]
    arms = tuple(with_settings(each, settings) for each in every)
    arms = tuple(map(smoke_arms, arms)) if scale == "smoke" else arms
    return Compare(task, arms, seeds, columns=resolve_arms(columns))


def _describe(arms: ArmRecipes) -> str:
    model = arms.model
    shape = (
        f"{model.depth} blocks of width {model.width}, {model.encoding.replace('none', 'no')} positions, "
        f"{model.pooling} pooling"
    )
    stages = {"pretraining": arms.pretrain, "finetuning": arms.finetune, "from scratch": arms.scratch}
    rates = ", ".join(
        f"{n} {s.optim.lr:g} (weight decay {s.optim.weight_decay:g})" for n, s in stages.items()
    )
    dropout = f"dropout {model.dropout:g}, from scratch {arms.scratch_model.dropout:g}"
    return f"{shape}; {dropout}; learning rates: {rates}"


study = Compare
