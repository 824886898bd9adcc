"""Run experiments and recipes: train the stages that are not on disk yet, then write the report."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ..config import is_ours
from ..errors import DoesNotFit, Interrupted, SelfPretrainError, SpecError
from ..registry import find
from ..system import distributed
from ..system.events import Event, emit
from ..system.progress import show_stages
from ..system.startup import raise_on_signal
from ..training.gpus import CPU_CORE
from ..training.mixer_checks import check_recipes
from ..training.recipe import Recipe, load_split
from ..training.train import Stop
from .executors.base import Ended, Executor
from .experiment_dir import ExperimentFolder
from .plan import Plan, PlannedStage, chain_costs, missing_stages, plan_recipes
from .sequential import announce, seeds_by_place
from .trackers.base import tracking
from .workspace import Workspace

WORKER_START = 3.0
"""Seconds to start a worker process."""
STAGE_OVERHEAD = 0.3
"""Seconds that a stage takes in addition to training."""
PAUSE = 0.1
"""Seconds between polls for finished stages."""
RESUMABLE = "stopped; the same command resumes from here"


def begin(plan: Plan, workspace: Workspace, bundled: Path | None = None) -> ExperimentFolder:
    """Check the mixers of an experiment, write its plan, and return its folder; train what a design asks for.

    Args:
        bundled: folder of bundled results and of interpretations written by hand.
    """
    folder = ExperimentFolder(plan, workspace, bundled)
    faults = _faults(folder)
    if plan.experiment.design:
        folder = _run_sequentially(folder, faults)
    if distributed.is_main():
        folder.write_plan(faults)
    return folder


def _faults(folder: ExperimentFolder) -> list[str]:
    """Return what the checks of mixers find, in the main process, and warn of it."""
    recipes = (cell.recipe for cell in folder.experiment.cells)
    found = check_recipes(recipes) if distributed.is_main() else []
    for fault in found:
        warnings.warn(fault, stacklevel=3)
    return found


def finish(folder: ExperimentFolder, notes: Iterable[str] = ()) -> None:
    """Write the report of an experiment.

    Args:
        notes: what a reader should know of this run, e.g. which stages did not fit into memory.

    Raises:
        Interrupted: when asked to stop before the report is begun; the report itself can be interrupted.
    """
    if distributed.is_main():
        with raise_on_signal():
            if folder.workspace.stop():
                raise Interrupted(RESUMABLE)
            folder.finish(notes)


def _run_sequentially(folder: ExperimentFolder, faults: list[str]) -> ExperimentFolder:
    """Train seed after seed until every headline difference is decided; return the folder of the cells due.

    Only the two columns of the headline are trained here; the others are left to the caller, for a verdict
    as early as possible.
    """
    planned = folder.planned() if distributed.is_main() else None
    while True:
        due = seeds_by_place(planned)
        reached = replace(folder, plan=folder.plan.with_seeds(due))
        if distributed.is_main():
            reached.write_plan(faults)
        todo = reached.plan.stages_of(reached.experiment.headline_cells())
        missing = missing_stages(todo, folder.workspace)
        if not distributed.any_process(bool(missing)):
            return reached
        announce(due, folder)
        StageQueue.of(todo, folder.workspace, missing).run()


def detach(plan: Plan, workspace: Workspace, only: str | None = None, bundled: Path | None = None) -> str:
    """Submit the stages that are not on disk yet to an executor that outlives this process.

    Returns:
        The executor's message, which says how to find the jobs.

    Raises:
        SpecError: if jobs cannot be submitted.
    """
    experiment = plan.experiment
    folder = ExperimentFolder(plan, workspace, bundled)
    faults = _faults(folder)
    missing = missing_stages(plan.stages_of(experiment.select_cells(only)), workspace)
    said = "all stages are done, so that no job is left to submit"
    if missing:
        engine = find("executors", workspace.executor)
        said = engine.detach([stage.counted() for stage in missing], workspace)
    folder.write_plan(faults)  # not before: stages of jobs that were refused would count as waiting
    return said


def run_recipes(recipes: Iterable[Recipe], workspace: Workspace, tested: bool = True) -> None:
    """Train the stages of some recipes that are not on disk yet; warn of networks that fail their checks."""
    todo = plan_recipes(recipes, tested)
    missing = missing_stages(todo, workspace)
    for problem in check_recipes(stage.recipe for stage in missing):
        warnings.warn(problem, stacklevel=2)
    StageQueue.of(todo, workspace, missing).run()


def _executor_name(missing: list[PlannedStage], costs: dict[str, float], workspace: Workspace) -> str:
    """Return the executor's name; auto is processes if they save more time than they take to start."""
    if not missing or (workspace.executor == "auto" and workspace.workers == 1):
        return "serial"
    if workspace.executor != "auto":
        return workspace.executor
    seconds = sum(
        STAGE_OVERHEAD + (stage.recipe.last.budget.seconds or costs[stage.id] / CPU_CORE) for stage in missing
    )
    return "processes" if seconds > WORKER_START * workspace.workers else "serial"


class StageQueue:
    """Runs stages on an executor, each after the one it starts from.

    They start in order, except that critical chains come first: those that cost more than an even share of
    the remaining work. A stage that is locked by another process is postponed until nothing else is left.

    A lost stage is tried ``executor.attempts`` times in all; a failed one once. After a failure or a stop
    request no further stage is started, and running ones may finish. A stage that does not fit into memory
    fails alone: only those that start from it are left out.
    """

    def __init__(
        self,
        stages: list[PlannedStage],
        executor: Executor,
        stop: Stop,
        is_running: Callable[[PlannedStage], bool] = lambda stage: False,
        costs: Mapping[str, float] | None = None,
        display: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.executor = executor
        self.stop = stop
        self.is_running = is_running
        self.costs = costs or dict.fromkeys((stage.id for stage in stages), 0.0)
        self.display = display
        self.chains = chain_costs(stages, self.costs)
        self.left = sum(self.costs.values())
        self.waiting = list(stages)
        self.open = {stage.id for stage in stages}
        self.running: set[str] = set()
        self.lost: dict[str, int] = {}
        self.failures: list[SelfPretrainError] = []
        self.unfit: list[str] = []  # why stages do not fit into memory
        self.stopping = False
        self.asked_to_stop = False

    @classmethod
    def of(
        cls, stages: list[PlannedStage], workspace: Workspace, missing: list[PlannedStage] | None = None
    ) -> "StageQueue":
        """Return a queue of the stages that are not on disk yet, with a progress display.

        Args:
            missing: those that are not on disk yet, if that is known.

        Raises:
            SpecError: if a stage was planned with a stub of its data.
            DataError: if a task of other code leaves nothing to validate or to test with.
        """
        missing = missing_stages(stages, workspace) if missing is None else missing
        # The processes of torchrun take the same stages, in whatever order they look at the disk.
        due = set(distributed.broadcast([stage.id for stage in missing]))
        missing = [stage for stage in stages if stage.id in due]
        for stage in missing:
            if stage.recipe.task_of(stage.recipe.last).stub:
                raise SpecError(
                    f"{stage.recipe.title}: planned with a stub of its data; plan it without one to run it"
                )
        scored = [stage.recipe for stage in missing if stage.tested]
        for recipe in {repr(recipe.task_of(recipe.last)): recipe for recipe in scored}.values():
            if not is_ours(type(recipe.task_of(recipe.last)).__module__):
                load_split(recipe, "val")
                load_split(recipe, "test")
        missing = [stage.counted() for stage in missing]
        costs = {stage.id: stage.cost.flops if stage.cost else 0.0 for stage in missing}
        executor = find("executors", _executor_name(missing, costs, workspace))(workspace)

        def is_running(stage: PlannedStage) -> bool:  # with torchrun the first process waits for the lock
            return distributed.world_size() == 1 and workspace.folder(stage.id).is_running

        @contextmanager
        def display() -> Iterator[None]:
            titles = {stage.id: stage.recipe.title for stage in missing}
            with show_stages(costs, len(stages), workspace.quiet, titles), tracking(workspace):
                yield

        return cls(missing, executor, workspace.stop, is_running, costs, display if missing else nullcontext)

    def run(self) -> None:
        """Run all stages.

        Raises:
            Interrupted: when asked to stop, after every running stage has saved a checkpoint.
            SelfPretrainError: if a stage failed or was lost too often; finished stages are kept.
            DoesNotFit: if a stage does not fit into memory; all others have finished.
        """
        with self.display(), closing(self.executor):
            self.executor.announce(self.waiting)
            while self.running or (self.waiting and not self.is_closing):
                self._start()
                for ended in self.executor.poll(PAUSE):
                    self._handle(ended)
                if self.stop() and not self.asked_to_stop:
                    self.asked_to_stop = self.stopping = True
                    self.executor.stop()
        if self.failures:
            raise self.failures[0]
        if self.waiting:
            raise Interrupted(RESUMABLE)
        if self.unfit:
            raise DoesNotFit("; ".join(self.unfit))

    @property
    def is_closing(self) -> bool:
        """Return whether no further stage is started."""
        return self.stopping or bool(self.failures)

    def _start(self) -> None:
        ready = [] if self.is_closing else [each for each in self.waiting if each.parent not in self.open]
        slots = self.executor.slots
        share = self.left / max(slots, 1)
        room = slots - len(self.running)
        # Critical chains first: started last, such a chain would run alone at the end.
        ready.sort(key=lambda stage: self.chains[stage.id] < share)
        open_to_us = (s for s in ready if self.executor.submits_all or not self.is_running(s))
        free = list(islice(open_to_us, max(room, 0)))
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
                self.lost[stage.id] = self.lost.get(stage.id, 0) + 1
                emit(Event("lost", stage.id, numbers={"attempts": self.lost[stage.id]}))
                if self.lost[stage.id] < self.executor.attempts:
                    self.waiting.append(stage)
                else:
                    self._handle_failure(ended)
            case "failed":
                self._handle_failure(ended)

    def _handle_failure(self, ended: Ended) -> None:
        """Note a failure; a stage that does not fit takes those off the queue that start from it."""
        if not isinstance(ended.error, DoesNotFit):
            self.failures.append(ended.error or SelfPretrainError(f"{ended.stage.id} failed"))
            return
        # Its words alone: the traceback of the error would keep tensors of the stage on the GPU.
        self.unfit.append(str(ended.error))
        gone = {ended.stage.id}
        for other in list(self.waiting):
            if other.parent in gone:
                gone.add(other.id)
                self.waiting.remove(other)
        self.left -= sum(self.costs[name] for name in gone)
        warnings.warn(f"{self.unfit[-1]}; the other stages go on", stacklevel=2)
