"""Forecasts: what the stages that must be run take, on this machine or on a GPU that need not be here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..errors import DoesNotFit
from ..registry import name_of
from ..system.events import format_duration
from ..training import cost
from ..training.cost import COUNTED, Planner
from ..training.evaluate import validation_data
from ..training.gpus import CPU_CORE, EVALUATED, Gpu, find_gpu
from ..training.memory import fit_stage, reserved, saved_memory
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe, training_data
from ..training.trace import StepTrace, Untraceable, known_trace, longest_batch
from .experiment import Cell
from .plan import Plan, PlannedStage, chain_costs, missing_stages
from .workspace import Workspace

HOUR = 3600.0
GUESS_NOTE = f", guessed at {CPU_CORE / 1e9:g} GFLOP/s a core; --measure times the steps"
GPU_NOTE = (
    "steps are traced without a GPU, in the usual precision of the card, whatever stage.precision says; "
    "times are fitted to 18 steps that were measured on an H100"
)
SHARED = ("task", "mixer", "stages", "times", "steps", "parameters", "FLOPs")
HERE = (*SHARED, "takes")
"""Columns of a forecast for this machine."""
THERE = (*SHARED, "GB", "fits", "hours", "dollars")
"""Columns of a forecast for a GPU."""


@dataclass(frozen=True)
class OnGpu:
    """What a stage takes on a GPU."""

    flops: float
    gigabytes: float | None  # with what saves memory, if it is needed; None: it cannot be traced
    fits: str  # "yes", what saves memory, "no", or "not forecast" if it cannot be traced
    seconds: float
    limited: bool  # whether its limit in hours ends it


@dataclass(frozen=True)
class Forecast:
    """The stages to run, one row per stage that differs by more than seed or fold, and the total as text."""

    rows: list[list[str]]
    total: str
    seconds: float  # estimated wall-clock time on this machine
    notes: tuple[str, ...] = ()  # of a sequential design: how many seeds it may take
    headings: tuple[str, ...] = HERE
    gpu_hours: Mapping[str, float] | None = None  # of every stage to run, by its id; None: no GPU was named


def forecast(
    plan: Plan,
    workspace: Workspace,
    cells: Iterable[Cell] | None = None,
    gpu: str = "",
    bundled: frozenset[str] | None = frozenset(),
    timed: bool = False,
    planner: Planner = COUNTED,
    tested: bool = True,
) -> Forecast:
    """Estimate the cost of running a plan; nothing is written.

    Args:
        cells: those to run; None: all.
        gpu: estimate memory, time and price on this GPU, one of ``gpus.GPUS``.
        bundled: ids of stages with bundled results; None: restored results do not count either.
        timed: measure the time per step on the device of the stages instead of estimating it from FLOPs.
        planner: the one that planned the recipes.
        tested: whether the last stages are scored on the test split; False for those of tuning.
    """
    chosen = list(plan.experiment.cells if cells is None else cells)
    todo = plan.stages_of(chosen, tested)
    missing = missing_stages(todo, workspace, bundled)
    check_recipes((stage.recipe for stage in missing), brief=True)
    groups = _group_by_cost(missing)
    asked = (
        f"{sum(len(cell.stages) for cell in chosen)} stages asked for, {len(todo)} different ones: "
        f"{len(todo) - len(missing)} already on disk, {len(missing)} to run"
    )
    if gpu:
        return _forecast_there(groups, find_gpu(gpu), gpu, asked, planner)
    device = workspace.device if timed else ""
    each = [_seconds(group[0].recipe, planner, device) for group in groups]
    flops = sum((planner.plan(group[0].recipe).flops * len(group) for group in groups), 0.0)
    times = {stage.id: one for one, group in zip(each, groups, strict=True) for stage in group}
    longest = max(chain_costs(missing, times).values(), default=0.0)  # stages wait for those they start from
    seconds = max(sum(times.values()) / workspace.workers, longest)
    total = (
        f"{asked}: {flops:.3g} FLOPs{planner.note}, "
        f"about {format_duration(seconds)} with {workspace.workers} at once on this machine"
    )
    rows = [[*_row(group, planner), format_duration(one)] for group, one in zip(groups, each, strict=True)]
    return Forecast(rows, total if timed else total + GUESS_NOTE, seconds)


def with_tuning(found: Forecast, trials: Forecast) -> Forecast:
    """Return a forecast that counts tuning, which comes first and is told in a note."""
    return replace(
        found,
        seconds=found.seconds + trials.seconds,
        notes=(f"before these, to tune: {trials.total}", *found.notes),
        gpu_hours=None if found.gpu_hours is None else {**(trials.gpu_hours or {}), **found.gpu_hours},
    )


def _forecast_there(
    groups: list[list[PlannedStage]], card: Gpu, gpu: str, asked: str, planner: Planner
) -> Forecast:
    """Return the forecast for one GPU."""
    rows = []
    hours = dict[str, float]()
    unfit = 0
    flops = 0.0
    for group in groups:
        recipe = group[0].recipe
        found = on_gpu(recipe, card, planner)
        each = found.seconds / HOUR
        hours |= {stage.id: each for stage in group}
        flops += found.flops * len(group)
        unfit += len(group) * (found.fits == "no")
        limit = "at most " if found.limited else ""
        costs = (
            _number(found.gigabytes, ".1f"),
            found.fits,
            limit + _number(each),
            _number(card.price(each)),
        )
        rows.append([*_row(group, planner, found.flops), *costs])
    whole = sum(hours.values(), 0.0)
    total = (
        f"{asked}: {flops:.3g} FLOPs, on one {gpu} {card.bill(whole)}"
        + (f"; {unfit} do not fit into its {card.gigabytes:g} GB" if unfit else "")
        + f" ({GPU_NOTE})"
    )
    return Forecast(rows, total, whole * HOUR, headings=THERE, gpu_hours=hours)


def on_gpu(recipe: Recipe, card: Gpu, planner: Planner = COUNTED) -> OnGpu:
    """Return what a recipe's last stage takes on a GPU, traced from shapes alone; else its FLOPs must do."""
    planned = planner.plan(recipe)
    stage = replace(recipe.last, precision=card.precision)
    gigabytes: float | None
    try:
        fits, gigabytes, trace = _traced(recipe.with_last(stage), card)
    except Untraceable:
        fits = "not forecast"
        gigabytes = None
        trace = StepTrace(planned.flops_per_step, 0, 0.0, 0, False)
    step = card.seconds(trace)
    budget = stage.budget
    evaluated = stage.evals * len(validation_data(recipe)) / stage.batch
    seconds = budget.seconds or step * ((planned.steps or 0) + EVALUATED * evaluated)
    limit = HOUR * (budget.hours or float("inf"))
    return OnGpu(trace.flops * (planned.steps or 0), gigabytes, fits, min(seconds, limit), seconds > limit)


def _traced(recipe: Recipe, card: Gpu) -> tuple[str, float, StepTrace]:
    """Return whether and how a stage fits, its gigabytes, and the trace of its usual step.

    Raises:
        Untraceable: if the network cannot be traced.
    """
    data = training_data(recipe)
    stage = recipe.last
    longest, padded = longest_batch(recipe, data)
    try:
        fit = fit_stage(recipe, card.gigabytes, longest, padded, trace=known_trace)
        run = fit.applied_to(stage)
        fits = saved_memory(stage, run) or "yes"
        gigabytes = fit.gigabytes
    except DoesNotFit:
        run = stage
        fits = "no"
        gigabytes = reserved(known_trace(recipe, longest, padded).peak_bytes)
    usual = round(float(data.longest.double().mean()))
    return fits, gigabytes, known_trace(recipe.with_last(run), usual, padded)


def _number(value: float | None, digits: str = "") -> str:
    """Return a number with two digits, or all digits before the point; "—" if it is not known."""
    if value is None:
        return "—"
    return f"{value:{digits or (',.0f' if value >= 10 else '.2g')}}"


def _group_by_cost(stages: Iterable[PlannedStage]) -> list[list[PlannedStage]]:
    """Return stages in groups whose recipes differ by seed and fold only, and so cost the same."""
    firsts: list[Recipe] = []
    groups: list[list[PlannedStage]] = []
    for stage in stages:
        recipe = stage.recipe
        first = replace(recipe, task=recipe.task.parts()[0], seed=0)
        if first not in firsts:
            firsts.append(first)
            groups.append([])
        groups[firsts.index(first)].append(stage)
    return groups


def _row(group: list[PlannedStage], planner: Planner, flops: float | None = None) -> list[str]:
    recipe = group[0].recipe
    plan = planner.plan(recipe)
    stages = " > ".join(name_of(stage.objective) for stage in recipe.stages)
    steps = "until time is up" if plan.steps is None else f"{plan.steps:,}"
    counted = plan.flops if flops is None else flops
    sizes = (str(len(group)), steps, f"{plan.parameters:,}", f"{counted:.3g}")
    return [name_of(recipe.task_of(recipe.last)), name_of(recipe.model.mixer), stages, *sizes]


def _seconds(recipe: Recipe, planner: Planner, device: str) -> float:
    """Return the seconds of a stage, its steps timed on a device; "": guessed from FLOPs."""
    plan = planner.plan(recipe)
    budget = recipe.last.budget
    limit = HOUR * (budget.hours or float("inf"))
    if plan.steps is None:
        return min(budget.seconds or 0.0, limit)
    if not device:
        return min(plan.flops / CPU_CORE, limit)
    try:
        return min(plan.steps * cost.seconds_per_step(recipe, device), limit)
    except DoesNotFit:  # it will not be trained, and the others will
        return 0.0
