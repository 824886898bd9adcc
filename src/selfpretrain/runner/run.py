"""From an experiment to its report: running what is not on disk yet, in order."""

from collections.abc import Iterable
from pathlib import Path

from ..registry import find
from ..system import distributed
from ..system.progress import showing_stages
from ..training import cost
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe
from ..training.run_dir import WEIGHTS
from .archive import RESTORED
from .experiment import Experiment
from .experiment_dir import ExperimentFolder
from .job_queue import JobQueue
from .plan import Job, estimate, jobs, waiting
from .trackers.base import tracking
from .workspace import Workspace

START, STAGE = 3.0, 0.3
"""Seconds: what it takes to start a process of ours, and, besides training, to begin and end a stage."""


def run_experiment(
    experiment: Experiment, workspace: Workspace, only: str | None = None, kept: Path | None = None
) -> ExperimentFolder:
    """Run what is not on disk yet, and write the report; where it is.

    Args:
        only: run these cells alone (see ``Experiment.chosen``); the others are reported as missing.
        kept: folder of kept results, where what a person makes of the numbers stands too.
    """
    folder = ExperimentFolder(experiment, workspace, kept)
    chosen = [cell.recipe for cell in experiment.chosen(only)]
    if distributed.is_main():
        folder.plan(check_recipes(cell.recipe for cell in experiment.cells))
    run_stages(jobs(chosen, workspace), workspace)
    if distributed.is_main():
        folder.finish()
    return folder


def detach(
    experiment: Experiment, workspace: Workspace, only: str | None = None, kept: Path | None = None
) -> str:
    """Hand what is not on disk yet to an engine that goes on without this process, and return what it says.

    Raises:
        SpecError: if the executor is none that does so.
    """
    folder = ExperimentFolder(experiment, workspace, kept)
    chosen = [cell.recipe for cell in experiment.chosen(only)]
    folder.plan(check_recipes(cell.recipe for cell in experiment.cells))
    left = waiting(jobs(chosen, workspace), workspace)
    _forget_results_without_weights(left, workspace)
    kind = find("executors", "serial" if workspace.executor == "auto" else workspace.executor)
    return kind.detach(left, workspace)


def run_recipes(recipes: Iterable[Recipe], workspace: Workspace, tested: bool = True) -> None:
    """Run the stages of some recipes that are not on disk yet."""
    run_stages(jobs(recipes, workspace, tested), workspace)


def run_stages(todo: list[Job], workspace: Workspace) -> None:
    """Run the stages that are not on disk yet, showing how far they are.

    Raises:
        Interrupted: when asked to stop, and every running stage has saved a checkpoint.
        SelfPretrainError: if a stage failed; what was finished stays.
    """
    left = waiting(todo, workspace)
    if not left:
        return
    check_recipes(job.recipe for job in left)
    _forget_results_without_weights(left, workspace)
    costs = {job.name: estimate(job).flops for job in left}
    executor = find("executors", _where(left, costs, workspace))(workspace)
    titles = {job.name: job.title for job in left}
    with showing_stages(costs, len(todo), workspace.quiet, titles), tracking(workspace):
        JobQueue(left, executor, workspace.stop, lambda job: workspace.named(job.name).held, costs).run()


def _where(left: list[Job], costs: dict[str, float], workspace: Workspace) -> str:
    """The executor that is asked for; of auto, processes where they gain more than their start takes."""
    if workspace.executor != "auto":
        return workspace.executor
    takes = sum(STAGE + (job.recipe.last.budget.seconds or costs[job.name] / cost.SPEED) for job in left)
    return "processes" if workspace.workers > 1 and takes > START * workspace.workers else "serial"


def _forget_results_without_weights(left: list[Job], workspace: Workspace) -> None:
    """What another stage starts from is needed with its weights, which kept results lack."""
    for folder in (workspace.named(job.name) for job in left):
        if distributed.is_main() and folder.finished and not folder.has(WEIGHTS):
            folder.drop("result.json")
            folder.drop(RESTORED)
