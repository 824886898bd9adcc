"""Planning: the stages of an experiment, named once; which of them must be run, and their estimated cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..config import to_dict
from ..errors import StoreError
from ..registry import name_of
from ..report.stage_results import read_stage
from ..system.events import format_duration
from ..system.files import Json
from ..training import cost
from ..training.cost import COUNTED, Cost, Planner
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe, stage_id
from .archive import RESTORED
from .experiment import Cell, Experiment, SeedsDue
from .run_dir import RESULT, WEIGHTS, RunDir
from .workspace import Workspace

GUESS_NOTE = f", guessed at {cost.SPEED / 1e9:g} GFLOP/s a core; --measure times the steps"


@dataclass(frozen=True)
class PlannedStage:
    """One stage to run: the last one of its recipe."""

    id: str  # name of its folder
    recipe: Recipe
    parent: str | None = None  # id of the stage whose weights it starts from
    tested: bool = False  # whether it is scored on the test split
    starts: bool = False  # whether another stage starts from its weights
    cost: Cost | None = None  # None: not counted yet

    def counted(self) -> "PlannedStage":
        """Return the stage with its exact cost."""
        return self if self.cost else replace(self, cost=COUNTED.plan(self.recipe))


@dataclass(frozen=True)
class Plan:
    """An experiment whose cells know the ids of their stages, and every distinct stage once.

    An id is computed here, and handed down to whatever needs it.
    """

    experiment: Experiment
    stages: Mapping[str, PlannedStage]

    @classmethod
    def of(cls, experiment: Experiment) -> "Plan":
        """Name the stages of an experiment, each after the one that it starts from."""
        stages: dict[str, PlannedStage] = {}
        cells = []
        for cell in experiment.cells:
            ids: list[str] = []
            for prefix in cell.recipe.prefixes():
                stage = PlannedStage(stage_id(prefix), prefix, ids[-1] if ids else None)
                stages.setdefault(stage.id, stage)
                ids.append(stage.id)
            cells.append(replace(cell, stages=tuple(ids)))
        return cls(replace(experiment, cells=tuple(cells)), stages)

    def stages_of(self, cells: Iterable[Cell], tested: bool = True) -> list[PlannedStage]:
        """Return the distinct stages of some cells, each after the one that it starts from.

        Args:
            tested: whether the last stages are scored on the test split; False during tuning.
        """
        found: dict[str, PlannedStage] = {}
        for cell in cells:
            for name in cell.stages:
                stage = found.get(name, self.stages[name])
                last = name == cell.stages[-1]
                found[name] = replace(
                    stage, tested=stage.tested or (tested and last), starts=stage.starts or not last
                )
        return list(found.values())

    def with_seeds(self, due: SeedsDue) -> "Plan":
        """Return the plan with the first seeds of every task and row, as many as are due."""
        return replace(self, experiment=self.experiment.with_seeds(due))


def plan_recipes(recipes: Iterable[Recipe], tested: bool = True) -> list[PlannedStage]:
    """Return the distinct stages of some recipes, see ``Plan.stages_of``."""
    cells = tuple(Cell("", "", recipe) for recipe in recipes)
    if not cells:
        return []
    plan = Plan.of(Experiment("recipes", "", cells, ()))
    return plan.stages_of(plan.experiment.cells, tested)


def missing_stages(
    stages: list[PlannedStage], workspace: Workspace, bundled: frozenset[str] | None = frozenset()
) -> list[PlannedStage]:
    """Return the stages that must be run, including finished ones whose weights are missing but needed.

    Args:
        bundled: ids of stages with bundled results; None: restored results do not count either.
    """
    missing: dict[str, PlannedStage] = {}
    for stage in reversed(stages):  # a stage comes after the one it starts from
        folder = workspace.folder(stage.id)
        needed = any(other.parent == stage.id for other in missing.values())
        finished = folder.finished and not (bundled is None and folder.has(RESTORED))
        scores = read_result(stage, folder)["scores"] if finished else {}
        done = stage.id in (bundled or ()) or (finished and (not stage.tested or "test" in scores))
        if not done or (needed and not folder.has(WEIGHTS)):
            missing[stage.id] = stage
    return list(reversed(missing.values()))


def read_result(stage: PlannedStage, folder: RunDir) -> Json:
    """Return the result of a stage.

    Raises:
        StoreError: if it is damaged, belongs to another stage, or its predictions do not reproduce its score.
    """
    result = folder.read(RESULT)
    read_stage(folder.path)
    if result.get("recipe") != to_dict(stage.recipe):
        file = folder.path / RESULT
        raise StoreError(f"{file} is the result of another stage; delete this one file, and run again")
    return result


def chain_costs(stages: list[PlannedStage], costs: Mapping[str, float]) -> dict[str, float]:
    """Return the cost of every stage plus that of the longest chain of stages that depend on it."""
    chain = dict(costs)
    for stage in reversed(stages):  # a stage comes after the one it starts from
        if stage.parent and stage.parent in costs:
            chain[stage.parent] = max(chain[stage.parent], costs[stage.parent] + chain[stage.id])
    return chain


@dataclass(frozen=True)
class Forecast:
    """The stages to run, one row per stage that differs by more than seed or fold, and the total as text."""

    rows: list[list[str]]
    total: str
    seconds: float  # estimated wall-clock time on this machine
    notes: tuple[str, ...] = ()  # of a sequential design: how many seeds it may take
    headings: tuple[str, ...] = (
        "task", "mixer", "stages", "times", "steps", "parameters", "FLOPs", "takes",
    )  # fmt: skip


def forecast(
    plan: Plan,
    workspace: Workspace,
    cells: Iterable[Cell] | None = None,
    gpu: str = "",
    bundled: frozenset[str] | None = frozenset(),
    timed: bool = False,
    planner: Planner = COUNTED,
) -> Forecast:
    """Estimate the cost of running a plan; nothing is written.

    Args:
        cells: those to run; None: all.
        gpu: also estimate the time on this GPU, one of ``cost.GPUS``.
        bundled: ids of stages with bundled results; None: restored results do not count either.
        timed: measure the time per step on this machine instead of estimating it from FLOPs.
        planner: the one that planned the recipes.
    """
    chosen = list(plan.experiment.cells if cells is None else cells)
    todo = plan.stages_of(chosen)
    missing = missing_stages(todo, workspace, bundled)
    check_recipes((stage.recipe for stage in missing), brief=True)
    groups = _group_by_cost(stage.recipe for stage in missing)
    seconds_each = [_seconds(group[0], planner, timed) for group in groups]
    flops = sum((planner.plan(group[0]).flops * len(group) for group in groups), 0.0)
    total_seconds = sum(each * len(group) for each, group in zip(seconds_each, groups, strict=True))
    seconds = total_seconds / workspace.workers
    asked = sum(len(cell.stages) for cell in chosen)
    total = (
        f"{asked} stages asked for, {len(todo)} different ones: "
        f"{len(todo) - len(missing)} already on disk, {len(missing)} to run: "
        f"{flops:.3g} FLOPs{planner.note}, "
        f"about {format_duration(seconds)} with {workspace.workers} at once on this machine"
    )
    if not timed:
        total += GUESS_NOTE
    if gpu:
        total += f"; on one {gpu} {format_duration(cost.gpu_seconds(flops, gpu))} ({cost.ASSUMED})"
    rows = [
        _row(group, planner, format_duration(each)) for each, group in zip(seconds_each, groups, strict=True)
    ]
    return Forecast(rows, total, seconds)


def _group_by_cost(recipes: Iterable[Recipe]) -> list[list[Recipe]]:
    """Return the recipes in groups that differ by seed and fold only, and so cost the same."""
    firsts: list[Recipe] = []
    groups: list[list[Recipe]] = []
    for recipe in recipes:
        first = replace(recipe, task=recipe.task.parts()[0], seed=0)
        if first not in firsts:
            firsts.append(first)
            groups.append([])
        groups[firsts.index(first)].append(recipe)
    return groups


def _row(group: list[Recipe], planner: Planner, seconds: str) -> list[str]:
    recipe = group[0]
    plan = planner.plan(recipe)
    stages = " > ".join(name_of(stage.objective) for stage in recipe.stages)
    steps = "until time is up" if plan.steps is None else f"{plan.steps:,}"
    sizes = (str(len(group)), steps, f"{plan.parameters:,}", f"{plan.flops:.3g}", seconds)
    return [name_of(recipe.task_of(recipe.last)), name_of(recipe.model.mixer), stages, *sizes]


def _seconds(recipe: Recipe, planner: Planner, timed: bool) -> float:
    plan = planner.plan(recipe)
    if plan.steps is None:
        return recipe.last.budget.seconds or 0.0
    return plan.steps * cost.seconds_per_step(recipe) if timed else plan.flops / cost.SPEED
