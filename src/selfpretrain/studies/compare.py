"""Does self-pretraining beat training from scratch, architecture by architecture?

Three arms per architecture and seed: from scratch with the budget of finetuning, from scratch with the
compute of pretraining and finetuning together, and self-pretraining (SPT) followed by finetuning. All
arms of a seed share data, order of examples, fresh weights of the head, and the model.

Source: Amos et al. (2024), Tables 1 and 8. Cost: minutes on two cores at the small scale.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from ..config import Count, settings_of, spec
from ..errors import SpecError, UnknownName, join_names, nearest
from ..mixers.base import Mixer
from ..registry import find, name_of
from ..runner.experiment import Cell
from ..runner.tuning import SearchSpace
from ..tasks.base import Task
from ..training.cost import COUNTED, Planner, fitting
from ..training.model import count_parameters
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
from .recipes.arms import MATCHED, SCRATCH, SPT, STAGES, ArmRecipes, distinct_names, number_duplicates
from .recipes.defaults import (
    DEMO,
    DEMO_OBJECTIVE,
    DEMO_TASK,
    denoising_objective,
    settings_beside,
    small_arms,
    smoke_arms,
    with_settings,
)
from .recipes.reported import match_recipe

MATCHES = {"none": "", "params": "parameters", "flops": "FLOPs per step"}
"""Values of ``--match``, and their names in remarks."""
MAX_SIZE_RATIO = 1.1
"""Ratio of parameter counts above which the report says that the models differ in size."""
MIN_STEPS = 50
"""Minimum number of steps to which a stage may be shortened."""


@spec
class Comparison(Study):
    """Comparison of the chosen arms for every task, architecture and seed, in one table."""

    contrasts = ((SPT, MATCHED), (SPT, SCRATCH))
    space = SearchSpace(lr=(1e-3, 2e-3, 4e-3), batch=(), weight_decay=(0.0, 0.1), dropout=(0.0, 0.1))
    lasting = False  # every choice of task, mixers and settings is another study

    tasks: tuple[Task, ...]
    architectures: tuple[tuple[ArmRecipes, ...], ...]  # for every task: network and stages of each row
    seeds: Count = 3
    remarks: tuple[str, ...] = ()
    columns: tuple[Arm, ...] = resolve_arms(USUAL)  # what is compared, in the order of the table

    @classmethod
    def at_scale(cls, scale: Scale, seeds: int) -> "Comparison":
        """Return the default of the command: attention and LRU on paths, with a budget of minutes."""
        mixers = tuple(find("mixers", name)() for name in ("attention", "lru"))
        task = find("tasks", DEMO_TASK)()
        return build_comparison((task,), mixers, DEMO_OBJECTIVE, scale, seeds, usual=DEMO)

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells task by task and seed by seed, so that an unfinished study already has all arms."""
        for name, task, architectures in zip(self.names, self.tasks, self.architectures, strict=True):
            label = name if name != name_of(task) else ""
            for seed, (fold, part) in product(range(self.seeds), enumerate(task.parts())):
                for row, arms in zip(self.rows, architectures, strict=True):
                    recipes = recipes_by_column(part, arms, seed, planner, self.columns)
                    for column, recipe in recipes.items():
                        yield Cell(row, column, recipe, label=label, fold=fold)

    def check_tuning(self) -> None:
        """Check that tuning replaces nothing that defines an arm.

        Raises:
            SpecError: naming such an arm.
        """
        for arm in self.columns:
            if tried := [name for name in arm.defined_by if getattr(self.space, name)]:
                said = f"--tune tries {join_names(tried)}, which make the arm {name_of(arm)} what it is"
                raise SpecError(f"{said}; leave one of them out")

    @property
    def names(self) -> list[str]:
        """Return the names of the tasks, with the settings that differ if a task occurs twice."""
        return distinct_names(self.tasks)

    @property
    def rows(self) -> list[str]:
        """Return the names of the rows: the mixers, with the settings that differ if a mixer occurs twice."""
        starts = [arms.model.init for arms in self.architectures[0]]
        details = ["" if init == "standard" else f", every parameter {init}" for init in starts]
        return distinct_names([arms.model.mixer for arms in self.architectures[0]], details)

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return a description of each row's network and stages, and remarks on folds and model sizes."""
        found = []
        for name, task, architectures in zip(self.names, self.tasks, self.architectures, strict=True):
            rows = list(zip(self.rows, architectures, strict=True))
            reasons = [f"{row}: {arm.refusal(task, arms)}" for row, arms in rows for arm in self.columns]
            notes = [f"{row}: {_describe(arms)}" for row, arms in rows]
            notes += dict.fromkeys(reason for reason in reasons if not reason.endswith(": "))
            notes += describe(self.columns)
            if (folds := len(task.parts())) > 1:
                notes.append(
                    f"{folds} folds by group: every group is in the test split of one, and a score is that "
                    "of the answers to all of them; validation scores and curves are of single folds"
                )
            if not any(": matched by width" in remark for remark in self.remarks):
                sizes = [_size(task, arms, "params") for arms in architectures]
                if max(sizes) > MAX_SIZE_RATIO * min(sizes):
                    each = ", ".join(f"{row} {size:,.0f}" for row, size in zip(self.rows, sizes, strict=True))
                    notes.append(
                        f"the models differ in size: {each} parameters; --match params makes them alike"
                    )
            found += [note if len(self.tasks) == 1 else f"{name}: {note}" for note in notes]
        return [*found, *self.remarks]

    def chosen_contrasts(self) -> tuple[tuple[str, str], ...]:
        """Return the contrasts of the chosen arms."""
        return contrasts_of(self.columns)

    def with_settings(self, settings: Mapping[str, Any]) -> "Comparison":
        """Return the study with settings changed in all rows (``model.width``) or one (``s4d.model.width``).

        If a mixer occurs twice, its rows are numbered: ``"s4d 2.mixer.init=random"``.

        Raises:
            UnknownName: if there is no such setting.
        """
        study = self
        rows = self._numbered_mixers()
        # A limit in hours is kept beside a budget in another unit.
        for path, value in sorted(settings.items(), key=lambda each: each[0].endswith("budget.hours")):
            text = value if isinstance(value, str) else json.dumps(value)
            row, _, rest = path.partition(".")
            inner = rest if row in rows else path

            def change(number: int, arms: ArmRecipes) -> ArmRecipes:
                here = row not in rows or row == rows[number]  # noqa: B023  # called in this round
                return arms.with_setting(inner, text) if here else arms  # noqa: B023

            try:
                study = study._with_architectures(change)
            except UnknownName as error:
                raise UnknownName(f"there is no setting {path!r}{study.suggest_settings(path)}") from error
        asks_otherwise = any("pretrain.objective" in path for path in settings)
        if asks_otherwise and not any(path.endswith("model.causal") for path in settings):
            return study._with_architectures(lambda number, arms: arms.with_direction())
        return study

    def with_augmentation(self) -> "Comparison":
        """Return the study whose arms all train on inputs that are changed in ways that keep their labels.

        Raises:
            SpecError: if a task declares no such changes.
        """
        for task in self.tasks:
            if refusal := augmentation_refusal(task):
                raise SpecError(f"task.augment: {refusal}")
        pairs = zip(self.tasks, self.architectures, strict=True)
        changed = (
            tuple(arms.with_augmentation(augmentation_of(task)) for arms in architectures)
            for task, architectures in pairs
        )
        return replace(self, architectures=tuple(changed))

    def _numbered_mixers(self) -> list[str]:
        """Return the names by which settings choose a row."""
        return number_duplicates([name_of(arms.model.mixer) for arms in self.architectures[0]])

    def settings(self, row: int = 0) -> dict[str, Any]:
        """Return every setting by its path, with its value in a row."""
        task = self.tasks[0]
        arms = self.architectures[0][row]
        settings = {f"task.{path}": value for path, value in settings_of(task)}
        if not augmentation_refusal(task):
            settings["task.augment"] = False
        model = [(path, value) for path, value in settings_of(arms.model) if not path.startswith("mixer.")]
        settings |= {f"model.{path}": value for path, value in model}
        settings |= {f"mixer.{path}": value for path, value in settings_of(arms.model.mixer)}
        for stage in STAGES:
            settings |= {f"{stage}.{path}": value for path, value in settings_of(getattr(arms, stage))}
        return settings

    def suggest_settings(self, path: str) -> str:
        """Return the end of an error message that suggests settings similar to a path.

        A setting that not all rows have is suggested with the row, as it must be given.
        """
        rows = {name: self.settings(number) for number, name in enumerate(self._numbered_mixers())}
        row = path.partition(".")[0]
        if row in rows:
            known = [f"{row}.{each}" for each in rows[row]]
        else:
            known = [each for each in self.settings() if all(each in settings for settings in rows.values())]
            known += [f"{name}.{each}" for name in rows for each in rows[name] if each not in known]
        same = [each for each in known if each.rpartition(".")[2] == path.rpartition(".")[2]]
        suggestion = f"; did you mean {' or '.join(same[:4])}?" if same else nearest(path, known)
        lists = f"selfpretrain list settings {name_of(self.tasks[0])} shows all, list mixers NAME more"
        return f"{suggestion}; {lists}"

    def match_size(self, quantity: str, planner: Planner = COUNTED) -> "Comparison":
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
        remarks = []
        found = []
        for name, task, (first, *others) in zip(self.names, self.tasks, self.architectures, strict=True):
            goal = _size(task, first, quantity, planner)
            fitted = (first, *(_with_size(task, arms, quantity, goal, planner) for arms in others))
            found.append(fitted)
            prefix = f"{name}: " * (len(self.tasks) > 1)
            for row, arms in zip(self.rows, fitted, strict=True):
                size = _size(task, arms, quantity, planner)
                remarks.append(
                    f"{prefix}{row}: matched by width {arms.model.width}, {size:,.0f} {MATCHES[quantity]}, "
                    f"{size / goal - 1:+.1%} beside {self.rows[0]}"
                )
        return replace(self, architectures=tuple(found), remarks=(*self.remarks, *remarks))

    def scale_budget(self, share: float, reason: str) -> "Comparison":
        """Return the study with every budget multiplied by ``share``, the same in all arms.

        Args:
            reason: start of the remark in the report, and of the error.

        Raises:
            SpecError: if fewer than ``MIN_STEPS`` would remain.
        """
        study = self._with_architectures(lambda number, arms: arms.scale_budget(share))
        every = [arms for architectures in study.architectures for arms in architectures]
        steps = [getattr(arms, stage).budget.steps for arms in every for stage in STAGES]
        if min((each for each in steps if each), default=MIN_STEPS) < MIN_STEPS:
            raise SpecError(
                f"{reason}: {share:.1%} of the usual training would fit, which is too little to learn from; "
                "take fewer seeds or mixers, shorter sequences, or more time"
            )
        return replace(study, remarks=(*self.remarks, f"{reason}: every arm trains {share:.0%} as long"))

    def _with_architectures(self, change: Callable[[int, ArmRecipes], ArmRecipes]) -> "Comparison":
        """Return the study with every architecture changed, by the number of its row."""
        changed = (
            tuple(change(number, arms) for number, arms in enumerate(architectures))
            for architectures in self.architectures
        )
        return replace(self, architectures=tuple(changed))


def build_comparison(
    tasks: Sequence[Task],
    mixers: tuple[Mixer, ...],
    objective: str | None,
    scale: Scale,
    seeds: int,
    *,
    usual: Sequence[str] = (),
    planner: Planner = COUNTED,
    columns: Sequence[str | Arm] = USUAL,
) -> Comparison:
    """Return the comparison of some mixers on some tasks, with the recipes of a scale.

    Args:
        objective: None: the one that suits each task.
        usual: settings that differ from those of the scale.
        columns: the arms to compare, by name or as specs.
    """
    build = match_recipe if scale == "paper" else small_arms
    # Tiny tasks may be equal.
    small = dict.fromkeys(task.tiny() if scale == "smoke" else task for task in tasks)
    planned = tuple(map(planner.task, small))
    found = []
    for task in planned:
        denoising = denoising_objective(task, objective or task.denoising)
        arms = [
            with_settings(build(task, mixer, denoising), settings_beside(mixer, usual)) for mixer in mixers
        ]
        found.append(tuple(map(smoke_arms, arms) if scale == "smoke" else arms))
    return Comparison(planned, tuple(found), seeds, columns=resolve_arms(columns))


def _with_size(task: Task, arms: ArmRecipes, quantity: str, goal: float, planner: Planner) -> ArmRecipes:
    """Return an architecture with the width at which its size comes nearest to a goal."""

    def with_width(width: int) -> ArmRecipes:
        return arms.with_setting("model.width", str(width))

    def fits(width: int) -> bool:
        try:
            _size(task, with_width(width), "params")
        except Exception:  # third-party mixers may raise anything
            return False
        return True

    # Multiples of the smallest valid width are valid too: heads, and pairs within a head, divide them.
    step = next((width for width in range(2, arms.model.width, 2) if fits(width)), arms.model.width)
    return with_width(fitting(lambda width: _size(task, with_width(width), quantity, planner), goal, step))


def _size(task: Task, arms: ArmRecipes, quantity: str, planner: Planner = COUNTED) -> float:
    """Return the parameters, or the FLOPs of a step, of an architecture from scratch."""
    recipe = Recipe(task, arms.scratch_model, (arms.scratch,))
    if quantity == "flops":
        return planner.plan(recipe).flops_per_step
    return float(count_parameters(build_network(recipe)))


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


study = Comparison
