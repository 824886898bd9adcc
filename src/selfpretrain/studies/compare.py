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
from ..training.build import build_network
from ..training.cost import COUNTED, Planner, fitting
from ..training.recipe import Recipe
from .base import Scale, Study
from .recipes.arms import MATCHED, SCRATCH, SPT, ArmRecipes, numbered, row_names, usual_arms
from .recipes.defaults import DEMO, DEMO_OBJECTIVE, DEMO_TASK, denoiser, small, toys, with_settings
from .recipes.lookup import matching

MATCHES = {"none": "", "params": "parameters", "flops": "FLOPs per step"}
"""Values of ``--match``, and their names in remarks."""
UNEQUAL = 1.1
"""Ratio of parameter counts above which the report says that the models differ in size."""
LEAST_STEPS = 50
"""Fewest steps to which a stage may be shortened."""
ONCE = "answers once per sequence, so that no position can be asked for; there is no SPT of it"


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

    @classmethod
    def at(cls, scale: Scale, seeds: int) -> "Compare":
        """Return the default of ``spt compare``: attention and S4D on paths, with a budget of minutes."""
        mixers = tuple(find("mixers", name)() for name in ("attention", "s4d"))
        return prepare(find("tasks", DEMO_TASK)(), mixers, DEMO_OBJECTIVE, scale, seeds, DEMO)

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells seed by seed, so that an unfinished study already has all arms."""
        for seed, (fold, task) in product(range(self.seeds), enumerate(self.task.parts())):
            for row, arms in zip(self.rows, self.arms, strict=True):
                recipes = usual_arms(task, arms, seed, planner)
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
        words = [f"{row}: {_words(arms)}" for row, arms in rows]
        scratch = [f"{row}: {ONCE}" for row, arms in rows if not arms.model.mixer.denoises]
        return [*words, *scratch, *self._folds(), *self._differing(), *self.remarks]

    def _folds(self) -> list[str]:
        if (number := len(self.task.parts())) == 1:
            return []
        return [
            f"{number} folds by group: every group is in the test split of one, and a score is that of the "
            "answers to all of them; validation scores and curves are of single folds"
        ]

    def _differing(self) -> list[str]:
        if any(": matched by width" in remark for remark in self.remarks):
            return []
        sizes = [self._size(arms, "params") for arms in self.arms]
        if max(sizes) <= UNEQUAL * min(sizes):
            return []
        found = ", ".join(f"{row} {size:,.0f}" for row, size in zip(self.rows, sizes, strict=True))
        return [f"the models differ in size: {found} parameters; --match params makes them alike"]

    def amended(self, settings: Mapping[str, Any]) -> "Compare":
        """Return the study with settings changed in all rows (``model.width``) or one (``s4d.model.width``).

        If a mixer occurs twice, its rows are numbered: ``"s4d 2.mixer.init=random"``.

        Raises:
            UnknownName: if there is no such setting.
        """
        study = self
        rows = numbered([name_of(arms.model.mixer) for arms in self.arms])
        for path, value in settings.items():
            text = value if isinstance(value, str) else json.dumps(value)
            row, _, rest = path.partition(".")
            mine = [row not in rows or row == name for name in rows]
            inner = rest if row in rows else path
            try:
                arms = tuple(
                    a.amended(inner, text) if m else a for a, m in zip(study.arms, mine, strict=True)
                )
            except UnknownName as error:
                raise UnknownName(f"there is no setting {path!r}{study.like(inner)}") from error
            study = replace(study, arms=arms)
        return study

    def settings(self) -> dict[str, Any]:
        """Return every setting by its path, with its value in the first row."""
        found = {f"task.{path}": value for path, value in settings_of(self.task)}
        arms = self.arms[0]
        found |= {f"model.{path}": v for path, v in settings_of(arms.model) if not path.startswith("mixer.")}
        found |= {f"mixer.{path}": value for path, value in settings_of(arms.model.mixer)}
        for stage in ("pretrain", "finetune", "scratch"):
            found |= {f"{stage}.{path}": value for path, value in settings_of(getattr(arms, stage))}
        return found

    def like(self, path: str) -> str:
        """Return the end of an error message that suggests settings similar to a path."""
        known = list(self.settings())
        same = [each for each in known if each.rpartition(".")[2] == path.rpartition(".")[2]]
        meant = f"; did you mean {' or '.join(same[:4])}?" if same else nearest(path, known)
        return f"{meant}; spt list settings {name_of(self.task)} shows all"

    def matched(self, by: str, planner: Planner = COUNTED) -> "Compare":
        """Return the study with the width of every architecture chosen to match the size of the first.

        Args:
            by: "params", "flops" (of one step from scratch), or "none".
            planner: counts or estimates the FLOPs.

        Raises:
            SpecError: if there is no such match.
        """
        if by not in MATCHES:
            raise SpecError(f"--match {by}: there is no such match{nearest(by, MATCHES)}")
        if by == "none":
            return self
        goal = self._size(self.arms[0], by, planner)
        arms = (self.arms[0], *(self._fitted(arms, by, goal, planner) for arms in self.arms[1:]))
        remarks = []
        for row, a in zip(self.rows, arms, strict=True):
            size = self._size(a, by, planner)
            beside = f"{size:,.0f} {MATCHES[by]}, {size / goal - 1:+.1%} beside {self.rows[0]}"
            remarks.append(f"{row}: matched by width {a.model.width}, {beside}")
        return replace(self, arms=arms, remarks=(*self.remarks, *remarks))

    def shortened(self, share: float, why: str) -> "Compare":
        """Return the study with every budget multiplied by ``share``, the same in all arms.

        Args:
            why: start of the remark in the report, and of the error.

        Raises:
            SpecError: if fewer than ``LEAST_STEPS`` would remain.
        """
        arms = tuple(a.shortened(share) for a in self.arms)
        steps = [stage.budget.steps for a in arms for stage in (a.pretrain, a.finetune, a.scratch)]
        if min((each for each in steps if each), default=LEAST_STEPS) < LEAST_STEPS:
            raise SpecError(
                f"{why}: {share:.1%} of the usual training would fit, which is too little to learn from; "
                "take fewer seeds or mixers, shorter sequences, or more time"
            )
        return replace(
            self, arms=arms, remarks=(*self.remarks, f"{why}: every arm trains {share:.0%} as long")
        )

    def _fitted(self, arms: ArmRecipes, by: str, goal: float, planner: Planner) -> ArmRecipes:
        def at(width: int) -> ArmRecipes:
            return arms.amended("model.width", str(width))

        widths = (width for width in range(2, arms.model.width, 2) if self._fits(at(width)))
        # Multiples of the smallest valid width are valid too: heads, and pairs within a head, divide them.
        step = next(widths, arms.model.width)
        return at(fitting(lambda width: self._size(at(width), by, planner), goal, step))

    def _fits(self, arms: ArmRecipes) -> bool:
        try:
            build_network(Recipe(self.task, arms.scratch_model, (arms.scratch,)))
        except Exception:  # third-party mixers may raise anything
            return False
        return True

    def _size(self, arms: ArmRecipes, by: str, planner: Planner = COUNTED) -> float:
        recipe = Recipe(self.task, arms.scratch_model, (arms.scratch,))
        if by == "flops":
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
    def at(cls, scale: Scale, seeds: int) -> "CompareOverTasks":
        """Return the comparison on the default task alone."""
        return cls((Compare.at(scale, seeds),))

    def cells(self, planner: Planner = COUNTED) -> Iterator[Cell]:
        """Yield the cells task by task."""
        for part in self.parts:
            yield from part.cells(planner)

    def notes(self, planner: Planner = COUNTED) -> list[str]:
        """Return the notes of each task, preceded by its name."""
        return [f"{name_of(part.task)}: {note}" for part in self.parts for note in part.notes(planner)]

    def amended(self, settings: Mapping[str, Any]) -> "CompareOverTasks":
        """Return the study with settings changed on every task, see ``Compare.amended``."""
        return CompareOverTasks(tuple(part.amended(settings) for part in self.parts))

    def shortened(self, share: float, why: str) -> "CompareOverTasks":
        """Return the study with every budget multiplied by ``share``, see ``Compare.shortened``."""
        return CompareOverTasks(tuple(part.shortened(share, why) for part in self.parts))

    def matched(self, by: str, planner: Planner = COUNTED) -> "CompareOverTasks":
        """Return the study with architectures of equal size on every task, see ``Compare.matched``."""
        return CompareOverTasks(tuple(part.matched(by, planner) for part in self.parts))


def prepare(
    task: Task,
    mixers: tuple[Mixer, ...],
    objective: str,
    scale: Scale,
    seeds: int,
    settings: Sequence[str] = (),
    planner: Planner = COUNTED,
) -> Compare:
    """Return the comparison of some mixers on a task, with the recipes of a scale and changed settings."""
    recipe = matching if scale == "paper" else small
    task = planner.task(task.tiny() if scale == "smoke" else task)
    arms = tuple(with_settings(recipe(task, mixer, denoiser(task, objective)), settings) for mixer in mixers)
    return Compare(task, tuple(map(toys, arms)) if scale == "smoke" else arms, seeds)


def _words(arms: ArmRecipes) -> str:
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
