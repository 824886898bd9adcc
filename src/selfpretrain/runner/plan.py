"""What is to be run: cells become jobs, those on disk are left out, and the rest has a price."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import torch

from .. import __version__
from ..config import to_dict
from ..errors import StoreError
from ..registry import name_of
from ..report.results import read_stage
from ..system import distributed
from ..system.events import duration
from ..system.files import FORMAT, Json
from ..training import cost
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe, fingerprint
from ..training.run_dir import WEIGHTS, RunDir
from .archive import RESTORED
from .workspace import Workspace

COSTS = "costs.json"
GUESSED = f", guessed at {cost.SPEED / 1e9:g} GFLOP/s a core; --measure times the steps"


@dataclass(frozen=True)
class Job:
    """One stage to run: the last of its recipe."""

    recipe: Recipe
    name: str  # of its folder
    after: str | None  # name of the stage that it starts from
    tested: bool  # whether a cell reports it

    @property
    def title(self) -> str:
        """What people call it: task, mixer, objectives and seed."""
        task, mixer = name_of(self.recipe.task_of(self.recipe.last)), name_of(self.recipe.model.mixer)
        stages = " > ".join(name_of(stage.objective) for stage in self.recipe.stages)
        return f"{task}, {mixer}, {stages}, seed {self.recipe.seed}"


def jobs(recipes: Iterable[Recipe], workspace: Workspace, tested: bool = True) -> list[Job]:
    """Every stage of some recipes once, each after the one it starts from.

    Args:
        tested: whether the last stages are scored on the test split; False while settings are chosen.
    """
    found: dict[str, Job] = {}
    for recipe in recipes:
        before = None
        for prefix in recipe.prefixes():
            name = workspace.stage(prefix).name
            last = tested and len(prefix.stages) == len(recipe.stages)
            found[name] = Job(prefix, name, before, last or (name in found and found[name].tested))
            before = name
    return list(found.values())


def waiting(todo: list[Job], workspace: Workspace, kept: frozenset[str] | None = frozenset()) -> list[Job]:
    """The jobs that must be run; those whose weights are gone are, where another starts from them.

    Args:
        kept: names of stages whose results are elsewhere; None: what was put back does not count either.
    """
    left: dict[str, Job] = {}
    for job in reversed(todo):  # a stage comes after the one it starts from
        folder = workspace.named(job.name)
        needed = any(other.after == job.name for other in left.values())
        finished = folder.finished and not (kept is None and folder.has(RESTORED))
        scores = stored(job.recipe, folder)["scores"] if finished else {}
        tested = job.name in (kept or ()) or (finished and (not job.tested or "test" in scores))
        if not tested or (needed and not folder.has(WEIGHTS)):
            left[job.name] = job
    return list(reversed(left.values()))


def stored(recipe: Recipe, folder: RunDir) -> Json:
    """The result that the last stage of a recipe has left.

    Raises:
        StoreError: if it is damaged, or of another stage, or its predictions do not give its score.
    """
    result = folder.read("result.json")
    read_stage(folder.path)
    if result.get("recipe") != to_dict(recipe):
        file = folder.path / "result.json"
        raise StoreError(f"{file} is the result of another stage; delete this one file, and run again")
    return result


def estimate(job: Job) -> cost.Plan:
    """What a stage costs; seeds differ by nothing that matters."""
    return cost.plan(replace(job.recipe, seed=0))


def chains(jobs: list[Job], costs: dict[str, float]) -> dict[str, float]:
    """What every stage costs together with the longest chain of stages that start from it."""
    found = dict(costs)
    for job in reversed(jobs):  # a stage comes after the one it starts from
        if job.after in costs:
            found[job.after] = max(found[job.after], costs[job.after] + found[job.name])
    return found


@dataclass(frozen=True)
class Forecast:
    """What would be run: a row per stage that differs by more than seed or fold, and the total in words."""

    rows: list[list[str]]
    total: str
    seconds: float  # that it may take here
    headings: tuple[str, ...] = (
        "task", "mixer", "stages", "times", "steps", "parameters", "FLOPs", "takes",
    )  # fmt: skip


def forecast(
    recipes: list[Recipe],
    workspace: Workspace,
    gpu: str = "",
    kept: frozenset[str] | None = frozenset(),
    timed: bool = False,
) -> Forecast:
    """What running some recipes would cost; nothing is written.

    Args:
        gpu: also say how long it might take on this one of ``cost.GPUS``.
        kept: names of stages whose results are elsewhere; None: what was put back does not count either.
        timed: whether to measure how long a step takes here, rather than guess it from FLOPs.
    """
    todo = jobs(recipes, workspace)
    left = waiting(todo, workspace, kept)
    check_recipes((job.recipe for job in left), brief=True)
    kinds: dict[str, list[Recipe]] = {}
    for job in left:
        kind = replace(job.recipe, task=job.recipe.task.parts()[0], seed=0)
        kinds.setdefault(fingerprint(kind), []).append(job.recipe)
    takes = {key: _seconds(same[0], timed) for key, same in kinds.items()}
    flops = sum((cost.plan(same[0]).flops * len(same) for same in kinds.values()), 0.0)
    asked = sum(len(recipe.stages) for recipe in recipes)
    spent = (
        f"{asked} stages asked for, {len(todo)} different ones: {len(todo) - len(left)} already on disk, "
        f"{len(left)} to run: {flops:.3g} FLOPs{cost.how_counted()}"
    )
    seconds = sum(takes[key] * len(same) for key, same in kinds.items()) / workspace.workers
    here = (
        f", about {duration(seconds)} with {workspace.workers} at once on this machine"
        f"{'' if timed else GUESSED}"
    )
    there = f"; on one {gpu} {duration(cost.gpu_seconds(flops, gpu))} ({cost.ASSUMED})" if gpu else ""
    rows = [_row(same[0], len(same), duration(takes[key])) for key, same in kinds.items()]
    return Forecast(rows, f"{spent}{here}{there}", seconds)


def _row(recipe: Recipe, times: int, takes: str) -> list[str]:
    plan = cost.plan(recipe)
    stages = " > ".join(name_of(stage.objective) for stage in recipe.stages)
    steps = "until time is up" if plan.steps is None else f"{plan.steps:,}"
    sizes = (str(times), steps, f"{plan.parameters:,}", f"{plan.flops:.3g}", takes)
    return [name_of(recipe.task_of(recipe.last)), name_of(recipe.model.mixer), stages, *sizes]


def _seconds(recipe: Recipe, timed: bool) -> float:
    plan = cost.plan(recipe)
    if plan.steps is None:
        return recipe.last.budget.seconds or 0.0
    return plan.steps * cost.seconds_per_step(recipe) if timed else plan.flops / cost.SPEED


@contextmanager
def remembered_costs(workspace: Workspace) -> Iterator[None]:
    """With what earlier commands in the same folder of runs found out about costs.

    This is enough to find what has finished. What is trained, and for how long, is always worked out afresh.
    """
    kept = RunDir(workspace.runs).remembered(COSTS)
    try:
        there = kept["plans"] if kept.get("by") == _BY else {}
        added = {key: cost.Plan(**plan) for key, plan in there.items() if key not in cost.known}
    except (KeyError, TypeError, AttributeError):  # it holds something else: nothing is remembered
        added = {}
    cost.known.update(added)
    try:
        yield
    finally:
        for key in added:
            del cost.known[key]


def remember_costs(workspace: Workspace) -> None:
    """Leave what was found out about costs to later commands in the same folder of runs."""
    plans = {key: asdict(plan) for key, plan in cost.known.items()}
    if distributed.is_main():
        RunDir.make(workspace.runs).write(COSTS, {"format": FORMAT, "by": _BY, "plans": plans})


_BY = [__version__, torch.__version__]
