"""A stage in a process that an engine starts, on any machine that sees the folder of runs."""

import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import Interrupted, SelfPretrainError, SpecError
from ...system.mirror import bucket_of, opened
from ...system.signals import interruptible
from ...training.stage_folder import Folder
from ..detached import DetachedJob
from ..plan import Job
from ..replay import replay
from ..stage import run_stage
from ..workspace import Workspace, never
from .base import Ended

LOOKS = 2.0
"""Seconds between looks at whether the driver asks to stop."""
Outcome = tuple[str, str]
"""How a stage ended, as in ``Ended``, and why it failed: nothing that needs this package to be read."""


@dataclass(frozen=True)
class Mark:
    """A file of the folder of runs that asks to stop: by being there, or, as a plan does, by being gone."""

    name: str
    gone: bool = False

    @classmethod
    def new(cls) -> "Mark":
        """One that does not ask yet."""
        return cls(f".stop-{uuid.uuid4().hex[:8]}")

    def asks(self, runs: Path) -> bool:
        """Whether it asks to stop."""
        return Folder(runs).stands(self.name) is not self.gone


def carry_out(job: DetachedJob, workspace: Workspace, mark: Mark) -> Outcome:
    """Run a stage here, if it would be the same here, until ``mark`` or a signal asks to stop."""
    looked, asked_to = 0.0, False

    def marked() -> bool:
        nonlocal looked, asked_to
        if time.monotonic() - looked > LOOKS:
            looked, asked_to = time.monotonic(), mark.asks(runs)
        return asked_to

    try:
        runs = opened(workspace.runs)
        trusted = tuple({module.partition(".")[0] for module in job.said["source"]})
        with interruptible() as asked:
            here = replace(workspace, runs=runs, stop=lambda: asked() or marked() or workspace.stop())
            run_stage(job.job(here, trusted).recipe, here, job.tested)
    except Interrupted as error:
        return "stopped", str(error)
    except SelfPretrainError as error:
        return "failed", str(error)
    return "done", ""


def ended(job: Job, outcome: Outcome, workspace: Workspace) -> Ended:
    """What the scheduler is told; the events of a stage that is done are told now."""
    how, reason = outcome
    if how == "done":
        replay(workspace.named(job.name))
        return Ended(job, "done")
    if how == "stopped":
        return Ended(job, "stopped", Interrupted(reason))
    return Ended(job, "lost" if how == "lost" else "failed", SelfPretrainError(reason))


def portable(workspace: Workspace) -> Workspace:
    """The workspace as other machines have it: with a full path, on a GPU where stages are given one."""
    device = "cuda" if number(workspace, "gpus", 0.0) else workspace.device
    bucket = bucket_of(workspace.runs)
    runs = Path(bucket.url) if bucket else workspace.runs.absolute()
    return replace(workspace, runs=runs, device=device, stop=never, trackers=(), executor="serial")


def number(workspace: Workspace, name: str, otherwise: float) -> float:
    """A setting of the executor that is a number.

    Raises:
        SpecError: if it is none.
    """
    text = workspace.executor_settings.get(name, str(otherwise))
    try:
        return float(text)
    except ValueError as error:
        raise SpecError(f"--with {name}={text}: give a number") from error
