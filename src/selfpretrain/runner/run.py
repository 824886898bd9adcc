"""Run experiments and recipes: train the stages that are not on disk yet, then write the report."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ..errors import SpecError
from ..registry import find
from ..system import distributed
from ..system.progress import show_stages
from ..training import cost
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe
from ..training.run_dir import WEIGHTS
from .archive import RESTORED
from .experiment import Experiment
from .experiment_dir import ExperimentFolder
from .job_queue import JobQueue
from .looks import announce, seeds_by_place
from .plan import Job, estimate, jobs, pending_jobs
from .trackers.base import tracking
from .workspace import Workspace

WORKER_START = 3.0
"""Seconds to start a worker process."""
STAGE_OVERHEAD = 0.3
"""Seconds that a stage takes in addition to training."""


def run_experiment(
    experiment: Experiment, workspace: Workspace, only: str | None = None, kept: Path | None = None
) -> ExperimentFolder:
    """Train the stages that are not on disk yet, write the report, and return the experiment's folder.

    Args:
        only: run only these cells (see ``Experiment.select_cells``); the others are reported as missing.
        kept: folder of kept results and of interpretations written by hand.
    """
    folder = ExperimentFolder(experiment, workspace, kept)
    if experiment.looks:
        folder = _run_looks(folder)
        experiment = folder.experiment
    recipes = [cell.recipe for cell in experiment.select_cells(only)]
    if distributed.is_main():
        folder.plan(check_recipes(cell.recipe for cell in experiment.cells))
    run_stages(jobs(recipes, workspace), workspace)
    if distributed.is_main():
        folder.finish()
    return folder


def _run_looks(folder: ExperimentFolder) -> ExperimentFolder:
    """Train seed after seed until every headline difference is decided; return the folder of the cells due.

    Only the two columns of the headline are trained here; the others are left to the caller, for a verdict
    as early as possible.
    """
    notes: list[str] = []
    record = None
    if distributed.is_main():
        notes = check_recipes(cell.recipe for cell in folder.experiment.cells)
        record = folder.record()
    while True:
        due = seeds_by_place(folder, record)
        reached = replace(folder, experiment=folder.experiment.with_seeds(due))
        if distributed.is_main():
            reached.plan(notes)
        todo = jobs((cell.recipe for cell in reached.experiment.headline_cells()), folder.workspace)
        if not pending_jobs(todo, folder.workspace):
            return reached
        announce(due, folder)
        run_stages(todo, folder.workspace)


def detach(
    experiment: Experiment, workspace: Workspace, only: str | None = None, kept: Path | None = None
) -> str:
    """Submit the stages that are not on disk yet to an executor that outlives this process.

    Returns:
        The executor's message, which says how to find the jobs.

    Raises:
        SpecError: if the executor cannot run detached.
    """
    folder = ExperimentFolder(experiment, workspace, kept)
    recipes = [cell.recipe for cell in experiment.select_cells(only)]
    folder.plan(check_recipes(cell.recipe for cell in experiment.cells))
    pending = pending_jobs(jobs(recipes, workspace), workspace)
    _forget_results_without_weights(pending, workspace)
    kind = find("executors", "serial" if workspace.executor == "auto" else workspace.executor)
    return kind.detach(pending, workspace)


def run_recipes(recipes: Iterable[Recipe], workspace: Workspace, tested: bool = True) -> None:
    """Train the stages of some recipes that are not on disk yet."""
    run_stages(jobs(recipes, workspace, tested), workspace)


def run_stages(todo: list[Job], workspace: Workspace) -> None:
    """Train the stages that are not on disk yet, with a progress display.

    Raises:
        Interrupted: when asked to stop, after every running stage has saved a checkpoint.
        SelfPretrainError: if a stage failed; finished stages are kept.
    """
    pending = pending_jobs(todo, workspace)
    if not pending:
        return
    for job in pending:
        if job.recipe.task_of(job.recipe.last).stub:
            raise SpecError(f"{job.title}: planned with a stub of its data; plan it without one to run it")
    check_recipes(job.recipe for job in pending)
    _forget_results_without_weights(pending, workspace)
    # Costs are for the display and for the order of parallel stages; counting FLOPs takes a while.
    serial = workspace.workers == 1 and workspace.executor in ("auto", "serial")
    costs = {} if workspace.quiet and serial else {job.name: estimate(job).flops for job in pending}
    executor = find("executors", _executor_name(pending, costs, workspace))(workspace)
    titles = {job.name: job.title for job in pending}
    with show_stages(costs, len(todo), workspace.quiet, titles), tracking(workspace):
        JobQueue(
            pending, executor, workspace.stop, lambda job: workspace.stage_dir(job.name).is_running, costs
        ).run()


def _executor_name(pending: list[Job], costs: dict[str, float], workspace: Workspace) -> str:
    """Return the executor's name; auto is processes if they save more time than they take to start."""
    if workspace.executor != "auto":
        return workspace.executor
    if workspace.workers == 1:
        return "serial"
    seconds = sum(
        STAGE_OVERHEAD + (job.recipe.last.budget.seconds or costs[job.name] / cost.SPEED) for job in pending
    )
    return "processes" if seconds > WORKER_START * workspace.workers else "serial"


def _forget_results_without_weights(pending: list[Job], workspace: Workspace) -> None:
    """Drop results that lack weights, so that stages that others start from are trained again."""
    for folder in (workspace.stage_dir(job.name) for job in pending):
        if distributed.is_main() and folder.finished and not folder.has(WEIGHTS):
            folder.drop("result.json")
            folder.drop(RESTORED)
