"""What the commands ``compare`` and ``study`` do: plan, run and forecast comparisons and studies."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .config import amended, to_dict
from .errors import DoesNotFit, SelfPretrainError, SpecError
from .mixers.base import Mixer
from .registry import find, name_of, resolve
from .report.results import STUDY, ExperimentResults, read_plan
from .report.sequential import SequentialDesign, parse_seeds
from .runner.experiment import Cell, Experiment
from .runner.experiment_dir import ExperimentFolder
from .runner.forecast import Forecast, forecast, with_tuning
from .runner.plan import Plan
from .runner.run import StageQueue, begin, detach, finish
from .runner.sequential import expected_seeds, reached
from .runner.trackers.base import tracking
from .runner.tuning import trials_of, tune
from .runner.workspace import Workspace, run_context
from .studies.arms.base import USUAL, Arm
from .studies.base import SHIPPED, Scale, Study, scale_of
from .studies.compare import Comparison, build_comparison
from .studies.recipes.defaults import DEMO, DEMO_OBJECTIVE, DEMO_TASK
from .system import distributed
from .system.events import Event, emit, format_duration
from .tasks.base import Task
from .training.cost import COUNTED, Planner
from .training.recipe import RESULTS, digests_of
from .training.step import default_precision

LONG = 2048
"""Length above which a forecast estimates FLOPs, since counting takes longer than a second."""
SAFE = 0.8
"""Share of a time limit that training may use; the rest is for validation and testing."""
Settings = Mapping[str, Any]
"""Settings by path, e.g. ``{"task.train": 500, "pretrain.optim.lr": 3e-3}``."""


@dataclass(frozen=True)
class Request:
    """A study at a scale, and the options of its run."""

    study: Study
    scale: Scale = "small"
    first_seed: int = 0  # seeds are counted from this one
    only: str | None = None  # run only this ROW/COLUMN, see ``Experiment.select_cells``
    tune: bool = False  # first tune the hyperparameters of every cell on validation
    results: Path | None = None  # folder of bundled results, read and updated; None: ours, read-only
    fresh: bool = False  # ignore bundled results and train everything
    design: SequentialDesign | None = None  # when to stop adding seeds; the study has the most of them
    share: float = 1.0  # of every budget, to end within a time limit
    digest: str = ""  # of the comparison before it was shortened, which then names the folder

    def experiment(self, planner: Planner = COUNTED) -> Experiment:
        """Return the experiment to run, before tuning.

        Raises:
            SpecError: if seeds are to be added until the verdict is decided, and this study has none; or if
                tuning would replace what defines an arm.
        """
        if self.tune:
            self.study.check_tuning()
        experiment = self.study.experiment(self.scale, self.first_seed, planner)
        if self.design and self.only:
            raise SpecError("--only runs a part, and cannot be decided by it; give --seeds a number")
        if self.design and not experiment.contrasts:
            raise SpecError(f"{experiment.name} compares no two arms; give --seeds a number")
        return replace(experiment, design=self.design, share=self.share, digest=self.digest)

    @property
    def bundled(self) -> Path | None:
        """Folder of bundled results; None for studies that keep none."""
        return (self.results or SHIPPED) if self.study.lasting else None


@dataclass(frozen=True)
class PlannedRequest:
    """A request, the plan of its stages, and the planner that has counted their costs."""

    request: Request
    plan: Plan
    planner: Planner


def compare(
    task: str | Task | tuple[str | Task, ...] | None = None,
    mixers: tuple[str | Mixer, ...] = ("attention", "lru"),
    objective: str | None = None,
    seeds: int | str = 4,
    scale: Scale = "small",
    settings: Settings | None = None,
    workspace: Workspace | None = None,
    arms: tuple[str | Arm, ...] = USUAL,
) -> ExperimentResults:
    """Compare training from scratch with self-pretraining for each architecture.

    Args:
        task: name, task, or tuple of them; None: ``paths`` with a budget of minutes (``defaults.DEMO``).
        mixers: names or mixers.
        objective: name of the pretraining objective; None: the one that suits the task.
        seeds: number of repetitions; seeds 0 to n - 1 are run. "auto", or a range such as "4..12": as many
            as the verdict needs.
        settings: settings to change, by path.
        workspace: where to run; None: the folder ``runs`` with one worker.
        arms: names or arms; the difference of SPT and scratch (matched) is the headline.

    Raises:
        SpecError: if a name is unknown or a setting is invalid.
        SelfPretrainError: if a stage failed; finished stages are kept, and the same call resumes.
    """
    workspace = _checked(workspace)
    settings = resolve_settings(settings or {}, workspace)
    most, design = parse_seeds(seeds)
    study = comparison(task, mixers, objective, most, scale_of(scale), settings, arms=arms)
    return run_request(Request(study, scale, design=design), workspace)


def study(
    name: str,
    seeds: int | str = 3,
    scale: Scale = "small",
    workspace: Workspace | None = None,
    fresh: bool = False,
) -> ExperimentResults:
    """Run a registered study, or reuse its bundled results, and write its report.

    Args:
        seeds: number of seeds; "auto", or a range such as "4..12": as many as the verdict needs.
        fresh: ignore bundled results and train everything.

    Raises:
        SpecError: if there is no such study, or no recipe at that scale.
        SelfPretrainError: if a stage failed; finished stages are kept, and the same call resumes.
    """
    workspace = _checked(workspace)
    most, design = parse_seeds(seeds)
    found = find_study(name, scale_of(scale), most, workspace)
    return run_request(Request(found, scale, fresh=fresh, design=design), workspace)


def resolve_settings(settings: Settings, workspace: Workspace) -> Settings:
    """Return the settings of a comparison, by default with the usual precision where its stages run."""
    return {"stage.precision": default_precision(workspace.stage_device)} | dict(settings)


def find_study(name: str, scale: Scale, seeds: int, workspace: Workspace) -> Study:
    """Return a registered study, with the default precision of the stages' device at paper scale.

    The bundled results of smaller scales are in single precision, so these scales keep it on every device.
    """
    found: Study = find("studies", name).at_scale(scale, seeds)
    return found.with_precision(default_precision(workspace.stage_device)) if scale == "paper" else found


def comparison(
    task: str | Task | tuple[str | Task, ...] | None,
    mixers: tuple[str | Mixer, ...],
    objective: str | None,
    seeds: int,
    scale: Scale,
    settings: Settings,
    planner: Planner = COUNTED,
    arms: tuple[str | Arm, ...] = USUAL,
) -> Comparison:
    """Return the study that ``compare`` runs; for a dry run, the planner brings stubs of data."""
    usual: tuple[str, ...] = ()
    if task is None:
        task = DEMO_TASK
        objective = objective or DEMO_OBJECTIVE
        usual = DEMO
    of_task = {path.removeprefix("task."): v for path, v in settings.items() if path.startswith("task.")}
    augment = str(of_task.pop("augment", False)).lower()
    if augment not in ("true", "false"):
        raise SpecError(f"task.augment={augment}: use true or false")
    named = list(task) if isinstance(task, tuple | list) else [task]
    for each in named:
        if not isinstance(each, str | Task):
            kind = type(each).__name__
            raise SpecError(f"{kind} is no task; give names or tasks, e.g. ('digits', load_task('digits'))")
    tasks = [amended(resolve("tasks", each), of_task) for each in named]
    if twice := [each for i, each in enumerate(tasks) if each in tasks[:i]]:
        raise SpecError(f"task {name_of(twice[0])!r} is given twice; name every task once")
    if isinstance(mixers, str):
        raise SpecError(f"mixers={mixers!r}: give a tuple of names, e.g. mixers=({mixers!r},)")
    made = tuple(resolve("mixers", mixer) for mixer in mixers)
    for each in made:
        if not isinstance(each, Mixer):
            kind = getattr(each, "__name__", type(each).__name__)
            raise SpecError(f"{kind} is not a mixer; give a callable of yours by name, e.g. 'mylab:{kind}'")
    if not tasks or not made:
        raise SpecError("there is nothing to compare: name a task and a mixer at least")
    rest = {path: value for path, value in settings.items() if not path.startswith("task.")}
    study = build_comparison(
        tasks, made, objective, scale, seeds, usual=usual, planner=planner, columns=arms
    ).with_settings(rest)
    return study.with_augmentation() if augment == "true" else study


def forecast_planner(scale: Scale, stubs: bool = False) -> Planner:
    """Return a planner for forecasts, which counts no long sequences, and nothing at the paper scale.

    Args:
        stubs: prepare no data; plan with stubs where they are not prepared.
    """
    return Planner(0 if scale == "paper" else LONG, stubs)


def plan_request(request: Request, planner: Planner = COUNTED) -> PlannedRequest:
    """Build the experiment of a request, and name its stages."""
    return PlannedRequest(request, Plan.of(request.experiment(planner)), planner)


def run_request(
    request: Request, workspace: Workspace, planned: PlannedRequest | None = None
) -> ExperimentResults:
    """Train the stages that are not on disk yet, write the report, and return the results.

    Args:
        planned: the request, planned before; its experiment is run if its costs are exact.

    Raises:
        Interrupted: when asked to stop; the same call resumes.
        DoesNotFit: if a stage needs more memory than there is; all others are done, and in the report.
    """
    with run_context(workspace) as here, tracking(here):
        if planned is None or not planned.planner.exact:  # an estimated budget in FLOPs is of another stage
            planned = plan_request(request)
        if request.tune:  # whose choices are other stages
            folder = ExperimentFolder(planned.plan, here, request.bundled)
        else:
            folder = reached(restore_bundled(request, planned.plan, here))
        current = distributed.any_process(distributed.is_main() and folder.is_current)
        if request.tune or request.only or not current:
            plan = planned.plan
            if request.tune:
                if distributed.is_main() and request.digest:
                    folder.write_plan()  # keeps the share of a time limit, should tuning be interrupted
                plan = Plan.of(tune(plan.experiment, request.study.space, here))
                folder = restore_bundled(request, plan, here)
            try:
                folder = begin(plan, here, request.bundled)
                todo = folder.plan.stages_of(folder.experiment.select_cells(request.only))
                StageQueue.of(todo, here).run()
            except SelfPretrainError as error:
                if isinstance(error, DoesNotFit):
                    finish(folder, [f"Not trained: {error}."])
                if request.results:
                    folder.keep_stages()
                raise
            finish(folder)
        if request.results:
            folder.keep()
        return folder.results


def submit_request(request: Request, workspace: Workspace) -> str:
    """Submit the stages that are not on disk yet to a scheduler, and return how to find its jobs.

    Raises:
        SpecError: if the request decides by results, or jobs cannot be submitted.
    """
    check_detached(request, workspace)
    plan = plan_request(request).plan
    restore_bundled(request, plan, workspace)
    return detach(plan, workspace, request.only, request.bundled)


def check_detached(request: Request, workspace: Workspace) -> None:
    """Check that a request decides nothing by results, and that its stages can be submitted at once.

    Raises:
        SpecError: if they cannot.
    """
    if request.tune:
        raise SpecError("--tune chooses by results; run it without --detach")
    if request.design:
        raise SpecError("--seeds auto decides by results; run it without --detach, or give a number of seeds")
    if workspace.trackers:
        raise SpecError(
            "--track logs from this process, which --detach ends; run it without --detach, or without --track"
        )
    if workspace.executor == "auto" or not find("executors", workspace.executor).submits_all:
        raise SpecError(
            "--detach needs --executor slurm; on a Ray cluster, `ray job submit -- selfpretrain ...` detaches"
        )


def forecast_request(
    planned: PlannedRequest, workspace: Workspace, gpu: str = "", timed: bool = False
) -> Forecast:
    """Estimate the cost of a planned request; nothing is written.

    Args:
        gpu: estimate memory, time and price on this GPU instead, one of ``gpus.GPUS``.
        timed: measure the time per step on this machine instead of estimating it from FLOPs.
    """
    request = planned.request
    experiment = planned.plan.experiment
    folder = ExperimentFolder(planned.plan, workspace, None if request.fresh else request.bundled)
    bundled = None if request.fresh else folder.bundled_stages
    how = (gpu, bundled, timed, planned.planner)
    where = workspace
    if request.tune:  # which chooses other stages than those that may be there
        trials = forecast(trials_plan(request, experiment), workspace, None, *how, False)
        where = nowhere(workspace)
        how = (gpu, frozenset(), timed, planned.planner)
    found = forecast(planned.plan, where, experiment.select_cells(request.only), *how)
    if request.tune:
        found = with_tuning(found, trials)
    if experiment.design is None:
        return found
    least = forecast(planned.plan, where, experiment.first_analysis, *how)
    notes = (
        f"{experiment.design.last} seeds are the most; to the first interim analysis, at "
        f"{experiment.design.first} seeds: {least.total}",
        *expected_seeds(folder, experiment.design),
    )
    return replace(found, notes=(*found.notes, *notes))


def nowhere(workspace: Workspace) -> Workspace:
    """Return the workspace with a folder of runs that has none."""
    return replace(workspace, runs=workspace.runs / "none")


def trials_plan(request: Request, experiment: Experiment) -> Plan:
    """Return the plan of the stages that tuning trains before those of a request.

    Raises:
        SpecError: if the seed of the trials is one that is to be reported.
    """
    tried = trials_of(experiment, request.study.space)
    cells = [Cell("", "", recipe) for recipes in tried.values() for recipe in recipes]
    return Plan.of(Experiment("tuning", "", tuple(cells), ()))


def restore_bundled(request: Request, plan: Plan, workspace: Workspace) -> ExperimentFolder:
    """Return the folder of an experiment, its bundled stages restored unless the request is ``fresh``."""
    folder = ExperimentFolder(plan, workspace, request.bundled)
    if distributed.is_main():
        if request.fresh:
            folder.forget()
        elif found := folder.restore():
            emit(Event("restored", str(request.bundled), found, found))
    distributed.barrier()
    return folder


def fit_to_time_limit(request: Request, limit: float, workspace: Workspace, planner: Planner) -> Request:
    """Return the request of a comparison that ends within a limit: all arms are shortened by the same factor.

    The factor is measured once and kept in the experiment's folder, so that the same command resumes the same
    stages.

    Args:
        limit: in seconds.

    Raises:
        SpecError: if the shortened budgets are too small, or the stages will not run on this machine.
    """
    if workspace.elsewhere:
        raise SpecError("--minutes measures steps on this machine; with a cluster set budgets with -s")
    study = request.study
    assert isinstance(study, Comparison), "only these can be shortened"
    plain = to_dict(study)
    content = [plain, limit, request.first_seed, str(request.design), *["tuned"] * request.tune]
    content += [RESULTS, digests_of(plain), [task.version() for task in study.tasks]]
    named = replace(request, digest=hashlib.sha256(json.dumps(content).encode()).hexdigest()[:10])
    plan = Plan.of(named.experiment(planner))
    folder = workspace.runs / plan.experiment.folder
    if (folder / STUDY).is_file():
        share = read_plan(folder).share
    elif distributed.launched() > 1:
        raise SpecError("--minutes measures steps in one process: begin without torchrun, which then goes on")
    else:
        empty = nowhere(workspace)
        seconds = forecast(plan, empty, timed=True, planner=planner).seconds
        if request.tune:
            trials = trials_plan(named, plan.experiment)
            seconds += forecast(trials, empty, timed=True, planner=planner, tested=False).seconds
        share = min(1.0, SAFE * limit / max(seconds, 1e-3))
    why = f"to end within {format_duration(limit)} rather than {format_duration(SAFE * limit / share)}"
    return replace(named, study=study if share == 1 else study.scale_budget(share, why), share=share)


def _checked(workspace: Workspace | None) -> Workspace:
    """Return where to run; by default the folder ``runs`` and one worker, which needs no main guard."""
    if workspace is None:
        return Workspace.of(Path("runs"), workers="1")
    if not isinstance(workspace, Workspace):
        given = str(workspace)
        raise SpecError(f"workspace={given!r} is no Workspace; give Workspace.of({given!r}, workers='1')")
    return workspace
