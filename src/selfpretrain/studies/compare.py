"""Does self-pretraining beat training from scratch, architecture by architecture?

Three arms per architecture and seed: from scratch with the budget of finetuning, from scratch with the
compute of pretraining and finetuning together, and self-pretraining (SPT) followed by finetuning. All
arms of a seed share data, order of examples, fresh weights of the head, and the model.

Source: Amos et al. (2024), Tables 1 and 8. Cost: minutes on two cores at the small scale.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ..errors import SpecError
from ..mixers.attention import Attention
from ..mixers.base import Mixer
from ..mixers.s4d import S4D
from ..registry import find, name_of
from ..runner.plan import Cell, jobs
from ..runner.run import perform
from ..runner.workspace import Machine
from ..spec import Count, nearest, spec
from ..tasks.base import Task
from ..training import cost
from ..training.build import build_network
from ..training.recipe import Recipe
from ..training.stage_folder import Folder
from .base import Scale, Study
from .recipes.arms import SCRATCH, SPT, TIED, Arms, numbered, row_names, usual_arms
from .recipes.defaults import GRID, Grid, denoiser, small, toys, with_settings
from .recipes.lookup import matching

TUNING_SEED = 1_000
MATCHES = {"none": "", "params": "parameters", "flops": "FLOPs per step"}
"""What architectures can be made to have in common, and in words."""
ONCE = "answers once per sequence, so that no position can be asked for; there is no SPT of it"


@spec
class Compare(Study):
    """Scratch, compute-tied scratch and SPT for every architecture and seed."""

    contrasts = ((SPT, TIED), (SPT, SCRATCH))

    task: Task
    arms: tuple[Arms, ...]
    seeds: Count = 3
    first: Annotated[int, Field(ge=0)] = 0  # seeds first .. first + seeds - 1
    remarks: tuple[str, ...] = ()

    @classmethod
    def at(cls, scale: Scale, seeds: int) -> "Compare":
        """Attention and S4D on the embedded default task."""
        return prepare(find("tasks", "stdlib")(), (Attention(), S4D()), "causal", scale, seeds)

    def cells(self) -> Iterator[Cell]:
        """Seed by seed, so that an unfinished study already shows all arms."""
        for seed in range(self.first, self.first + self.seeds):
            for row, arms in zip(self.rows, self.arms, strict=True):
                recipes = usual_arms(self.task, arms, seed)
                yield from (Cell(row, column, recipe) for column, recipe in recipes.items())

    @property
    def rows(self) -> list[str]:
        """Names of the architectures: their mixers, with what sets them apart where a mixer comes twice."""
        starts = [arms.model.init for arms in self.arms]
        details = ["" if init == "standard" else f", every parameter {init}" for init in starts]
        return row_names([arms.model.mixer for arms in self.arms], details)

    def notes(self) -> list[str]:
        """How the arms were trained, in words."""
        rows = list(zip(self.rows, self.arms, strict=True))
        words = [f"{row}: {_words(arms)}" for row, arms in rows]
        scratch = [f"{row}: {ONCE}" for row, arms in rows if not arms.model.mixer.denoises]
        return [*words, *scratch, *self.remarks]

    def amended(self, changes: list[tuple[str, str]]) -> "Compare":
        """The same study with settings changed: ``pretrain.optim.lr``, or ``s4d.pretrain.optim.lr`` for one.

        Of a mixer that comes twice, the second is ``s4d 2``: ``"s4d 2.mixer.init=random"``.

        Raises:
            UnknownName: if there is no such setting.
        """
        study = self
        rows = numbered([name_of(arms.model.mixer) for arms in self.arms])
        for path, text in changes:
            row, _, rest = path.partition(".")
            mine = [row not in rows or row == name for name in rows]
            inner = rest if row in rows else path
            arms = tuple(a.amended(inner, text) if m else a for a, m in zip(study.arms, mine, strict=True))
            study = replace(study, arms=arms)
        return study

    def matched(self, by: str) -> "Compare":
        """The same study with every architecture as wide as it takes to be as large as the first one.

        Args:
            by: "params", "flops" (of a step from scratch), or "none".

        Raises:
            SpecError: if there is no such match.
        """
        if by not in MATCHES:
            raise SpecError(f"--match {by}: there is no such match{nearest(by, MATCHES)}")
        if by == "none":
            return self
        goal = self._size(self.arms[0], by)
        arms = (self.arms[0], *(self._fitted(arms, by, goal) for arms in self.arms[1:]))
        remarks = []
        for row, a in zip(self.rows, arms, strict=True):
            size = self._size(a, by)
            beside = f"{size:,.0f} {MATCHES[by]}, {size / goal - 1:+.1%} beside {self.rows[0]}"
            remarks.append(f"{row}: matched by width {a.model.width}, {beside}")
        return replace(self, arms=arms, remarks=(*self.remarks, *remarks))

    def tuned(self, machine: Machine, grid: Grid = GRID) -> "Compare":
        """The same study with the settings that did best on validation, chosen for every arm from one grid.

        The seed used for choosing is never reported, and the test split is not read.
        """
        candidates = {
            (i, setting): with_settings(arms, setting, setting)
            for i, arms in enumerate(self.arms)
            for setting in grid.settings()
        }
        cells = {
            (i, setting, column): recipe
            for (i, setting), arms in candidates.items()
            for column, recipe in self._tuning_recipes(arms).items()
        }
        perform(jobs([Cell("", "", r) for r in cells.values()], machine.bench, tested=False), machine)
        scores = {key: _validation_score(recipe, machine) for key, recipe in cells.items()}
        chosen, remarks = [], []
        for i, arms in enumerate(self.arms):
            tried = self._tuning_recipes(arms)
            best = {c: max(grid.settings(), key=lambda s: scores[i, s, c]) for c in tried}
            chosen.append(with_settings(arms, best.get(SPT, best[TIED]), best[TIED]))
            remarks.append(
                f"{self.rows[i]}: {_choice(grid, best, {c: scores[i, s, c] for c, s in best.items()})}"
            )
        return replace(self, arms=tuple(chosen), remarks=(*self.remarks, *remarks))

    def _tuning_recipes(self, arms: Arms) -> dict[str, Recipe]:
        made = usual_arms(self.task, arms, TUNING_SEED)
        return {column: made[column] for column in (SPT, TIED) if column in made}

    def _fitted(self, arms: Arms, by: str, goal: float) -> Arms:
        def at(width: int) -> Arms:
            return arms.amended("model.width", str(width))

        widths = (width for width in range(2, arms.model.width, 2) if self._fits(at(width)))
        step = next(widths, arms.model.width)  # so that heads, and pairs of a head, divide all its multiples
        return at(cost.fitting(lambda width: self._size(at(width), by), goal, step))

    def _fits(self, arms: Arms) -> bool:
        try:
            build_network(Recipe(self.task, arms.scratch_model, (arms.scratch,)))
        except Exception:  # mixers from outside may refuse a width in any way
            return False
        return True

    def _size(self, arms: Arms, by: str) -> float:
        recipe = Recipe(self.task, arms.scratch_model, (arms.scratch,))
        if by == "flops":
            return cost.plan(recipe).flops_per_step
        return float(sum(p.numel() for p in build_network(recipe).parameters()))


def prepare(task: Task, mixers: tuple[Mixer, ...], objective: str, scale: Scale, seeds: int) -> Compare:
    """The comparison of some mixers on a task, with the settings of a scale."""
    settings = matching if scale == "paper" else small
    task = task.tiny() if scale == "smoke" else task
    arms = tuple(settings(task, mixer, denoiser(task, objective)) for mixer in mixers)
    return Compare(task, tuple(map(toys, arms)) if scale == "smoke" else arms, seeds)


def _validation_score(recipe: Recipe, machine: Machine) -> float:
    return float(Folder(machine.bench.folder(recipe)).read("result.json")["scores"]["val"]["score"])


def _choice(grid: Grid, best: dict[str, tuple[float, float, float]], scores: dict[str, float]) -> str:
    tried = (
        f"{len(grid.settings())} settings of learning rate, weight decay and dropout were tried for each arm"
    )
    parts = [
        f"{arm} took {lr:g}, {decay:g}, {dropout:g} (validation score {scores[arm]:.3f})"
        for arm, (lr, decay, dropout) in best.items()
    ]
    return f"{tried} with seed {TUNING_SEED}, which is not reported; " + ", ".join(parts)


def _words(arms: Arms) -> str:
    model = arms.model
    shape = (
        f"{model.depth} blocks of width {model.width}, {model.encoding} positions, {model.pooling} pooling"
    )
    stages = {"pretraining": arms.pretrain, "finetuning": arms.finetune, "from scratch": arms.scratch}
    rates = ", ".join(
        f"{n} {s.optim.lr:g} (weight decay {s.optim.weight_decay:g})" for n, s in stages.items()
    )
    dropout = f"dropout {model.dropout:g}, from scratch {arms.scratch_model.dropout:g}"
    return f"{shape}; {dropout}; learning rates: {rates}"


study = Compare
