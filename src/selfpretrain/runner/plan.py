"""Planning: the distinct stages of an experiment, which of them must be run, and their estimated cost."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import torch

from .. import __version__
from ..config import to_dict
from ..errors import StoreError
from ..registry import name_of
from ..report.results import read_stage
from ..system import distributed
from ..system.events import format_duration
from ..system.files import FORMAT, Json
from ..training import cost
from ..training.cost import COUNTED, Planner
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe, fingerprint
from ..training.run_dir import WEIGHTS, RunDir
from .archive import RESTORED
from .workspace import Workspace

COSTS = "costs.json"
GUESS_NOTE = f", guessed at {cost.SPEED / 1e9:g} GFLOP/s a core; --measure times the steps"


@dataclass(frozen=True)
class Job:
    """One stage to run: the last one of its recipe."""

    recipe: Recipe
    name: str  # name of its folder
    after: str | None  # name of the stage whose weights it starts from
    tested: bool  # whether it is scored on the test split
    starts: bool  # whether another stage starts from its weights

    @property
    def title(self) -> str:
        """Readable name: task, mixer, objectives and seed."""
        task = name_of(self.recipe.task_of(self.recipe.last))
        mixer = name_of(self.recipe.model.mixer)
        stages = " > ".join(name_of(stage.objective) for stage in self.recipe.stages)
        return f"{task}, {mixer}, {stages}, seed {self.recipe.seed}"


def jobs(recipes: Iterable[Recipe], workspace: Workspace, tested: bool = True) -> list[Job]:
    """Return every distinct stage of some recipes, each after the one it starts from.

    Args:
        tested: whether the last stages are scored on the test split; False during tuning.
    """
    jobs_by_name: dict[str, Job] = {}
    for recipe in recipes:
        before = None
        for prefix in recipe.prefixes():
            name = workspace.stage(prefix).name
            last = len(prefix.stages) == len(recipe.stages)
            job = Job(prefix, name, before, tested=tested and last, starts=not last)
            if known := jobs_by_name.get(name):
                job = replace(job, tested=job.tested or known.tested, starts=job.starts or known.starts)
            jobs_by_name[name] = job
            before = name
    return list(jobs_by_name.values())


def pending_jobs(
    jobs: list[Job], workspace: Workspace, kept: frozenset[str] | None = frozenset()
) -> list[Job]:
    """Return the jobs that must be run, including finished ones whose weights are missing but needed.

    Args:
        kept: names of stages whose results are in the archive; None: restored results do not count either.
    """
    pending: dict[str, Job] = {}
    for job in reversed(jobs):  # a stage comes after the one it starts from
        folder = workspace.stage_dir(job.name)
        needed = any(other.after == job.name for other in pending.values())
        finished = folder.finished and not (kept is None and folder.has(RESTORED))
        scores = read_result(job.recipe, folder)["scores"] if finished else {}
        tested = job.name in (kept or ()) or (finished and (not job.tested or "test" in scores))
        if not tested or (needed and not folder.has(WEIGHTS)):
            pending[job.name] = job
    return list(reversed(pending.values()))


def read_result(recipe: Recipe, folder: RunDir) -> Json:
    """Return the result of the last stage of a recipe.

    Raises:
        StoreError: if it is damaged, belongs to another stage, or its predictions do not reproduce its score.
    """
    result = folder.read("result.json")
    read_stage(folder.path)
    if result.get("recipe") != to_dict(recipe):
        file = folder.path / "result.json"
        raise StoreError(f"{file} is the result of another stage; delete this one file, and run again")
    return result


def estimate(job: Job) -> cost.Plan:
    """Return the cost of a stage, with seed 0, as all seeds cost the same."""
    return cost.plan(replace(job.recipe, seed=0))


def chain_costs(jobs: list[Job], costs: dict[str, float]) -> dict[str, float]:
    """Return the cost of every stage plus that of the longest chain of stages that depend on it."""
    chain = dict(costs)
    for job in reversed(jobs):  # a stage comes after the one it starts from
        if job.after in costs:
            chain[job.after] = max(chain[job.after], costs[job.after] + chain[job.name])
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
    recipes: list[Recipe],
    workspace: Workspace,
    gpu: str = "",
    kept: frozenset[str] | None = frozenset(),
    timed: bool = False,
    planner: Planner = COUNTED,
) -> Forecast:
    """Estimate the cost of running some recipes; nothing is written.

    Args:
        planner: the one that planned the recipes.
        gpu: also estimate the time on this GPU, one of ``cost.GPUS``.
        kept: names of stages whose results are in the archive; None: restored results do not count either.
        timed: measure the time per step on this machine instead of estimating it from FLOPs.
    """
    todo = jobs(recipes, workspace)
    pending = pending_jobs(todo, workspace, kept)
    check_recipes((job.recipe for job in pending), brief=True)
    groups = _group_by_cost(job.recipe for job in pending)
    seconds_each = [_seconds(group[0], planner, timed) for group in groups]
    flops = sum((planner.plan(group[0]).flops * len(group) for group in groups), 0.0)
    total_seconds = sum(each * len(group) for each, group in zip(seconds_each, groups, strict=True))
    seconds = total_seconds / workspace.workers
    n_stages = sum(len(recipe.stages) for recipe in recipes)
    total = (
        f"{n_stages} stages asked for, {len(todo)} different ones: "
        f"{len(todo) - len(pending)} already on disk, {len(pending)} to run: "
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
    groups: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        first = replace(recipe, task=recipe.task.parts()[0], seed=0)
        groups.setdefault(fingerprint(first), []).append(recipe)
    return list(groups.values())


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


def read_costs(workspace: Workspace) -> dict[str, cost.Plan]:
    """Return the plans that earlier commands cached in the runs folder; none if the cache is not valid.

    They serve forecasts, and to find finished stages. Training budgets are always computed afresh.
    """
    cached = RunDir(workspace.runs).read_cache(COSTS)
    if cached.get("by") != _BY:
        return {}
    try:
        return {key: cost.Plan(**plan) for key, plan in cached["plans"].items()}
    except (KeyError, TypeError, AttributeError):
        return {}


def write_costs(workspace: Workspace) -> None:
    """Cache the exact plans of this process in the runs folder, for later commands."""
    plans = {key: asdict(plan) for key, plan in COUNTED.plans.items()}
    if distributed.is_main():
        RunDir.make(workspace.runs).write(COSTS, {"format": FORMAT, "by": _BY, "plans": plans})


_BY = [__version__, torch.__version__]
