"""Run experiments and recipes: train the stages that are not on disk yet, then write the report."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ..errors import Interrupted, SelfPretrainError, SpecError
from ..registry import find
from ..system import distributed
from ..system.events import Event, emit
from ..system.progress import show_stages
from ..system.startup import raise_on_signal
from ..training import cost
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe
from ..training.train import Stop
from .executors.base import Ended, Executor
from .experiment_dir import ExperimentFolder
from .looks import announce, seeds_by_place
from .plan import Plan, PlannedStage, chain_costs, missing_stages, plan_recipes
from .trackers.base import tracking
from .workspace import Workspace

WORKER_START = 3.0
"""Seconds to start a worker process."""
STAGE_OVERHEAD = 0.3
"""Seconds that a stage takes in addition to training."""
PAUSE = 0.1
"""Seconds between polls for finished stages."""
RESUMABLE = "stopped; the same command resumes from here"


def run_experiment(
    plan: Plan, workspace: Workspace, only: str | None = None, kept: Path | None = None
) -> ExperimentFolder:
    """Train the stages that are not on disk yet, write the report, and return the experiment's folder.

    Args:
        only: run only these cells (see ``Experiment.select_cells``); the others are reported as missing.
        kept: folder of kept results and of interpretations written by hand.

    Raises:
        Interrupted: when asked to stop before the report is begun; the report itself can be interrupted.
    """
    folder = ExperimentFolder(plan, workspace, kept)
    if plan.experiment.looks:
        folder = _run_looks(folder)
    experiment = folder.experiment
    if distributed.is_main():
        folder.write_plan(check_recipes(cell.recipe for cell in experiment.cells))
    run_stages(folder.plan.stages_of(experiment.select_cells(only)), workspace)
    if distributed.is_main():
        with raise_on_signal():
            if workspace.stop():
                raise Interrupted(RESUMABLE)
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
        reached = replace(folder, plan=folder.plan.with_seeds(due))
        if distributed.is_main():
            reached.write_plan(notes)
        todo = reached.plan.stages_of(reached.experiment.headline_cells())
        if not missing_stages(todo, folder.workspace):
            return reached
        announce(due, folder)
        run_stages(todo, folder.workspace)


def detach(plan: Plan, workspace: Workspace, only: str | None = None, kept: Path | None = None) -> str:
    """Submit the stages that are not on disk yet to an executor that outlives this process.

    Returns:
        The executor's message, which says how to find the jobs.

    Raises:
        SpecError: if the executor cannot run detached.
    """
    experiment = plan.experiment
    ExperimentFolder(plan, workspace, kept).write_plan(
        check_recipes(cell.recipe for cell in experiment.cells)
    )
    missing = missing_stages(plan.stages_of(experiment.select_cells(only)), workspace)
    kind = find("executors", "serial" if workspace.executor == "auto" else workspace.executor)
    return kind.detach([stage.counted() for stage in missing], workspace)


def run_recipes(recipes: Iterable[Recipe], workspace: Workspace, tested: bool = True) -> None:
    """Train the stages of some recipes that are not on disk yet; warn of networks that fail their checks."""
    todo = plan_recipes(recipes, tested)
    for problem in check_recipes(stage.recipe for stage in missing_stages(todo, workspace)):
        warnings.warn(problem, stacklevel=2)
    run_stages(todo, workspace)


def run_stages(todo: list[PlannedStage], workspace: Workspace) -> None:
    """Train the stages that are not on disk yet, with a progress display.

    Raises:
        Interrupted: when asked to stop, after every running stage has saved a checkpoint.
        SelfPretrainError: if a stage failed; finished stages are kept.
    """
    missing = missing_stages(todo, workspace)
    if not missing:
        return
    for stage in missing:
        if stage.recipe.task_of(stage.recipe.last).stub:
            raise SpecError(f"{stage.title}: planned with a stub of its data; plan it without one to run it")
    missing = [stage.counted() for stage in missing]
    costs = {stage.id: stage.cost.flops if stage.cost else 0.0 for stage in missing}
    executor = find("executors", _executor_name(missing, costs, workspace))(workspace)
    titles = {stage.id: stage.title for stage in missing}
    with show_stages(costs, len(todo), workspace.quiet, titles), tracking(workspace):
        StageQueue(
            missing, executor, workspace.stop, lambda stage: workspace.folder(stage.id).is_running, costs
        ).run()


def _executor_name(missing: list[PlannedStage], costs: dict[str, float], workspace: Workspace) -> str:
    """Return the executor's name; auto is processes if they save more time than they take to start."""
    if workspace.executor != "auto":
        return workspace.executor
    if workspace.workers == 1:
        return "serial"
    seconds = sum(
        STAGE_OVERHEAD + (stage.recipe.last.budget.seconds or costs[stage.id] / cost.SPEED)
        for stage in missing
    )
    return "processes" if seconds > WORKER_START * workspace.workers else "serial"


class StageQueue:
    """Runs stages on an executor, each after the one it starts from.

    They start in order, except that critical chains come first: those that cost more than an even share of
    the remaining work. A stage that is locked by another process is postponed until nothing else is left.

    A lost stage is retried up to ``executor.attempts`` times; a failed one is not. After a failure or a stop
    request no further stage is started, and running ones may finish.
    """

    def __init__(
        self,
        stages: list[PlannedStage],
        executor: Executor,
        stop: Stop,
        is_running: Callable[[PlannedStage], bool] = lambda stage: False,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        self.executor = executor
        self.stop = stop
        self.is_running = is_running
        self.costs = costs or dict.fromkeys((stage.id for stage in stages), 0.0)
        self.chains = chain_costs(stages, self.costs)
        self.left = sum(self.costs.values())
        self.waiting = list(stages)
        self.open = {stage.id for stage in stages}
        self.running: set[str] = set()
        self.lost: dict[str, int] = {}
        self.failures: list[SelfPretrainError] = []
        self.stopping = False

    def run(self) -> None:
        """Run all stages.

        Raises:
            Interrupted: when asked to stop, after every running stage has saved a checkpoint.
            SelfPretrainError: if a stage failed or was lost too often; finished stages are kept.
        """
        try:
            self.executor.announce(self.waiting)
            while self.running or (self.waiting and not self.is_closing):
                self._start()
                for ended in self.executor.poll(PAUSE):
                    self._handle(ended)
                if self.stop() and not self.stopping:
                    self.stopping = True
                    self.executor.stop()
        finally:
            self.executor.close()
        if self.failures:
            raise self.failures[0]
        if self.waiting:
            raise Interrupted(RESUMABLE)

    @property
    def is_closing(self) -> bool:
        """Whether no further stage is started."""
        return self.stopping or bool(self.failures)

    def _start(self) -> None:
        ready = [] if self.is_closing else [each for each in self.waiting if each.parent not in self.open]
        slots = self.executor.slots
        share = self.left / max(slots, 1)
        room = slots - len(self.running)
        # Critical chains first: started last, such a chain would run alone at the end.
        ready.sort(key=lambda stage: self.chains[stage.id] < share)
        free = list(islice((stage for stage in ready if not self.is_running(stage)), max(room, 0)))
        # With nothing else to do, start a stage that another process has locked: it waits for the lock.
        for stage in free or (ready[:1] if not self.running else []):
            self.waiting.remove(stage)
            self.running.add(stage.id)
            self.executor.start(stage)

    def _handle(self, ended: Ended) -> None:
        stage = ended.stage
        self.running.discard(stage.id)
        match ended.how:
            case "done":
                self.open.discard(stage.id)
                self.left -= self.costs[stage.id]
            case "stopped":
                self.waiting.append(stage)
                self.stopping = True
            case "lost":
                self._handle_lost(ended)
            case "failed":
                self._handle_failure(ended)

    def _handle_lost(self, ended: Ended) -> None:
        name = ended.stage.id
        self.lost[name] = self.lost.get(name, 0) + 1
        emit(Event("lost", name, numbers={"attempts": self.lost[name]}))
        if self.lost[name] < self.executor.attempts:
            self.waiting.append(ended.stage)
        else:
            self._handle_failure(ended)

    def _handle_failure(self, ended: Ended) -> None:
        self.failures.append(ended.error or SelfPretrainError(f"{ended.stage.id} failed"))
