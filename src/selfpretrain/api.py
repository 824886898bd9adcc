"""Comparisons and studies, carried out: the functions behind ``spt compare`` and ``spt study``."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .config import amended, to_dict
from .errors import SpecError
from .mixers.base import Mixer
from .registry import find, resolve
from .report.results import ExperimentResults, read
from .runner.experiment import Experiment
from .runner.experiment_dir import ExperimentFolder
from .runner.plan import Forecast, forecast, remember_costs, remembered_costs
from .runner.run import detach, run_experiment
from .runner.tuning import tune
from .runner.workspace import Workspace, at_work
from .studies.base import SHIPPED, Scale, Study
from .studies.compare import Compare, CompareOverTasks, prepare
from .studies.recipes.defaults import DEMO, DEMO_OBJECTIVE, DEMO_TASK
from .system.events import Event, duration, emit
from .system.files import FORMAT
from .tasks.base import Task
from .tasks.common.dataset_stub import stubbed_data
from .training.cost import drafting
from .training.run_dir import RunDir
from .training.step import default_precision

SHARES = "time-limits.json"
"""Of a folder of runs: how much of their training comparisons may do, by what they are and how long."""
SAFE = 0.8
"""Share of a time limit that training may take; the rest is for validating and testing."""
Comparison = Compare | CompareOverTasks
Settings = Mapping[str, Any]
"""Settings by their paths and new values, e.g. ``{"task.train": 500, "pretrain.optim.lr": 3e-3}``."""


@dataclass(frozen=True)
class Request:
    """A study, at a scale, and how it is to be carried out."""

    study: Study
    scale: Scale = "small"
    first_seed: int = 0  # seeds are counted from here on
    only: str | None = None  # ROW/COLUMN to run alone, see ``Experiment.chosen``
    tune: bool = False  # first choose every cell's settings on validation
    results: Path | None = None  # kept results, read first and written last; None: those that ship, read only
    fresh: bool = False  # use no kept results

    def experiment(self) -> Experiment:
        """What the runner carries out, but for tuning."""
        return self.study.experiment(self.scale, self.first_seed)

    @property
    def kept(self) -> Path | None:
        """The folder of kept results, for studies that have any."""
        return (self.results or SHIPPED) if self.study.lasting else None


def compare(
    task: str | Task | tuple[str | Task, ...] | None = None,
    mixers: tuple[str | Mixer, ...] = ("attention", "s4d"),
    objective: str | None = None,
    seeds: int = 4,
    scale: Scale = "small",
    settings: Settings | None = None,
    workspace: Workspace | None = None,
) -> ExperimentResults:
    """Compare training from scratch with self-pretraining, architecture by architecture.

    Without a task it is the demonstration: ``paths`` with a budget of minutes (``recipes.defaults.DEMO``).

    Raises:
        SpecError: if a name is not known, or a setting does not fit.
        SelfPretrainError: if a stage failed; what was finished stays, and the same call goes on.
    """
    workspace = workspace or _usual_workspace()
    settings = settled(settings or {}, workspace)
    return carry_out(Request(comparison(task, mixers, objective, seeds, scale, settings), scale), workspace)


def study(
    name: str, seeds: int = 3, scale: Scale = "small", workspace: Workspace | None = None, fresh: bool = False
) -> ExperimentResults:
    """Run a study of the shelf, or take what was measured before, and make its report.

    Raises:
        SpecError: if there is no such study, or no recipe at that scale.
        SelfPretrainError: if a stage failed; what was finished stays, and the same call goes on.
    """
    workspace = workspace or _usual_workspace()
    return carry_out(Request(asked(name, scale, seeds, workspace), scale, fresh=fresh), workspace)


def settled(settings: Settings, workspace: Workspace) -> Settings:
    """Settings of a comparison, with the usual precision on this device unless they say one."""
    return {"stage.precision": default_precision(workspace.device)} | dict(settings)


def asked(name: str, scale: Scale, seeds: int, workspace: Workspace) -> Study:
    """A study of the shelf, on a device.

    Kept results of small networks are in single precision; so it is the papers' scale that has another one.
    """
    found: Study = find("studies", name).at(scale, seeds)
    return found.with_precision(default_precision(workspace.device)) if scale == "paper" else found


def comparison(
    task: str | Task | tuple[str | Task, ...] | None,
    mixers: tuple[str | Mixer, ...],
    objective: str | None,
    seeds: int,
    scale: Scale,
    settings: Settings,
) -> Comparison:
    """Return the study that ``compare`` carries out."""
    usual: tuple[str, ...] = ()
    if task is None:
        task = DEMO_TASK
        objective = objective or DEMO_OBJECTIVE
        usual = DEMO
    of_task = {path.removeprefix("task."): v for path, v in settings.items() if path.startswith("task.")}
    asked = task if isinstance(task, tuple) else (task,)
    tasks = [amended(resolve("tasks", each), of_task) for each in asked]
    made = tuple(resolve("mixers", mixer) for mixer in mixers)
    rest = {path: value for path, value in settings.items() if not path.startswith("task.")}
    parts = tuple(
        prepare(each, made, objective or each.denoising, scale, seeds, usual).amended(rest) for each in tasks
    )
    return parts[0] if len(parts) == 1 else CompareOverTasks(parts)


def carry_out(request: Request, workspace: Workspace | None = None) -> ExperimentResults:
    """Run what is not on disk yet, and make the report; what came out.

    Raises:
        Interrupted: when asked to stop; the same call goes on.
    """
    with at_work(workspace or _usual_workspace()) as here:
        with remembered_costs(here):
            folder = restored(request, request.experiment(), here)
            done = not request.tune and not request.only and folder.current
        if not done:
            folder = _run(request, here)
        if request.results:
            folder.keep()
        return read(folder.path)


def carry_out_later(request: Request, workspace: Workspace) -> str:
    """Hand what is not on disk yet to an engine, and return how to find it there.

    Raises:
        SpecError: if it depends on results that are not there yet, or the executor cannot go on alone.
    """
    if request.tune:
        raise SpecError("--tune chooses by results; run it without --detach")
    experiment = request.experiment()
    restored(request, experiment, workspace)
    return detach(experiment, workspace, request.only, request.kept)


def _usual_workspace() -> Workspace:
    return Workspace.of(Path("runs"), workers="1")  # a script needs no main guard for one


def _run(request: Request, workspace: Workspace) -> ExperimentFolder:
    """Train what is missing: for as long as is worked out now, whatever was remembered."""
    experiment = request.experiment()
    restored(request, experiment, workspace)
    try:
        if request.tune:
            experiment = tune(experiment, request.study.space, workspace)
        return run_experiment(experiment, workspace, request.only, request.kept)
    finally:
        remember_costs(workspace)


def restored(request: Request, experiment: Experiment, workspace: Workspace) -> ExperimentFolder:
    """The folder of an experiment, with the stages that were kept, unless it is to be fresh."""
    folder = ExperimentFolder(experiment, workspace, request.kept)
    if request.fresh:
        folder.forget()
    elif found := folder.restore():
        emit(Event("restored", str(request.kept), found, found))
    return folder


def foreseen(request: Request, workspace: Workspace, gpu: str = "", timed: bool = False) -> Forecast:
    """What carrying it out would cost; nothing is written, and no data are prepared.

    Args:
        gpu: also say how long it might take on this one of ``cost.GPUS``.
        timed: measure how long steps take here, rather than guess it from FLOPs.
    """
    with planning(workspace, request.scale):
        experiment = request.experiment()
        kept = None if request.fresh else ExperimentFolder(experiment, workspace, request.kept).waits
        recipes = [cell.recipe for cell in experiment.chosen(request.only)]
        return forecast(recipes, workspace, gpu, kept, timed)


def within(
    limit: float, study: Comparison, scale: Scale, workspace: Workspace, dry: bool = False
) -> Comparison:
    """The comparison with all arms shortened alike, where it would take more than ``limit`` seconds.

    How much is measured once for a folder of runs, so that the same command goes on from what it began.

    Raises:
        SpecError: if too little training would fit.
    """
    folder = RunDir(workspace.runs)
    key = hashlib.sha256(json.dumps([to_dict(study), limit]).encode()).hexdigest()[:10]
    shares = folder.remembered(SHARES)
    if key not in shares:
        empty = replace(workspace, runs=workspace.runs / "none")
        with planning(empty, scale):
            takes = forecast([cell.recipe for cell in study.cells()], empty, timed=True).seconds
        shares = {"format": FORMAT} | shares | {key: min(1.0, SAFE * limit / max(takes, 1e-3))}
        if not dry:
            RunDir.make(workspace.runs).write(SHARES, shares)
    share = shares[key]
    why = f"to end within {duration(limit)} rather than {duration(SAFE * limit / share)}"
    return study if share == 1 else study.shortened(share, why)


@contextmanager
def planning(workspace: Workspace, scale: Scale) -> Iterator[None]:
    """Nothing is prepared or written: costs are drafts, rough at the papers' scale, and data outlined."""
    with stubbed_data(), drafting("rough" if scale == "paper" else "fitted"), remembered_costs(workspace):
        yield
