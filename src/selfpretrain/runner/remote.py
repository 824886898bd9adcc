"""Stages in other processes: what Ray and Slurm workers receive, check and run."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..errors import Interrupted, SelfPretrainError, SpecError
from ..registry import name_of
from ..system.events import Event, emit
from ..system.files import Json, explain_errors
from ..system.signals import catch_signals
from ..system.startup import keep_memory
from ..training.recipe import Recipe, identity
from ..training.run_dir import LOG, RESULT, RunDir
from .plan import Job
from .stage import run_stage
from .workspace import Workspace, never

Outcome = tuple[str, str]
"""How a stage ended (done, failed, stopped or lost), and why: strings, readable without this package."""
MACHINE_PARTS = ("results", "data", "source")
"""Parts of a recipe's identity that depend on the machine."""


@dataclass(frozen=True)
class RemoteStage:
    """A stage to run in another process, with the identity that it has where it was planned."""

    job: Job
    workspace: Workspace
    identity: Json  # versions of numerics and data, hashes of modules from other packages

    @classmethod
    def of(cls, job: Job, workspace: Workspace) -> "RemoteStage":
        """Return the job with an absolute runs folder, on a GPU if the executor's settings ask for one."""
        device = "cuda" if float_setting(workspace, "gpus", 0.0) else workspace.device
        remote = replace(
            workspace,
            runs=workspace.runs.absolute(),
            device=device,
            stop=never,
            trackers=(),
            executor="serial",
        )
        parts = identity(job.recipe)
        return cls(job, remote, {name: parts[name] for name in MACHINE_PARTS})

    def run(self, stop: Callable[[], bool] = never) -> Outcome:
        """Run the stage if it has the same identity here, until a signal or ``stop`` asks to stop."""
        keep_memory()
        try:
            with catch_signals() as stop_requested:
                self._check()
                workspace = replace(self.workspace, stop=lambda: stop_requested() or stop())
                run_stage(self.job.recipe, workspace, self.job.tested)
        except Interrupted as error:
            return "stopped", str(error)
        except SelfPretrainError as error:
            return "failed", str(error)
        return "done", ""

    def _check(self) -> None:
        name = self.workspace.stage(self.job.recipe).name
        if name != self.job.name:
            differences = "; ".join(_differences(self.job.recipe, self.identity))
            raise SpecError(
                f"{self.job.name} would be another stage here: {differences or 'another version'}"
            )


def run(stage: RemoteStage) -> Outcome:
    """Run a stage until a signal asks to stop."""
    return stage.run()


def float_setting(workspace: Workspace, name: str, default: float) -> float:
    """Return a numeric setting of the executor.

    Raises:
        SpecError: if it is not a number.
    """
    text = workspace.executor_settings.get(name, str(default))
    try:
        return float(text)
    except ValueError as error:
        raise SpecError(f"--with {name}={text}: give a number") from error


def replay(stage: RunDir) -> None:
    """Replay log and scores of a finished stage as events in this process, for its trackers and displays.

    Raises:
        StoreError: if the stage has not finished, or is damaged.
    """
    result = stage.read(RESULT)
    path = stage.path / LOG
    emit(Event("start", stage.name))
    with explain_errors(path, "read"):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    total = max(1, int(result["steps"]))
    for line in map(json.loads, lines):
        kind = line.pop("kind")
        emit(Event(kind, stage.name, min(1.0, line.get("step", 0) / total), 1.0, line))
    emit(Event("end", stage.name, 1.0, 1.0, {"reused": False} | result["scores"]))


def _differences(recipe: Recipe, planned: Json) -> Iterator[str]:
    """Yield how numerics, data and modules differ from those where the stage was planned."""
    here = identity(recipe)
    if here["results"] != planned["results"]:
        yield (
            f"selfpretrain here is of numerics {here['results']}, where it was planned of "
            f"{planned['results']}; install the same version"
        )
    tasks = [recipe.task, *map(recipe.task_of, recipe.stages)]
    versions = zip(tasks, here["data"], planned["data"], strict=True)
    yield from dict.fromkeys(
        f"data of {name_of(task)} are version {ours or 'unknown'} here, {theirs or 'unknown'} there"
        for task, ours, theirs in versions
        if ours != theirs
    )
    for module in sorted(here["source"].keys() | planned["source"].keys()):
        if here["source"].get(module) != planned["source"].get(module):
            yield f"{module}.py is another file here than where it was planned"
