"""What is to be run: cells become jobs, those on disk are left out, and the rest has a price."""

import abc
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from typing import TYPE_CHECKING

import torch

from .. import __version__
from ..errors import SpecError
from ..registry import name_of
from ..spec import nearest
from ..system import distributed
from ..system.files import FORMAT, Json
from ..system.progress import duration
from ..tasks.base import Task
from ..training import cost
from ..training.mixer_checks import check_recipes
from ..training.model import Network
from ..training.recipe import Recipe, fingerprint
from ..training.stage_folder import WEIGHTS, Folder
from .workspace import Bench, Machine

if TYPE_CHECKING:
    from ..studies.base import Study


COSTS = "costs.json"


@dataclass(frozen=True)
class Cell:
    """Where a recipe's result goes; recipes that share a cell (seeds, as a rule) are averaged."""

    row: str
    column: str
    recipe: Recipe
    label: str = ""  # what a paper calls the task, where another one stands in for it
    printed: tuple[str, str, str] | None = None  # the paper's number: table, row and column of its CSV


class Finished(abc.ABC):
    """What recipes that have been run left.

    Raises:
        StoreError: from its methods, where a recipe has not been run, or its weights are gone.
    """

    @abc.abstractmethod
    def network(self, recipe: Recipe) -> Network:
        """Trained."""

    @abc.abstractmethod
    def result(self, recipe: Recipe) -> Json:
        """Scores, steps and cost of the last stage."""

    @abc.abstractmethod
    def log(self, recipe: Recipe) -> list[Json]:
        """The lines that the last stage told while it was trained."""


@dataclass(frozen=True)
class Job:
    """One stage to run: the last of its recipe."""

    recipe: Recipe
    name: str  # of its folder
    after: str | None  # name of the stage that it starts from
    tested: bool  # whether a cell reports it


def jobs(cells: list[Cell], bench: Bench, tested: bool = True) -> list[Job]:
    """Every stage of a study once, each after the one it starts from.

    Args:
        tested: whether the last stages are scored on the test split; False while settings are chosen.
    """
    found: dict[str, Job] = {}
    for cell in cells:
        before = None
        for prefix in cell.recipe.prefixes():
            name = bench.folder(prefix).name
            last = tested and len(prefix.stages) == len(cell.recipe.stages)
            found[name] = Job(prefix, name, before, last or (name in found and found[name].tested))
            before = name
    return list(found.values())


def parts(cells: list[Cell]) -> list[list[Cell]]:
    """The cells of every task that is reported, in order."""
    tasks: list[Task] = []
    found: list[list[Cell]] = []
    for cell in cells:
        if cell.recipe.task not in tasks:
            tasks.append(cell.recipe.task)
            found.append([])
        found[tasks.index(cell.recipe.task)].append(cell)
    return found


def chosen(cells: list[Cell], only: str | None) -> list[Cell]:
    """The cells of ``ROW/COLUMN``, where either may hold ``*``; ``ROW`` alone means all of its columns.

    Raises:
        SpecError: if there is no such cell.
    """
    if only is None:
        return cells
    row, _, column = only.partition("/")
    found = [c for c in cells if fnmatch(c.row, row.strip()) and fnmatch(c.column, column.strip() or "*")]
    if not found:
        places = list(dict.fromkeys(f"{cell.row}/{cell.column}" for cell in cells))
        raise SpecError(f"--only {only}: there is no such row and column{nearest(only, places)}")
    return found


def home(study: "Study", cells: list[Cell], bench: Bench) -> Folder:
    """Where a study leaves the table of one task; the same cells have the same folder."""
    prints = "\n".join(f"{cell.row}|{cell.column}|{fingerprint(cell.recipe)}" for cell in cells)
    digest = hashlib.sha256(prints.encode()).hexdigest()[:10]
    return Folder.make(bench.runs / f"{name_of(study)}-{name_of(cells[0].recipe.task)}-{digest}")


@contextmanager
def remembered(machine: Machine) -> Iterator[None]:
    """With what earlier commands in the same folder of runs found out about costs; new findings are added."""
    folder, by = Folder(machine.bench.runs), [__version__, torch.__version__]
    kept = folder.read(COSTS) if folder.has(COSTS) else {}
    if kept.get("by") == by:
        cost.known.update({key: cost.Plan(**plan) for key, plan in kept["plans"].items()})
    before = len(cost.known)
    try:
        yield
    finally:
        if len(cost.known) > before and distributed.is_main():
            plans = {key: asdict(plan) for key, plan in cost.known.items()}
            folder.write(COSTS, {"format": FORMAT, "by": by, "plans": plans})


def waiting(todo: list[Job], machine: Machine) -> list[Job]:
    """The stages that must be trained; those whose weights are gone are, where another starts from them."""
    left: dict[str, Job] = {}
    for job in reversed(todo):  # a stage comes after the one it starts from
        folder = Folder(machine.bench.runs / "stages" / job.name)
        needed = any(other.after == job.name for other in left.values())
        scores = folder.read("result.json")["scores"] if folder.finished else {}
        tested = folder.finished and (not job.tested or "test" in scores)
        if not tested or (needed and not folder.has(WEIGHTS)):
            left[job.name] = job
    return list(reversed(left.values()))


def estimate(job: Job) -> cost.Plan:
    """What a stage costs; seeds differ by nothing that matters."""
    return cost.plan(replace(job.recipe, seed=0))


def forecast(cells: list[Cell], machine: Machine, gpu: str = "") -> tuple[list[list[str]], str]:
    """What would be run: one row per stage that differs by more than its seed, and the total in words.

    Args:
        gpu: also say how long it might take on this one of ``cost.GPUS``.
    """
    todo = jobs(cells, machine.bench)
    left = waiting(todo, machine)
    check_recipes(job.recipe for job in left)
    kinds: dict[str, list[Job]] = {}
    for job in left:
        kinds.setdefault(fingerprint(replace(job.recipe, seed=0)), []).append(job)
    rows, seconds, flops = [], 0.0, 0.0
    for same in kinds.values():
        recipe = same[0].recipe
        plan, each = cost.plan(recipe), _seconds(recipe)
        seconds, flops = seconds + each * len(same), flops + plan.flops * len(same)
        stages = " > ".join(name_of(stage.objective) for stage in recipe.stages)
        steps = "until time is up" if plan.steps is None else f"{plan.steps:,}"
        sizes = (f"{len(same)}", steps, f"{plan.parameters:,}", f"{plan.flops:.3g}", duration(each))
        where = (name_of(recipe.task_of(recipe.last)), name_of(recipe.model.mixer))
        rows.append([*where, stages, *sizes])
    asked = sum(len(cell.recipe.stages) for cell in cells)
    spent = (
        f"{asked} stages asked for, {len(todo)} different ones: {len(todo) - len(left)} already on disk, "
        f"{len(left)} to run: {flops:.3g} FLOPs"
    )
    here = f"about {duration(seconds / machine.workers)} with {machine.workers} at once on this machine"
    there = f"; on one {gpu} {duration(cost.gpu_seconds(flops, gpu))} ({cost.ASSUMED})" if gpu else ""
    return rows, f"{spent}, {here}{there}"


def _seconds(recipe: Recipe) -> float:
    steps = cost.plan(recipe).steps
    return recipe.last.budget.seconds or 0.0 if steps is None else steps * cost.seconds_per_step(recipe)
